//! `callboard diff RUN REV [REV]`.

use protocol::entry::Entry;
use protocol::{Revision, RunId};
use runner::RunAtRevision;
use serde_json::{Value, json};

use super::block_on;
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, GREEN, RED, YELLOW, styled};
use crate::present::run_status::{self, EnginePresence};
use crate::query::difference::{self, Difference};
use crate::query::{RunHandle, entry_text};
use crate::workspace::LocationArgs;

/// Show what changed in a run between two revisions
///
/// Compares the status and the document field by field: `~` changed, `+` added, `-` removed. The second revision may be the
/// earlier one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard diff f8c1a491 3 7
  callboard diff f8c1a491 3
  callboard diff f8c1a491 3 7 --json   # a JSON Patch (RFC 6902) of what `show --at 3 --json` prints")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: String,

    /// The first revision (`callboard log` lists them)
    #[arg(value_name = "REV")]
    from: u64,

    /// The second revision [default: the newest]
    #[arg(value_name = "REV")]
    to: Option<u64>,

    /// Print a JSON Patch (RFC 6902), with the old values as `old`
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

/// One side of the comparison.
struct Side {
    run_at: RunAtRevision,
    entry: Option<Entry>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    block_on(async {
        let handle = RunHandle::of(&arguments.location, &arguments.run).await?;
        let old = load_side(&handle, Some(arguments.from)).await?;
        let new = load_side(&handle, arguments.to).await?;
        let found = difference::between(&compared(&old.run_at), &compared(&new.run_at));
        if arguments.json {
            output::json_pretty(&found);
        } else {
            print_header(&handle.run, &old, &new);
            if found.is_empty() {
                output::note("the revisions do not differ");
            }
            print(&found, new.run_at.kind().info().steps_key);
        }
        Ok(Exit::Success)
    })
}

/// Prints the differences, grouped by step. `steps_key` is the field of the document that has the steps.
pub(super) fn print(found: &[Difference], steps_key: &str) {
    let mut group = None;
    for difference in found {
        let (step, field) = step_and_field(difference, steps_key);
        if step != group {
            output::data(styled(BOLD, step.unwrap_or_default()));
            group = step;
        }
        output::data(line(difference, &field, if group.is_none() { "" } else { "  " }));
    }
}

async fn load_side(handle: &RunHandle, revision: Option<u64>) -> Result<Side, Failure> {
    let run_at = handle.run_at(revision.map(Revision)).await?;
    let stored = handle.store.entry(&handle.run, run_at.revision).await?;
    let entry = stored.and_then(|stored| Entry::decode(&stored.body).ok());
    Ok(Side { run_at, entry })
}

/// Returns the status and the document, under their names in `show --json`. There the status also depends on whether an
/// engine is alive; here it does not.
fn compared(run_at: &RunAtRevision) -> Value {
    let (_, status) = run_status::label_with_engine(&run_at.summary(), EnginePresence::NotChecked);
    json!({ "status": status, "document": run_at.machine().document().to_value() })
}

fn print_header(run: &RunId, old: &Side, new: &Side) {
    output::data(format_args!(
        "{}  revision {} → {}",
        styled(BOLD, run),
        old.run_at.revision,
        new.run_at.revision
    ));
    for Side { run_at, entry } in [old, new] {
        let text = entry.as_ref().map_or_else(
            || "the entry cannot be parsed".to_owned(),
            |entry| {
                let input = entry_text::input(run_at.kind(), entry);
                format!("{input}  {}", styled(DIM, entry_text::author(&entry.by)))
            },
        );
        let revision = styled(BOLD, format_args!("{:>4}", run_at.revision));
        output::data(format_args!("{revision} {}  {text}", styled(DIM, run_at.state.at)));
    }
}

/// Splits the path of a difference into the step and its field. Without a step, the field is one of the document; that
/// is also so for a whole step that was added or removed.
fn step_and_field<'d>(difference: &'d Difference, steps_key: &str) -> (Option<&'d str>, String) {
    let path: Vec<_> = difference.path().0.iter().map(String::as_str).collect();
    let (step, field) = match path.as_slice() {
        ["document", steps, step, field @ ..] if *steps == steps_key && !field.is_empty() => {
            (Some(*step), field)
        }
        ["document", field @ ..] => (None, field),
        field => (None, field),
    };
    let mut text = String::new();
    for key in field {
        match key.parse::<usize>() {
            Ok(index) => text.push_str(&format!("[{index}]")),
            Err(_) if text.is_empty() => text.push_str(key),
            Err(_) => text.push_str(&format!(".{key}")),
        }
    }
    (step, text)
}

fn line(difference: &Difference, field: &str, indent: &str) -> String {
    match difference {
        Difference::Add { value, .. } => format!("{indent}{} {field}: {}", styled(GREEN, "+"), short(value)),
        Difference::Remove { old, .. } => format!("{indent}{} {field}: {}", styled(RED, "-"), short(old)),
        Difference::Replace { old, value, .. } => {
            format!("{indent}{} {field}: {} → {}", styled(YELLOW, "~"), short(old), short(value))
        }
    }
}

/// Longer values are cut; `--json` has the whole value.
const MAX_CHARS: usize = 200;

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((cut, _)) => format!("{}… ({} bytes)", &text[..cut], text.len()),
        None => text,
    }
}
