//! The script template that `callboard rehearse-script` prints: every step succeeds, and comments show every behaviour.

use std::fmt::Write as _;

use super::script_steps::ScriptSteps;

const BEHAVIOURS: &str = r#"#   - ok                               # a report that the work is done; one small file in the run's artifacts/
#   - ok:                              # the same, with more to show
#       logs: ["did this", "and that"]
#       artifacts: ["notes.txt"]       # small files made in the run's artifacts/ and named in the report
#       write: {"src/x.txt": "text"}   # files written in the repository: the only way it changes
#   - fail: "syntax error"             # a report that it failed
"#;

const GATES: &str = r#"#   - gate_fail: {times: 2, why: "found P0 issues"}   # fails the gate in the first two iterations, then `ok`
"#;

const MORE_BEHAVIOURS: &str = r#"#   - delay: 2s                        # waits this long, then `ok`; can be combined with any other
#   - hang                             # neither reports nor exits, until its timeout
#   - crash                            # killed by a signal, without a report
#   - exit: 3                          # ends with this code, without a report
#   - flood: 10MB                      # so much output, then `ok`
#   - rubbish                          # a report that cannot be parsed
#   - leave_child                      # `ok`, but a process in a session of its own stays behind
#   - report_then_hang                 # `ok`, but the process does not end
"#;

/// For phases, which have outputs.
const OUTPUTS: &str = r#"#   - ok: {output: {notes: "mine"}}    # this output instead of a small one that will do; one that will not costs an attempt
#   - ok: {output: null}               # none at all, which costs an attempt
#   - partial: {progress: "half"}      # handed in as progress, then `ok`; a list makes several; can be combined with any other
#
# Only for `review`:
#
#   - ok: {score: 86}                  # the ordinary review with this score, or with `low` and the like
#   - ok: {cycle_summary: {success: false}, insights: {questions_for_user: ["Which one?"]}}
"#;

/// For protocols whose runs create their steps.
const TURNS: &str = r#"#   - ok: {report: {FIELD: VALUE}}     # these fields in the report instead of those of the example in the prompt
#   - [crash, ok]                      # a turn with two attempts
"#;

pub(super) fn script(steps: &ScriptSteps) -> String {
    let ScriptSteps { nouns: (singular, plural), title, are_created_by_run, .. } = steps;
    let unit = if *are_created_by_run { "turn" } else { "attempt" };
    let restart = if steps.are_phases() {
        " A new cycle\n# begins the list anew."
    } else if *are_created_by_run {
        ""
    } else {
        " An iteration (a gate looped\n# back) and `callboard retry` begin the list anew."
    };
    let mut text = format!(
        "# {title}\n#\n# Below each {singular} is a list with one behaviour per {unit}; the last one repeats.{restart} \
         A {singular} that is left out does `ok`.\n#\n# Behaviours:\n#\n{BEHAVIOURS}"
    );
    if *are_created_by_run {
        text.push_str(TURNS);
    } else if !steps.are_phases() {
        text.push_str(GATES);
    }
    text.push_str(MORE_BEHAVIOURS);
    if steps.are_phases() {
        text.push_str(OUTPUTS);
    }
    write!(text, "\n{plural}:\n").expect("BUG: a string grows");
    for step in &steps.steps {
        let gate = match &step.loop_back_to {
            Some(target) => format!("   # a gate: `gate_fail` loops back to `{target}`"),
            None => String::new(),
        };
        write!(text, "  {}:{gate}\n    - ok\n", key(step.step.as_str())).expect("BUG: a string grows");
    }
    text
}

/// Returns an id as a YAML key, quoted if YAML could read it as something other than a string.
fn key(id: &str) -> String {
    let special = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = id.starts_with(|c: char| c.is_ascii_alphabetic())
        && !special.contains(&id.to_ascii_lowercase().as_str());
    if is_plain { id.to_owned() } else { format!("\"{id}\"") }
}
