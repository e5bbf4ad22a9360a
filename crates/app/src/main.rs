//! The binary `callboard`.

use std::process::ExitCode;

fn main() -> ExitCode {
    callboard::main(callboard::Program::default())
}
