//! The findings in files, as a terminal shows them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use insta::assert_snapshot;

use super::*;
use crate::output;

const STATE: &str = include_str!("../../../../../protocol/tests/fixtures/steps/in-progress.json");

/// The findings in a file with this content.
fn shown(name: &str, content: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, content).unwrap();
    let checked = check(&file, None, Some(folder.path())).unwrap();
    let shown = checked.findings.iter().map(|finding| {
        let excerpt = output::excerpt_at_width(Path::new(name), &checked.source, &finding.diagnostic(), 120);
        let excerpt = anstream::adapter::strip_str(&excerpt).to_string();
        excerpt.replace(folder.path().to_str().unwrap(), "/repo")
    });
    let shown = shown.chain(checked.steps.map(|steps| format!("ok: {steps} steps")));
    let shown = shown.chain(checked.peer_cycle.map(|cycle| format!("ok: {} is {}", cycle.id, cycle.status)));
    shown.collect::<Vec<_>>().join("\n\n")
}

#[test]
fn a_valid_state_file_is_ok() {
    assert_snapshot!(shown("run_state.json", STATE), @"ok: 3 steps");
}

/// Regression: `--json` panicked.
#[test]
fn a_path_that_is_not_utf_8_is_shown_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(OsStr::from_bytes(b"st\xffte.json"));
    fs::write(&file, STATE).unwrap();
    let checked = serde_json::to_value(check(&file, None, Some(folder.path())).unwrap()).unwrap();
    assert!(checked["file"].as_str().unwrap().ends_with("st\u{fffd}te.json"), "{checked}");
}

#[test]
fn errors_in_a_state_file_are_shown_at_their_position() {
    let broken = STATE
        .replacen("\"COMPLETED\"", "\"COMPLETE\"", 1)
        .replacen("\"PLAN.md\"", "\"/tmp/PLAN.md\"", 1)
        .replacen("      \"attempts\": 0,\n", "", 1);
    assert_snapshot!(shown("run_state.json", &broken), @r#"
    error[unknown-status]: `status` of step `planning` is `COMPLETE`, which is not a status
      --> run_state.json:11:17
       |
    11 |       "status": "COMPLETE",
       |                 ^^^^^^^^^^
       |
       = hint: did you mean `COMPLETED`?

    error[artifact-not-relative]: entry 1 in `artifacts` of step `planning` is absolute: `/tmp/PLAN.md`
      --> run_state.json:18:21
       |
    18 |       "artifacts": ["/tmp/PLAN.md", "tasks.yaml"],
       |                     ^^^^^^^^^^^^^^
       |
       = hint: write the path from the repository's top

    error[missing-field]: step `code_review` has no `attempts`
      --> run_state.json:41:20
       |
    41 |     "code_review": {
       |                    ^
       |
       = hint: add `"attempts": 0`
    "#);
}

#[test]
fn a_truncated_state_file_is_shown_at_its_end() {
    let cut = STATE.find("\"ended_at\"").unwrap() + 20;
    assert_snapshot!(shown("run_state.json", &STATE[..cut]), @r#"
    error[broken-json]: this is not valid JSON: EOF while parsing a string
      --> run_state.json:16:26
       |
    16 |       "ended_at": "2025-01
       |                          ^
       |
       = hint: the file is truncated; the store still has the run, see `callboard show`
    "#);
}

#[test]
fn columns_of_broken_json_count_characters() {
    assert_snapshot!(shown("x.json", "{\"näme\": nö}"), @r#"
    error[broken-json]: this is not valid JSON: expected ident
     --> x.json:1:11
      |
    1 | {"näme": nö}
      |           ^
      |
      = hint: look just before this position: a comma, a quote or a bracket may be missing or superfluous
    "#);
}

const CYCLE: &str = include_str!("../../../../../protocol/tests/fixtures/peer/cycle.json");

#[test]
fn gaps_in_the_history_of_a_cycle_are_warnings() {
    assert_snapshot!(shown("cycle.json", CYCLE), @r#"
    warning[S3]: the history has no entry for the writes 17 to 42
     --> cycle.json:4:15
      |
    4 |   "sequence": 42,
      |               ^^
      |
      = hint: allowed if no start, completion or failure is missing; Callboard itself leaves no gaps

    warning[S3]: the history has no entry for the writes 1 to 9
      --> cycle.json:79:19
       |
    79 |       "sequence": 10
       |                   ^^
       |
       = hint: allowed if no start, completion or failure is missing; Callboard itself leaves no gaps

    warning[S3]: the history has no entry for the writes 11 to 14
      --> cycle.json:85:19
       |
    85 |       "sequence": 15
       |                   ^^
       |
       = hint: allowed if no start, completion or failure is missing; Callboard itself leaves no gaps

    ok: peer:spec:feature-name:cycle:1 is execute in_progress
    "#);
}

#[test]
fn errors_in_a_cycle_are_shown_at_their_position() {
    let broken = CYCLE
        .replacen("\"current_phase\": \"execute\"", "\"current_phase\": \"exceute\"", 1)
        .replacen("\"event\": \"completed\"", "\"event\": \"complete\"", 1)
        .replacen("\"sequence\": 42", "\"sequence\": 12", 1);
    assert_snapshot!(shown("cycle.json", &broken), @r#"
    error[S1]: `sequence` of the document is lower than 16, the last number in its history
     --> cycle.json:4:15
      |
    4 |   "sequence": 12,
      |               ^^
      |
      = hint: write at least 16

    error[F5]: `current_phase` of `metadata` of the document is `exceute`, which is not a valid value
      --> cycle.json:13:22
       |
    13 |     "current_phase": "exceute"
       |                      ^^^^^^^^^
       |
       = hint: did you mean `execute`?

    error[S3]: `plan` completed in write 15, but the history has no entry for it
      --> cycle.json:27:31
       |
    27 |       "sequence_at_complete": 15,
       |                               ^^
       |
       = hint: add {"timestamp": …, "phase": "plan", "event": "completed", "sequence": 15}

    warning[S3]: the history has no entry for the writes 1 to 9
      --> cycle.json:79:19
       |
    79 |       "sequence": 10
       |                   ^^
       |
       = hint: allowed if no start, completion or failure is missing; Callboard itself leaves no gaps

    warning[S3]: `event` of entry 2 in `history` of the document is `complete`, an unknown event
      --> cycle.json:84:16
       |
    84 |       "event": "complete",
       |                ^^^^^^^^^^
       |
       = hint: did you mean `completed`? Unknown events are kept and ignored

    warning[S3]: the history has no entry for the writes 11 to 14
      --> cycle.json:85:19
       |
    85 |       "sequence": 15
       |                   ^^
       |
       = hint: allowed if no start, completion or failure is missing; Callboard itself leaves no gaps
    "#);
}

#[test]
fn a_cycle_of_an_older_format_needs_migration() {
    assert_snapshot!(shown("cycle.json", "{\"version\": 1.1,\n \"phases\": {\"plan\": {}}}\n"), @r#"
    error[F1]: `version` of the document is 1.1: it is of an older format and needs migration
     --> cycle.json:1:13
      |
    1 | {"version": 1.1,
      |             ^^^
      |
      = hint: leave it as it is; `callboard import --peer` turns it into version 2
    "#);
}

#[test]
fn json_of_an_unknown_format_is_an_error() {
    assert_snapshot!(shown("package.json", "{\"version\": 1}\n"), @r#"
    error[unknown-format]: the format of this file is unknown
     --> package.json:1:1
      |
    1 | {"version": 1}
      | ^
      |
      = hint: choose one with `--as`: `workflow` (a list of `steps`), `steps` (`run_state.json`, with `run_id` and `steps`), `peer` (with `cycle_id` and `phases`), or `issue-state`, `cycle`, `pm_state`, `group_status`, `orchestrator_state`, `dev_to_qa`, `qa_to_techlead`, `techlead_to_dev`, `team_messages`
    "#);
}

#[test]
fn a_workflow_is_checked_with_its_prompts() {
    let workflow = "\
steps:
  - {id: plan, agent: x, prompt: wf.yaml, next_on_success: [code]}
  - {id: code, agent: x, prompt: code.md, needs: []}
";
    assert_snapshot!(shown("wf.yaml", workflow), @"
    warning[successor-does-not-need]: `code` is named as next after `plan`, but does not need it
     --> wf.yaml:2:61
      |
    2 |   - {id: plan, agent: x, prompt: wf.yaml, next_on_success: [code]}
      |                                                             ^^^^
      |
      = hint: only `needs` makes a step wait: add `plan` to the `needs` of `code`

    error[missing-prompt]: the prompt `code.md` of step `code` does not exist
     --> wf.yaml:3:34
      |
    3 |   - {id: code, agent: x, prompt: code.md, needs: []}
      |                                  ^^^^^^^
      |
      = hint: create it; searched `/repo/.agents/prompts/code.md`, then `/repo/code.md`
    ");
}

#[test]
fn problems_of_workflows_are_shown_at_their_position() {
    let step = "agent: x, prompt: wf.yaml";
    assert_snapshot!(shown("wf.yaml", "steps:\n  - id: a\n   agent: x\n"), @"
    error[broken-yaml]: this is not valid YAML: while parsing a block collection, did not find expected '-' indicator
     --> wf.yaml:3:4
      |
    3 |    agent: x
      |    ^^^^^
      |
      = hint: look at the line above, too: is something not closed, or indented more than its neighbours?
    ");
    assert_snapshot!(shown("wf.yaml", "steps:\n  - id: a\n    agent: x\n    promt: wf.yaml\n"), @"
    error[missing-key]: step `a` has no `prompt`
     --> wf.yaml:2:5
      |
    2 |   - id: a
      |     ^^
      |
      = hint: add it, such as `prompt: prompts/plan.md`

    error[unknown-key]: `promt` is not a key of a step
     --> wf.yaml:4:5
      |
    4 |     promt: wf.yaml
      |     ^^^^^
      |
      = hint: did you mean `prompt`?
    ");
    assert_snapshot!(shown("wf.yaml", &format!("steps:\n  - {{id: a, {step}, loop_back_to: a}}\n")), @"
    error[not-an-ancestor]: step `a` loops back to itself
     --> wf.yaml:2:54
      |
    2 |   - {id: a, agent: x, prompt: wf.yaml, loop_back_to: a}
      |                                                      ^
      |
      = hint: name a step that comes before `a`: one of its `needs`, or of theirs
    ");
    assert_snapshot!(shown("wf.yaml", &format!("steps:\n  - {{id: a, {step}, until_condition: true}}\n")), @"
    error[not-supported-yet]: `until_condition` is not supported: the format does not say when it holds
     --> wf.yaml:2:40
      |
    2 |   - {id: a, agent: x, prompt: wf.yaml, until_condition: true}
      |                                        ^^^^^^^^^^^^^^^
      |
      = hint: use a gate with `loop_back_to`, which repeats until its report passes
    ");
    assert_snapshot!(shown("wf.yaml", &format!("steps:\n  - {{id: ../a, {step}}}\n")), @"
    error[unsafe-id]: `../a` cannot be an id: it contains `/`; use letters, digits, `.`, `_` and `-`
     --> wf.yaml:2:10
      |
    2 |   - {id: ../a, agent: x, prompt: wf.yaml}
      |          ^^^^
      |
      = hint: the id names files and variables; choose something like `code_review-2`
    ");
    let cycle = format!("steps:\n  - {{id: a, {step}, needs: [b]}}\n  - {{id: b, {step}, needs: [a]}}\n");
    assert_snapshot!(shown("wf.yaml", &cycle), @r#"
    error[cycle]: these steps wait for each other and none could ever start: a → b → a
     --> wf.yaml:2:48
      |
    2 |   - {id: a, agent: x, prompt: wf.yaml, needs: [b]}
      |                                                ^
      |
      = hint: read `→` as "needs"; remove one of these needs
    "#);
}

#[test]
fn a_workflow_with_warnings_has_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wf.yaml");
    let workflow = "steps:\n- {id: a, agent: x, prompt: wf.yaml, next_on_success: [b]}\n- {id: b, agent: x, prompt: wf.yaml}\n";
    fs::write(&file, workflow).unwrap();
    let checked = check(&file, None, None).unwrap();
    assert_eq!((checked.findings.len(), checked.errors(), checked.steps), (1, 0, Some(2)));
}

#[test]
fn findings_are_serialized_with_their_position() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.json");
    fs::write(&file, STATE.replacen("\"attempts\": 1", "\"attempts\": -1", 1)).unwrap();
    let mut value = serde_json::to_value(check(&file, Some(Format::Steps), None).unwrap()).unwrap();
    value["file"] = "s.json".into();
    assert_snapshot!(serde_json::to_string_pretty(&value).unwrap(), @r#"
    {
      "file": "s.json",
      "format": "steps",
      "steps": null,
      "findings": [
        {
          "severity": "error",
          "rule": "bad-count",
          "line": 12,
          "column": 19,
          "pointer": "/steps/planning/attempts",
          "message": "`attempts` of step `planning` is -1; it must be a whole number from 0 to 4294967295",
          "hint": "write how often it happened, such as `0`"
        }
      ]
    }
    "#);
}

#[test]
fn an_unreadable_file_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let failure = check(&folder.path().join("none.yaml"), None, None).unwrap_err();
    assert_eq!(failure.exit.code(), 2);
    assert!(failure.message.contains("none.yaml"), "{}", failure.message);
}
