//! Runs in the test's own process: edits, requests, revisions, what an engine commits, and faults of the store.

mod edits;
mod effects;
mod embedded_hosts;
mod embedded_restore;
mod engine_commits;
mod harness;
mod report_views;
mod requests;
mod revisions;
mod store_faults;
