//! How agents are configured and started, what they are given, and how they report.

mod agent_clis;
mod checks;
mod demo;
mod private_copies;
mod rehearsing;
mod reporting;
mod roles;
mod starting;
