//! The engine lock: a lease excludes a second engine, and an epoch in the journal fences the first.

mod acquire;
mod lease;

pub(crate) use lease::Lease;
