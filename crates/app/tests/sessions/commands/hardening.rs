//! Regression tests: misbehaving agents, users and machines. Each test is named after the correct behaviour.

mod file_descriptors;
mod files;
mod inputs;
mod processes;
