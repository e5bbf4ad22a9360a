//! The script that `callboard rehearse-script` prints: every seat, every kind of part, nothing that goes wrong yet.

use std::fmt::Write as _;

use protocol::steps::Workflow;

const EXPLAINED: &str = r#"#
# Below each step stands a list of parts, one for each try; the last one repeats. An iteration (the step was sent back
# by a gate) and `callboard retry` begin the list anew. A step that is left out plays `ok`.
#
# Kinds of parts:
#
#   - ok                               # a report that the work is done; one small file in the run's artifacts/
#   - ok:                              # the same, with more to show
#       logs: ["did this", "and that"]
#       artifacts: ["notes.txt"]       # small files made in the run's artifacts/ and named in the report
#       write: {"src/x.txt": "text"}   # files written in the repository: the only way it changes
#   - fail: "syntax error"             # a report that it failed
#   - gate_fail: {times: 2, why: "found P0 issues"}   # sends back in the first two iterations, then `ok`
#   - take: 2s                         # takes its time, then `ok`; may stand beside any other kind
#   - hang                             # no report and no end: a time-out's case
#   - crash                            # killed by a signal, without a report
#   - exit: 3                          # ends with this code, without a report
#   - flood: 10MB                      # so much output, then `ok`
#   - rubbish                          # a report that nobody can read
#   - leave_child                      # `ok`, but a process in a session of its own stays behind
#   - report_then_hang                 # `ok`, but the process does not end
"#;

pub(super) fn script(workflow: &Workflow) -> String {
    // A line's end in a name would leave the comment.
    let name: String = workflow.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut text = format!(
        "# How `{name}` is rehearsed: callboard run WORKFLOW --rehearse=THIS-FILE\n{EXPLAINED}\nsteps:\n"
    );
    for step in &workflow.steps {
        let gate = match &step.loop_back_to {
            Some(target) => format!("   # a gate: `gate_fail` sends back to `{target}`"),
            None => String::new(),
        };
        write!(text, "  {}:{gate}\n    - ok\n", key(step.id.as_str())).expect("BUG: a string grows");
    }
    text
}

/// An id as a YAML key: quoted unless it cannot be taken for anything but a word.
fn key(id: &str) -> String {
    let special = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let word = id.starts_with(|c: char| c.is_ascii_alphabetic())
        && !special.contains(&id.to_ascii_lowercase().as_str());
    if word { id.to_owned() } else { format!("\"{id}\"") }
}
