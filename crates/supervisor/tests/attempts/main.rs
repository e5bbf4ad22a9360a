//! Real agents under real shims. The scripts' interpreter is `sh`; nothing here is played by a fake of our own code.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, like the tests")]

extern crate supervisor as supervisor;

mod asking;
mod ending;
mod fixture;
mod lives;
mod reports;
mod start;
