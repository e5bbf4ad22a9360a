//! How agents are configured, started, briefed and heard.

mod agent_clis;
mod checks;
mod copies;
mod demo;
mod rehearsing;
mod reporting;
mod roles;
mod starting;
