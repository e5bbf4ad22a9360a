//! Which adapter and model work on a step.

use std::fs;

use insta::assert_snapshot;
use testkit::TestEnv;

use crate::sessions::test_env;

/// Two adapters that append their step, model, variable `TICKET` and arguments to the file `told`. In `command`, `{{`
/// stands for `{`.
const ADAPTERS: &str = r#"
[adapters.one]
shell = 'echo "$STEP_ID: one, ${STEP_MODEL:-no model}, ${TICKET:-no ticket}, [$*]" >>told'

[adapters.two]
command = ["sh", "-c", 'echo "$STEP_ID: two, $1, ${{TICKET:-no ticket}}, [$2]" >>told', "sh", "{model}"]
"#;

fn workflow(test_env: &TestEnv, steps: &[&str]) {
    let steps = steps.iter().map(|step| format!("  - {{prompt: task.md, {step}}}\n"));
    test_env.write("wf.yaml", &format!("name: trial\nsteps:\n{}", steps.collect::<String>()));
}

/// Returns what the adapters have written, and removes the file.
fn take_adapter_log(test_env: &TestEnv) -> String {
    let path = test_env.repo().join("told");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let _ = fs::remove_file(path);
    text
}

#[test]
fn a_role_chooses_adapter_model_variables_and_arguments_of_a_step() {
    let test_env = test_env();
    let steps = ["id: code, agent: coder", "id: review, agent: critic, needs: [code]"];
    workflow(&test_env, &[steps[0], steps[1], "id: ship, agent: coder, needs: [review], model: own"]);
    let roles = r#"
[roles.default]
adapter = "one"
model = "small"
args = ["--quiet"]

[roles.critic]
adapter = "two"
timeout = "5m"
pass_env = ["TICKET"]

[roles.steps.review]
model = "large"

[roles.peer.review]
model = "never here"
"#;
    test_env.write("callboard.toml", &format!("{ADAPTERS}{roles}"));
    let run = |run: &str, flags: &[&str]| {
        let session = test_env.callboard(&[&["run", "wf.yaml", "--run-id", run], flags].concat());
        let session = session.env("TICKET", "T-1").run();
        assert_eq!(session.code, 0, "{}", session.transcript());
        take_adapter_log(&test_env)
    };
    assert_snapshot!(run("configured", &[]), @"
    code: one, small, no ticket, [--quiet]
    review: two, large, T-1, []
    ship: one, own, no ticket, [--quiet]
    ");
    // The configured settings of role `critic` are for adapter `two`, so they do not apply to adapter `one`.
    let flags = ["--role", "review=one", "--model", "coder=typed", "--model", "default=any"];
    assert_snapshot!(run("flags", &flags), @"
    code: one, typed, no ticket, [--quiet]
    review: one, any, no ticket, []
    ship: one, typed, no ticket, [--quiet]
    ");
    let rows = test_env.callboard(&["config"]).run();
    let rows: Vec<_> = rows.stdout.lines().filter(|line| line.starts_with("roles.")).collect();
    assert_snapshot!(rows.join("\n").replace(test_env.repo().to_str().unwrap(), "[REPO]"), @r#"
    roles.critic.adapter     = "two"  # [REPO]/callboard.toml
    roles.critic.timeout     = "300s"  # [REPO]/callboard.toml
    roles.critic.pass_env    = ["TICKET"]  # [REPO]/callboard.toml
    roles.default.adapter    = "one"  # [REPO]/callboard.toml
    roles.default.model      = "small"  # [REPO]/callboard.toml
    roles.default.args       = ["--quiet"]  # [REPO]/callboard.toml
    roles.peer.review.model  = "never here"  # [REPO]/callboard.toml
    roles.steps.review.model = "large"  # [REPO]/callboard.toml
    "#);
}

#[test]
fn the_roles_of_a_run_are_kept_and_a_later_command_may_replace_them() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    let broken = format!("{ADAPTERS}\n[adapters.coder]\ncommand = [\"false\"]\n");
    test_env.write("callboard.toml", &broken);
    let run = [
        "run",
        "wf.yaml",
        "--run-id",
        "trial",
        "--role",
        "b=one",
        "--model",
        "b=kept",
        "--max-attempts",
        "1",
    ];
    let failed = test_env.callboard(&run).run();
    assert_eq!(failed.code, 1, "{}", failed.transcript());
    let unknown = test_env.callboard(&["retry", "trial", "--role", "aa=two"]).run();
    assert_eq!(unknown.code, 2, "{}", unknown.transcript());
    assert!(unknown.stderr.contains("names `aa`, which is no step and no agent"), "{}", unknown.transcript());
    let unknown = test_env.callboard(&["resume", "trial", "--model", "codr=new"]).run();
    assert_eq!(unknown.code, 2, "{}", unknown.transcript());
    assert!(unknown.stderr.contains("did you mean `coder`?"), "{}", unknown.transcript());
    let session = test_env.callboard(&["retry", "trial", "--role", "a=two", "--model", "a=new"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_snapshot!(take_adapter_log(&test_env), @"
    a: two, new, no ticket, []
    b: one, kept, no ticket, []
    ");
}

#[test]
fn every_missing_adapter_is_named_before_the_run_exists() {
    let test_env = test_env();
    workflow(
        &test_env,
        &["id: a, agent: coder", "id: b, agent: coder", "id: c, agent: critic", "id: d, agent: editor"],
    );
    test_env.write(
        "callboard.toml",
        "[roles.editor]\nadapter = \"codx\"\n[adapters.codex]\ncommand = [\"codex\"]\n",
    );
    assert_snapshot!(test_env.callboard(&["run", "wf.yaml"]).run().transcript(), @r#"
    $ callboard run wf.yaml
    error[E007]: no command is configured for agents `coder` (used by steps `a`, `b`), `critic` (used by step `c`); no adapter is named `codx` (used by step `d`)

    hint: add `--wrapper PROGRAM` or `--command-template COMMAND`, or write in callboard.toml:

        [adapters.coder]
        command = ["your-agent", "{prompt}"]
        report = "required"    # without this line the exit code is the report

        [roles.default]    # for every agent without an adapter of its own
        adapter = "coder"
    hint: or use `--rehearse` to run with the built-in scripted agent
    [exit 2]
    "#);
    assert!(!test_env.store_dir().join("callboard.db").exists());
    let session = test_env.callboard(&["run", "wf.yaml", "--role", "critc=codex"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --role critc=codex
    error: `--role` or `--model` names `critc`, which is no step and no agent

    hint: did you mean `critic`?
    [exit 2]
    ");
}

#[test]
fn a_peer_cycle_has_roles_too() {
    let test_env = test_env();
    let agent = test_env.agent_path();
    let adapters = format!(
        "[adapters.all]\nwrapper = {agent:?}\n[roles.peer.default]\nadapter = \"all\"\nmodel = \"m\"\n"
    );
    test_env.write("callboard.toml", &adapters);
    let session =
        test_env.callboard(&["peer", "create-spec", "dark mode", "--model", "reviewer=strict"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let model = |step: &str| {
        let run = "peer.spec.dark-mode.cycle.1";
        let context =
            fs::read_to_string(test_env.attempt_dir(run, step, "1.1").join("context.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&context).unwrap()["model"].clone()
    };
    assert_eq!((model("plan"), model("review")), ("m".into(), "strict".into()));
}

#[test]
fn a_continued_peer_cycle_keeps_the_adapter_of_a_role_whose_model_is_replaced() {
    let test_env = test_env();
    let agent = test_env.agent_path();
    test_env.write("callboard.toml", &format!("[adapters.all]\nwrapper = {agent:?}\n"));
    test_env.script_agent(&["plan * exit 1"]);
    let roles = ["planner", "executor", "expresser", "reviewer"].map(|role| format!("--role={role}=all"));
    let mut start = vec!["peer", "create-spec", "dark mode", "--max-attempts", "1"];
    start.extend(roles.iter().map(String::as_str));
    assert_eq!(test_env.callboard(&start).run().code, 1);
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["peer", "--continue", "--model", "planner=opus"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let run = "peer.spec.dark-mode.cycle.2";
    let context = fs::read_to_string(test_env.attempt_dir(run, "plan", "1.1").join("context.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&context).unwrap()["model"], "opus");
}
