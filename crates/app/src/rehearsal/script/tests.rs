use std::num::NonZeroU32;
use std::time::Duration;

use protocol::steps::{Workflow, load};
use supervisor::adapter::rehearsal::{Behaviour, ScriptedOutput};

use super::*;
use crate::rehearsal::template;

const WORKFLOW: &str = "
name: release
steps:
  - {id: code, agent: a, prompt: p}
  - {id: review, agent: a, prompt: p, needs: [code], loop_back_to: code}
  - {id: '1', agent: a, prompt: p}
  - {id: 'on', agent: a, prompt: p}
  - {id: _draft.2, agent: a, prompt: p}
";

fn workflow() -> Workflow {
    load::load(WORKFLOW).unwrap().workflow
}

fn loaded(text: &str) -> RehearsalScript {
    load(text, &ScriptSteps::of_workflow(&workflow())).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// The attempts of `code`, written as a list.
fn attempts(list: &str) -> Vec<ScriptedAttempt> {
    loaded(&format!("steps: {{code: {list}}}")).steps.remove(&StepId::new("code").unwrap()).unwrap()
}

fn behaviour(text: &str) -> Behaviour {
    attempts(&format!("[{text}]")).remove(0).behaviour
}

/// Each problem as `line:column rule: message (hint)`.
fn problems(text: &str) -> Vec<String> {
    let problems = load(text, &ScriptSteps::of_workflow(&workflow())).unwrap_err();
    let shown = |problem: &Problem| {
        let Problem { line, column, rule, message, hint } = problem;
        format!("{line}:{column} {rule}: {message} ({hint})")
    };
    problems.iter().map(shown).collect()
}

fn problem(text: &str) -> String {
    let mut problems = problems(text);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    problems.remove(0)
}

#[test]
fn a_script_has_one_behaviour_per_attempt() {
    let rehearsal = loaded(
        r#"
steps:
  code:
    - fail: "syntax error"
    - ok: {logs: ["fixed"], artifacts: ["notes.txt"], write: {"src/x.txt": "content"}}
  review:
    - gate_fail: {times: 2, why: "found P0 issues"}
"#,
    );
    let step = |name: &str| StepId::new(name).unwrap();
    let output = ScriptedOutput {
        logs: vec!["fixed".to_owned()],
        artifacts: vec!["notes.txt".to_owned()],
        write: BTreeMap::from([("src/x.txt".to_owned(), "content".to_owned())]),
    };
    let code = [Behaviour::Fail { why: "syntax error".to_owned() }, Behaviour::Ok(output)];
    assert_eq!(
        rehearsal.steps[&step("code")],
        code.map(|behaviour| ScriptedAttempt { behaviour, ..ScriptedAttempt::default() })
    );
    let times = NonZeroU32::new(2).unwrap();
    let gate = Behaviour::GateFail { times, why: "found P0 issues".to_owned() };
    assert_eq!(
        rehearsal.steps[&step("review")],
        [ScriptedAttempt { behaviour: gate, ..ScriptedAttempt::default() }]
    );
}

#[test]
fn every_behaviour_is_read() {
    for (text, expected) in [
        ("ok", Behaviour::default()),
        ("ok: {}", Behaviour::default()),
        ("ok: ", Behaviour::default()),
        ("fail", Behaviour::Fail { why: "rehearsed failure".to_owned() }),
        ("fail: broken", Behaviour::Fail { why: "broken".to_owned() }),
        ("hang", Behaviour::Hang),
        ("crash", Behaviour::Crash),
        ("exit: 0", Behaviour::Exit { code: 0 }),
        ("exit: 255", Behaviour::Exit { code: 255 }),
        ("flood: 10MB", Behaviour::Flood { bytes: 10_000_000 }),
        ("flood: 64 KiB", Behaviour::Flood { bytes: 65_536 }),
        ("flood: 12", Behaviour::Flood { bytes: 12 }),
        ("rubbish", Behaviour::Rubbish),
        ("leave_child", Behaviour::LeaveChild),
        ("report_then_hang", Behaviour::ReportThenHang),
    ] {
        assert_eq!(behaviour(text), expected, "{text}");
    }
    let delayed = attempts("[delay: 1m30s, {delay: 0.5, fail: slow}]");
    assert_eq!(
        delayed[0],
        ScriptedAttempt { delay: Some(Duration::from_secs(90)), ..ScriptedAttempt::default() }
    );
    assert_eq!(delayed[1].delay, Some(Duration::from_millis(500)));
    assert_eq!(delayed[1].behaviour, Behaviour::Fail { why: "slow".to_owned() });
}

#[test]
fn all_problems_are_reported_at_once_each_with_its_position() {
    let script = "\
steps:
  cod: [ok]
  code:
    - flod: 10MB
    - exit: 256
    - {hang: , crash: }
    - ok: {log: [x], artifacts: [../x], write: {.git/config: x}}
    - gate_fail: {times: 1}
  review:
    - gate_fail: {times: 0, whi: x}
    - delay: soon
    - 3
stops: {}
";
    insta::assert_snapshot!(problems(script).join("\n"), @"
    2:3 unknown-step: the workflow has no step `cod` (did you mean `code`?)
    4:7 unknown-key: `flod` is not a behaviour (did you mean `flood`?)
    5:13 wrong-type: `exit` must be a whole number from 0 to 255 (write `exit: 3`)
    6:16 unknown-key: `crash` is a second behaviour in one attempt (only `delay` and, for `peer`, `partial` can be combined with another; begin the next attempt with `- `)
    7:12 unknown-key: `log` is not a key of `ok` (did you mean `logs`?)
    7:34 wrong-type: `../x` is not the path of a file inside the run's `artifacts/` (write a relative path without `..`, such as `src/x.txt`)
    7:49 wrong-type: `.git/config` is not the path of a file inside the repository (write a relative path without `..`, such as `src/x.txt`)
    8:7 missing-key: step `code` has no `loop_back_to`, so it is not a gate (write `fail` for a step that fails, or set `loop_back_to` in the workflow)
    10:26 wrong-type: `times` must be a whole number from 1 (write `times: 1`)
    10:29 unknown-key: `whi` is not a key of `gate_fail` (did you mean `why`?)
    11:14 bad-timeout: bad `delay`: `soon` is not a length of time; write seconds, or `90s`, `10m`, `2h`, `1h30m` (write `delay: 500ms`, `delay: 2s` or `delay: 1m30s`)
    12:7 wrong-type: an attempt of `review` is a number (a behaviour is `ok`, `fail: why`, `gate_fail: {times: 1, why: found issues}`, `delay: 2s`, `hang`, `crash`, `exit: 3`, `flood: 10MB`, `rubbish`, `leave_child`, `report_then_hang`)
    13:1 unknown-key: `stops` is not a key of a script (did you mean `steps`?)
    ");
}

#[test]
fn a_file_that_is_not_a_script_is_refused() {
    let shapes = [
        "",
        "steps:",
        "steps: {}",
        "steps: [code]",
        "- code",
        "steps: {code: }",
        "steps: {code: ok}",
        "steps: {code: [{}]}",
    ];
    insta::assert_snapshot!(shapes.map(problem).join("\n"), @"
    1:1 empty-file: the file is empty (a script begins with `steps:`, and below it `STEP: [BEHAVIOUR, …]`)
    1:1 no-steps: `steps` is empty (name a step, or rehearse without a script: `--rehearse`)
    1:1 no-steps: `steps` is empty (name a step, or rehearse without a script: `--rehearse`)
    1:8 wrong-type: `steps` is a list where a mapping is expected (write `STEP:`, and below it one `- BEHAVIOUR` per attempt)
    1:1 not-a-mapping: the file is a list where a mapping is expected (a script begins with `steps:`, and below it `STEP: [BEHAVIOUR, …]`)
    1:9 empty-value: step `code` has no behaviour (write `- ok` below it, or remove it)
    1:15 wrong-type: the behaviours of `code` are a string where a list is expected (begin each with `- `, one per attempt)
    1:16 empty-value: this attempt has no behaviour (a behaviour is `ok`, `fail: why`, `gate_fail: {times: 1, why: found issues}`, `delay: 2s`, `hang`, `crash`, `exit: 3`, `flood: 10MB`, `rubbish`, `leave_child`, `report_then_hang`)
    ");
}

#[test]
fn broken_yaml_is_refused_with_its_position() {
    let texts = [
        "steps:\n  code: [ok\n",
        "steps:\n  code: [ok]\n  code: [hang]\n",
        "steps:\n\tcode: [ok]\n",
        "steps: {code: [fail: \"x]}\n",
        "steps: {code: [ok]}\n---\nsteps: {}\n",
    ];
    insta::assert_snapshot!(texts.map(problem).join("\n"), @"
    2:9 broken-yaml: this is not valid YAML: unclosed bracket '[' (close it, or quote a string that begins with it)
    3:3 duplicate-key: `code` is given twice; the first is on line 2 (keep one of the two)
    2:2 broken-yaml: this is not valid YAML: tabs disallowed within this context (block indentation) (indent with spaces, not with tabs)
    1:22 broken-yaml: this is not valid YAML: unclosed quote (a quote may not have been closed)
    2:1 broken-yaml: a second document begins here; a file holds one (move it into a file of its own, or remove the `---`)
    ");
}

#[test]
fn values_of_the_wrong_kind_are_refused() {
    let wrong = [
        "fail: 3",
        "fail: [x]",
        "hang: 3s",
        "exit: x",
        "exit",
        "flood",
        "flood: 10 elephants",
        "flood: 99GB",
        "delay",
        "ok: [x]",
        "ok: {logs: x}",
        "ok: {logs: [1]}",
        "ok: {artifacts: [/etc/x]}",
        "ok: {artifacts: ['']}",
        "ok: {write: [x]}",
        "ok: {write: {x: 1}}",
    ];
    let shown = wrong.map(|text| problem(&format!("steps: {{code: [{text}]}}")));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    1:22 wrong-type: `fail` is a number where a string is expected (put it in quotes)
    1:22 wrong-type: `fail` is a list where a string is expected (write `"a string"`)
    1:22 wrong-type: `hang` takes no value (write `- hang`)
    1:22 wrong-type: `exit` is a string where a whole number from 0 to 255 is expected (write `exit: 3`)
    1:16 wrong-type: `exit` has no value where a whole number from 0 to 255 is expected (write `exit: 3`)
    1:16 wrong-type: `flood` has no value where a size is expected (write `flood: 10MB`)
    1:23 wrong-type: `10 elephants` is not a size from 1 byte to 1 GB (write `flood: 10MB`; also `B`, `kB`, `GB`, `MiB`)
    1:23 wrong-type: `99GB` is not a size from 1 byte to 1 GB (write `flood: 10MB`; also `B`, `kB`, `GB`, `MiB`)
    1:16 wrong-type: `delay` has no value where a length of time is expected (write `delay: 2s`)
    1:20 wrong-type: `ok` is a list where a mapping is expected (write `ok: {logs: [did it]}`)
    1:27 wrong-type: `logs` is a string where a list is expected (write `logs: ["…"]`)
    1:28 wrong-type: an entry of `logs` is a number where a string is expected (put it in quotes)
    1:33 wrong-type: `/etc/x` is not the path of a file inside the run's `artifacts/` (write a relative path without `..`, such as `src/x.txt`)
    1:33 wrong-type: `` is not the path of a file inside the run's `artifacts/` (write a relative path without `..`, such as `src/x.txt`)
    1:28 wrong-type: `write` is a list where a mapping is expected (write `write: {"src/x.txt": "content"}`)
    1:32 wrong-type: `x` is a number where a string is expected (put it in quotes)
    "#);
}

#[test]
fn an_attempt_that_is_too_long_for_a_command_line_argument_is_refused() {
    let script = format!("steps:\n  code:\n    - ok: {{write: {{x: {}}}}}\n", "x".repeat(200_000));
    let shown = problem(&script);
    assert!(shown.starts_with("3:7 too-large: this attempt has 200"), "{shown}");
}

#[test]
fn a_printed_script_can_be_loaded_and_names_every_step() {
    let workflow = workflow();
    let script = template::script(&ScriptSteps::of_workflow(&workflow));
    let rehearsal = loaded(&script);
    assert!(
        workflow.steps.iter().all(|step| rehearsal.steps[&step.id] == [ScriptedAttempt::default()]),
        "{script}"
    );
    assert!(script.contains("  review:   # a gate: `gate_fail` loops back to `code`\n"), "{script}");
}

#[test]
fn every_behaviour_is_explained_in_a_printed_script_by_an_example_that_loads() {
    let script = template::script(&ScriptSteps::of_workflow(&workflow()));
    let comments = script.lines().filter_map(|line| line.strip_prefix("#   "));
    let examples: Vec<_> = comments.map(|line| format!("    {line}\n")).collect();
    let gate = loaded(&format!("steps:\n  review:\n{}", examples.concat()));
    let attempts = &gate.steps[&StepId::new("review").unwrap()];
    assert_eq!(attempts.len(), attempt::BEHAVIOURS.len() + 1, "each behaviour once, and `ok` twice");
    for (behaviour, _) in attempt::BEHAVIOURS {
        assert!(
            examples.iter().any(|line| line.trim_start().starts_with(&format!("- {behaviour}"))),
            "{behaviour}"
        );
    }
}

fn review_attempt(text: &str) -> Result<ScriptedAttempt, Vec<Problem>> {
    let review = StepId::new("review").unwrap();
    let script = load(&format!("phases: {{review: [{text}]}}"), &ScriptSteps::of_peer());
    script.map(|mut rehearsal| rehearsal.steps.remove(&review).unwrap().remove(0))
}

#[test]
fn a_phase_reports_what_the_script_says() {
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let attempt = review_attempt(
        "{partial: [{a: 1}, {a: [true, ~, x]}], delay: 1s, ok: {output: {n: 1.5, m: -3}, insights: {}, logs: [x]}}",
    );
    let attempt = attempt.unwrap();
    assert_eq!(attempt.partial, [json(r#"{"a": 1}"#), json(r#"{"a": [true, null, "x"]}"#)]);
    let fields = serde_json::Value::Object(attempt.fields);
    assert_eq!(fields, json(r#"{"output": {"n": 1.5, "m": -3}, "insights": {}}"#));
    let attempt = review_attempt("ok: {score: 40}").unwrap();
    assert_eq!(attempt.fields["output"]["quality_score"], 40);
    assert_eq!(attempt.fields["cycle_summary"]["success"], false);
    let attempt = review_attempt("{partial: {a: 1}, crash: }").unwrap();
    assert_eq!((attempt.partial.len(), attempt.behaviour), (1, Behaviour::Crash));
    assert_eq!(review_attempt("ok: {output: ~}").unwrap().fields["output"], serde_json::Value::Null);
}

#[test]
fn behaviours_that_a_peer_cycle_does_not_have_are_refused() {
    let texts =
        ["gate_fail", "ok: {scor: 4}", "ok: {score: [1]}", "ok: {score: 4, output: {a: 1}}", "partial: x"];
    let shown = texts.map(|text| {
        let problem = review_attempt(text).unwrap_err().remove(0);
        format!("{}: {} ({})", problem.rule, problem.message, problem.hint)
    });
    insta::assert_snapshot!(shown.join("\n"), @"
    missing-key: a peer cycle has no gates (write `ok: {score: 40}` for an unsuccessful review, `fail` for a phase that fails)
    unknown-key: `scor` is not a key of `ok` (did you mean `score`?)
    wrong-type: `score` is neither a number nor a word (write `score: 86`, or `score: low`; anything else goes into `output`)
    unknown-key: `score` stands beside `output`, which has a score of its own (write it as `quality_score` in `output`)
    wrong-type: `partial` is a string where an output, or a list of them is expected (write `partial: {progress: half}`)
    ");
    for (text, message) in [
        ("phases: {plan: [ok: {score: 3}]}", "`score` is not a key of `ok`"),
        ("phases: {planner: [ok]}", "a peer cycle has no phase `planner`"),
        ("steps: {plan: [ok]}", "`steps` is not a key of a script"),
    ] {
        assert_eq!(load(text, &ScriptSteps::of_peer()).unwrap_err()[0].message, message);
    }
    assert!(problem("steps: {code: [partial: {a: 1}]}").contains("step `code` has no output"));
}

#[test]
fn a_printed_script_of_a_peer_cycle_can_be_loaded_and_all_its_examples_too() {
    let steps = ScriptSteps::of_peer();
    let script = template::script(&steps);
    let rehearsal = load(&script, &steps).unwrap();
    assert_eq!(rehearsal.steps.len(), 4, "{script}");
    let comments = script.lines().filter_map(|line| line.strip_prefix("#   "));
    let examples: String = comments.map(|line| format!("    {line}\n")).collect();
    let loaded = load(&format!("phases:\n  review:\n{examples}"), &steps).unwrap();
    let attempts = &loaded.steps[&StepId::new("review").unwrap()];
    // All behaviours but `gate_fail`, the longer `ok`, and what only phases have.
    assert_eq!(attempts.len(), attempt::BEHAVIOURS.len() - 1 + 1 + 5, "{examples}");
}

#[test]
fn a_script_for_steps_that_the_run_creates_has_a_list_per_turn() {
    let steps = ScriptSteps { are_created_by_run: true, ..ScriptSteps::of_peer() };
    let script = "phases:\n  A.qa:\n    - ok: {report: {verdict: FAIL}}\n    - [crash, ok]\n";
    let turns = load(script, &steps).unwrap().turns;
    let turns = &turns[&StepId::new("A.qa").unwrap()];
    assert_eq!(turns[0][0].fields["verdict"], "FAIL");
    assert_eq!(
        turns[1].iter().map(|attempt| &attempt.behaviour).collect::<Vec<_>>(),
        [&Behaviour::Crash, &Behaviour::default()]
    );
    let wrong = load("phases: {A.qa: [ok: {report: FAIL}]}", &steps).unwrap_err();
    assert_eq!(wrong[0].message, "`report` is a string where a mapping is expected");
    let nested = load("phases: {plan: [[ok]]}", &ScriptSteps::of_peer()).unwrap_err();
    assert_eq!(nested[0].message, "an attempt of `plan` is a list");
}
