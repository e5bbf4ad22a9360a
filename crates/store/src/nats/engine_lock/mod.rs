//! The engine lock: a lease keeps a second engine out, and a new epoch in the journal fences an engine that has lost its lease.

mod acquire;
mod lease;

pub(crate) use lease::Lease;
