//! Tests of the real binary, as users and agents use it. They are one test binary, because linking takes seconds.
//!
//! `CALLBOARD_TEST_STORE=nats` runs `sessions`, `faults` and `torture` on NATS. A test about the embedded store's file
//! has a name that begins with `embedded_`; a run on NATS skips it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod documentation;
mod faults;
mod hosts;
mod nats;
mod sessions;
mod torture;

/// Returns the built example `items`: a `callboard` with one more protocol.
fn items_program() -> std::path::PathBuf {
    example("items")
}

/// Returns an example of this crate, which `cargo build` has put beside the binary.
fn example(name: &str) -> std::path::PathBuf {
    let callboard: &std::path::Path = env!("CARGO_BIN_EXE_callboard").as_ref();
    let program = callboard.with_file_name("examples").join(name);
    assert!(program.is_file(), "`{}` is missing: run `cargo build --example {name}`", program.display());
    program
}
