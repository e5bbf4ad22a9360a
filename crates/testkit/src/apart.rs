//! A world of a test's own: the test starts itself again in kernel namespaces, where it may mount, and give out process
//! numbers, as it likes. What it does there ends with it and reaches nobody else.

use std::process::Command;

/// What a test has to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Its own mounts.
    Mounts,
    /// Its own mounts and process numbers.
    Processes,
    /// The rights of a plain user, even if root runs the tests.
    PlainUser,
}

/// Set in the world apart.
const INSIDE: &str = "CALLBOARD_TEST_APART";

/// Runs the rest of a test in a world of its own. Call it as the whole body of the test: the closure's name is how the
/// test finds itself again.
///
/// Where the machine does not allow that, the test fails and says what to do; it never passes for want of a world.
#[track_caller]
pub fn apart<T: FnOnce()>(world: World, test: T) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let name = std::any::type_name::<T>();
    let (_, name) = name.split_once("::").expect("a path begins with its crate");
    let name = name.trim_end_matches("::{{closure}}");
    let program = std::env::current_exe().expect("a test knows its program");
    // The shell is the first process of its world, and reaps what others leave.
    let output = Command::new("unshare")
        .args(flags(world))
        .args(["sh", "-c", r#""$@"; exit $?"#, "sh"])
        .arg(program)
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("unshare can be started");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
}

/// What `unshare` is to be told; the first that the kernel allows.
#[track_caller]
fn flags(world: World) -> &'static [&'static str] {
    let ways: &[&[&str]] = match world {
        World::Mounts => &[&["--mount"], &["--user", "--map-root-user", "--mount"]],
        World::Processes => &[
            &["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
            &["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
        ],
        World::PlainUser => &[&["--user", "--map-user=1000", "--map-group=1000"]],
    };
    let allowed = |way: &&&[&str]| {
        let tried = Command::new("unshare").args(**way).arg("true").output();
        tried.expect("`unshare` of util-linux is needed").status.success()
    };
    ways.iter().find(allowed).unwrap_or_else(|| {
        panic!(
            "this test needs kernel namespaces ({world:?}), and `unshare {}` is refused: run the tests as root, or \
             allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0; in a container, CAP_SYS_ADMIN)",
            ways[ways.len() - 1].join(" "),
        )
    })
}
