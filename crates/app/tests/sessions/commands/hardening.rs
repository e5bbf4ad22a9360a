//! Bugs of the past, each named after what should have happened: agents, users and machines that misbehave.

mod files;
mod inputs;
mod processes;
mod shortage;
