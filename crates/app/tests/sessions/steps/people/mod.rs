//! What waits for a person or a condition, and how it is answered.

mod approvals;
mod conditions;
mod inbox;
