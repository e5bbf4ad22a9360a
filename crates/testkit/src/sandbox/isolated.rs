//! Isolation by kernel namespaces: the test starts itself again in namespaces of its own, where it may mount file systems
//! and choose pids. The namespaces end with the test.

use std::process::Command;

/// What a test has to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Its own mounts.
    Mounts,
    /// Its own mounts and pids.
    Processes,
    /// The permissions of a plain user, even if root runs the tests.
    PlainUser,
}

/// The variable that is set in the namespaces.
const INSIDE: &str = "CALLBOARD_TEST_ISOLATED";

/// Runs the rest of a test in namespaces of its own. Must be the whole body of the test: the closure's type name is
/// the name by which the test is started again.
///
/// If the kernel does not allow it, the test fails with a hint; it never passes without isolation.
#[track_caller]
pub fn isolated<T: FnOnce()>(isolation: Isolation, test: T) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let name = std::any::type_name::<T>();
    let (_, name) = name.split_once("::").expect("a path begins with its crate");
    let name = name.trim_end_matches("::{{closure}}");
    let program = std::env::current_exe().expect("a test knows its program");
    // The shell is the first process of its pid namespace and reaps orphans.
    let output = Command::new("unshare")
        .args(flags(isolation))
        .args(["sh", "-c", r#""$@"; exit $?"#, "sh"])
        .arg(program)
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("unshare can be started");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && text[0].contains("1 passed"), "{}\n{}", text[0], text[1]);
}

/// Returns the first set of `unshare` flags that the kernel allows.
#[track_caller]
fn flags(isolation: Isolation) -> &'static [&'static str] {
    let candidates: &[&[&str]] = match isolation {
        Isolation::Mounts => &[&["--mount"], &["--user", "--map-root-user", "--mount"]],
        Isolation::Processes => &[
            &["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
            &["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
        ],
        Isolation::PlainUser => &[&["--user", "--map-user=1000", "--map-group=1000"]],
    };
    let allowed = |flags: &&&[&str]| {
        let tried = Command::new("unshare").args(**flags).arg("true").output();
        tried.expect("`unshare` of util-linux is needed").status.success()
    };
    candidates.iter().find(allowed).unwrap_or_else(|| {
        panic!(
            "this test needs kernel namespaces ({isolation:?}), and `unshare {}` is refused: run the tests as root, or \
             allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0; in a container, CAP_SYS_ADMIN)",
            candidates[candidates.len() - 1].join(" "),
        )
    })
}
