//! Regression tests: misbehaving agents, users and machines. Each test is named after the correct behaviour.

mod files;
mod inputs;
mod processes;
mod shortage;
