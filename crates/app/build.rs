//! Links debug builds, which the tests use, without position independence.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // Tests start the unoptimised program thousands of times. With position independence, its 160,000 relocations would take a
    // fifth of each start.
    if variable("PROFILE") == "debug" && variable("CARGO_CFG_TARGET_ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-tests=-no-pie");
    }
}
