//! What once went wrong, each under the name of what should have happened: agents, users and machines that misbehave.

mod files;
mod inputs;
mod processes;
mod shortage;
