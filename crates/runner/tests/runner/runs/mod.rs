//! Runs in the test's own process: edits, requests, revisions, and faults of the store.

mod edits;
mod embedded_hosts;
mod embedded_restore;
mod faulty_store;
mod harness;
mod requests;
mod revisions;
mod store_faults;
