//! Commands that inspect, and their JSON.

mod diff;
mod log;
mod ls;
mod prompt;
mod show;
mod slowness;
mod watch;

use insta::assert_snapshot;
use serde_json::json;

use crate::sessions::test_env;

#[test]
fn a_run_can_be_listed_shown_and_read_back() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b 1 exit 3"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_snapshot!(test_env.callboard(&["ls"]).run().transcript(), @"
    $ callboard ls
    trial  succeeded      2/2    trial  [TIME] ago
    [exit 0]
    ");
    assert_snapshot!(test_env.callboard(&["show", "tri"]).run().transcript(), @"
    $ callboard show tri
    trial trial  succeeded  2/2 steps  revision 6
      succeeded (COMPLETED) a  [TIME]
      succeeded (COMPLETED) b  attempt 2  [TIME]
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
    assert_snapshot!(test_env.callboard(&["log", "trial"]).run().transcript(), @"
    $ callboard log trial
       1 [WHEN]  run started  tester on [HOST]
       2 [WHEN]  resume  engine [PID] on [HOST]
           ▸ a#1.1 started
           [STORE]/attempts/trial/a/1.1
       3 [WHEN]  a#1.1 ended  engine [PID] on [HOST]
           reported success: did a
           ✓ a#1.1 finished [TIME]
           ▸ b#1.1 started
           [STORE]/attempts/trial/b/1.1
       4 [WHEN]  b#1.1 ended  engine [PID] on [HOST]
           ✗ b#1.1 failed, retrying in [TIME]: Agent process exited with code 3 without a report: b gives up
       5 [WHEN]  back-off elapsed, retrying `b`  engine [PID] on [HOST]
           ▸ b#1.2 started
           [STORE]/attempts/trial/b/1.2
       6 [WHEN]  b#1.2 ended  engine [PID] on [HOST]
           reported success: did b
           ✓ b#1.2 finished [TIME]
           the run succeeded
    [exit 0]
    ");
}

#[test]
fn ls_show_and_log_print_json() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let listed = test_env.callboard(&["ls", "--json"]).run().json();
    assert_eq!((&listed[0]["run"], &listed[0]["protocol"]), (&json!("trial"), &json!("steps")));
    assert_eq!((&listed[0]["title"], &listed[0]["progress"]["done"]), (&json!("trial"), &json!(1)));
    let shown = test_env.callboard(&["show", "trial", "--json"]).run().json();
    assert_eq!((&shown["run"], &shown["status"]), (&json!("trial"), &json!("succeeded")));
    assert_eq!(shown["document"], test_env.document("trial"), "the view is the document");
    let journal = test_env.journal("trial");
    let revisions: Vec<_> = journal.iter().map(|line| line["revision"].as_u64().unwrap()).collect();
    assert_eq!(revisions, (1..=journal.len() as u64).collect::<Vec<_>>());
    assert!(journal[0]["entry"]["input"]["opened"].is_object());
}

#[test]
fn events_are_one_json_object_per_line() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a 1 exit 3"]);
    let session = test_env.run(&["--json"]).run();
    assert_eq!((session.code, session.stderr.as_str()), (0, ""));
    let lines = session.json_lines().into_iter().map(|event| {
        assert_eq!(event["run"], "trial");
        let words =
            ["event", "attempt", "result", "error", "outcome"].map(|name| event[name].as_str().unwrap_or(""));
        words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    });
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    started a#1.1
    ended a#1.1 failed Agent process exited with code 3 without a report: a gives up
    started a#1.2
    ended a#1.2 reported
    started b#1.1
    ended b#1.1 reported
    status
    status
    result succeeded
    ");
}

#[test]
fn an_empty_list_is_no_error_but_an_unknown_run_is() {
    let test_env = test_env();
    assert_snapshot!(test_env.callboard(&["ls"]).run().transcript(), @"
    $ callboard ls
    note: no runs yet; run `callboard run WORKFLOW` to start one
    [exit 0]
    ");
    assert_eq!(test_env.callboard(&["ls", "--json"]).run().json(), json!([]));
    assert!(!test_env.store_dir().exists(), "a store was created");
    assert_snapshot!(test_env.callboard(&["show", "ghost"]).run().transcript(), @"
    $ callboard show ghost
    error[E011]: there is no run `ghost` in `[STORE]`

    hint: run `callboard ls` to list the runs of this repository
    [exit 2]
    ");
}

#[test]
fn a_prefix_must_be_of_one_run_only() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    for run in ["pale", "palm"] {
        assert_eq!(test_env.run_named(run).run().code, 0);
    }
    assert_eq!(test_env.callboard(&["show", "palm"]).run().code, 0);
    assert_snapshot!(test_env.callboard(&["show", "pal"]).run().transcript(), @"
    $ callboard show pal
    error[E011]: `pal` is ambiguous: it matches `pale`, `palm`

    hint: type more characters of the name
    [exit 2]
    ");
}

#[test]
fn embedded_the_configuration_shows_where_each_value_came_from() {
    let test_env = test_env();
    test_env.write(
        "callboard.toml",
        "max_attempts = 3\njobs = 7\n\n[adapters.coder]\ncommand = [\"coder\", \"{prompt}\"]\n\
         [worktree]\ndir = \"trees\"\n[roles.default]\nadapter = \"codr\"\n",
    );
    let user_config_dir = test_env.home().join(".config/callboard");
    std::fs::create_dir_all(&user_config_dir).unwrap();
    std::fs::write(user_config_dir.join("config.toml"), "max_attempts = 9\n").unwrap();
    assert_snapshot!(test_env.callboard(&["config"]).env("CALLBOARD_JOBS", "5").run().transcript(), @r#"
    $ callboard config
    note: `roles.default.adapter`: no adapter `codr` is configured
    jobs                   = 5  # CALLBOARD_JOBS
    max_attempts           = 3  # [REPO]/callboard.toml
    backoff                = "10ms"  # CALLBOARD_BACKOFF
    store                  = "[STORE]"  # default
    worktree.dir           = "[REPO]/trees"  # [REPO]/callboard.toml
    worktree.setup         = []  # default
    worktree.merge         = "merge"  # default
    adapters.coder.command = ["coder", "{prompt}"]  # [REPO]/callboard.toml
    adapters.coder.report  = "exit-code"  # [REPO]/callboard.toml
    roles.default.adapter  = "codr"  # [REPO]/callboard.toml
    [exit 0]
    "#);
    let rows = test_env.callboard(&["config", "--json"]).run().json();
    let row = |key: &str| rows.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap();
    let value = |key: &str| row(key)["value"].clone();
    assert_eq!(row("roles.default.adapter")["problem"], "no adapter `codr` is configured");
    assert_eq!((value("max_attempts"), value("backoff")), (json!(3), json!("10ms")));
    assert_eq!(value("adapters.coder.command"), json!(["coder", "{prompt}"]));
    assert_eq!(value("store"), test_env.store_dir().to_str().unwrap());
}

#[test]
fn errors_in_the_configuration_are_shown_with_their_position() {
    let test_env = test_env();
    test_env.write("callboard.toml", "job = 3\nmax_attempts = 0\n");
    assert_snapshot!(test_env.callboard(&["config"]).run().transcript(), @"
    $ callboard config
    error[E010]: the configuration has 2 errors
      [REPO]/callboard.toml:1:1: unknown key `job`
        hint: did you mean `jobs`?
      [REPO]/callboard.toml:2:16: `max_attempts` is 0; it must be a whole number from 1
    [exit 2]
    ");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let shell_line = "\"$0\" log trial --json | head -n 1 >/dev/null; test \"${PIPESTATUS[0]}\" = 0";
    let status = std::process::Command::new("bash")
        .args(["-c", shell_line])
        .arg(test_env.program())
        .current_dir(test_env.repo())
        .envs(test_env.backend().address().map(|address| ("CALLBOARD_STORE", address)))
        .status();
    assert!(status.unwrap().success());
}
