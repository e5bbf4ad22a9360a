//! The report of `recover`: the damage, the backup, and the result for each run.

use std::path::{Path, PathBuf};

use protocol::RunId;
use protocol::cycle;
use protocol::run::RunStatus;
use runner::{Journal, SalvageOutcome, Salvaged};
use serde::{Serialize, Serializer};
use store::RunListing;

use super::Arguments;
use crate::failure::Exit;
use crate::output::{self, BOLD, DIM, GREEN, RED, YELLOW, styled};
use crate::present::run_status;
use crate::workspace::Workspace;

#[derive(Debug, Serialize)]
pub(super) struct RecoveryReport {
    pub(super) store: String,
    dry_run: bool,
    /// The copy that is read instead of the store's database.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<PathBuf>,
    /// The repository, which has the files of runs.
    #[serde(skip)]
    repo: PathBuf,
    #[serde(skip)]
    json: bool,
    /// Whether the store is on NATS.
    #[serde(skip)]
    is_shared: bool,
    /// Whether the store did not exist before.
    pub(super) was_missing: bool,
    /// Empty if the store is intact.
    pub(super) damage: Vec<String>,
    /// The backup of the damaged store.
    pub(super) backup: Option<PathBuf>,
    pub(super) runs: Vec<RunRecovery>,
    /// Views that were written again.
    pub(super) views: Vec<PathBuf>,
    /// Views that other programs had changed: each with its path and the path it was moved to.
    pub(super) quarantined: Vec<(PathBuf, PathBuf)>,
    pub(super) notes: Vec<String>,
}

/// The result for one run.
#[derive(Debug, Serialize)]
pub(super) struct RunRecovery {
    run: Option<RunId>,
    /// Its number in the database, if its name is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<i64>,
    /// `whole`, `cut` (entries are lost), `unreadable`, `unchecked` (of an unknown protocol), or `exists` (not changed).
    outcome: &'static str,
    /// The revision up to which the run is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// The highest revision that is known to have been written.
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<u64>,
    /// How many entries follow the first lost one. They are in the backup only.
    #[serde(skip_serializing_if = "Option::is_none")]
    later_entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_name")]
    status: Option<RunStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The result for a whole run, without details. Each result below starts from it.
const WHOLE: RunRecovery = RunRecovery {
    run: None,
    number: None,
    outcome: "whole",
    revision: None,
    newest: None,
    later_entries: None,
    status: None,
    why: None,
};

fn as_name<S: Serializer>(status: &Option<RunStatus>, serializer: S) -> Result<S::Ok, S::Error> {
    status.map(run_status::name).serialize(serializer)
}

impl RunRecovery {
    pub(super) fn intact(journal: &Journal) -> Self {
        Self {
            run: Some(journal.run.clone()),
            revision: Some(journal.position.revision.0),
            status: Some(journal.state.run.status),
            ..WHOLE
        }
    }

    pub(super) fn of_another_protocol(row: &RunListing) -> Self {
        let why = Some(match row.protocol.as_str() {
            "" => "its protocol cannot be read".to_owned(),
            protocol => format!("this version of callboard has no protocol `{protocol}`"),
        });
        Self { run: Some(row.run.clone()), outcome: "unchecked", why, ..WHOLE }
    }

    pub(super) fn existing(run: &RunId) -> Self {
        let why = Some("the store has a run of that name; it was not changed".to_owned());
        Self { run: Some(run.clone()), outcome: "exists", why, ..WHOLE }
    }

    pub(super) fn salvaged(Salvaged { run, outcome }: &Salvaged) -> Self {
        let named = Self { run: run.clone().ok(), number: run.clone().err(), ..WHOLE };
        match outcome {
            SalvageOutcome::Whole { revision, status } => {
                Self { revision: Some(revision.0), status: Some(*status), ..named }
            }
            SalvageOutcome::Truncated { revision, status, newest, later_entries, why } => Self {
                outcome: "cut",
                revision: Some(revision.0),
                newest: Some(newest.0),
                later_entries: Some(*later_entries),
                status: Some(*status),
                why: Some(why.clone()),
                ..named
            },
            SalvageOutcome::Unreadable { newest, why } => {
                Self { outcome: "unreadable", newest: Some(newest.0), why: Some(why.clone()), ..named }
            }
        }
    }

    pub(super) fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }

    fn name(&self) -> String {
        match (&self.run, self.number) {
            (Some(run), _) => run.to_string(),
            (None, Some(number)) => format!("(number {number})"),
            (None, None) => "(unknown)".to_owned(),
        }
    }

    /// Returns the result in one line, without colour.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{} {}", self.name(), self.outcome);
        if let Some(why) = &self.why {
            line.push_str(&format!(": {why}"));
        }
        line
    }

    fn print(&self, width: usize) {
        let style = match self.outcome {
            "whole" => GREEN,
            "cut" => YELLOW,
            "unreadable" => RED,
            _ => DIM,
        };
        let status = self.status.map(|status| run_status::label(status).1);
        let mut details = Vec::new();
        match (self.revision, self.newest) {
            (Some(revision), Some(newest)) => details.push(format!("{revision} of {}", entries(newest))),
            (Some(revision), None) => details.push(entries(revision)),
            (None, Some(newest)) => details.push(format!("none of {}", entries(newest))),
            (None, None) => {}
        }
        details.extend(status.map(str::to_owned));
        details.extend(self.why.clone());
        output::data(format_args!(
            "  {} {}  {}",
            styled(BOLD, format_args!("{:<width$}", self.name())),
            styled(style, format_args!("{:<10}", self.outcome)),
            details.join(", ")
        ));
    }
}

fn entries(count: u64) -> String {
    output::count(usize::try_from(count).unwrap_or(usize::MAX), "entry", "entries")
}

impl RecoveryReport {
    pub(super) fn new(workspace: &Workspace, arguments: &Arguments) -> Self {
        Self {
            store: workspace.store_name(),
            dry_run: arguments.dry_run,
            from: arguments.from.clone(),
            repo: workspace.repo.clone(),
            json: arguments.json,
            is_shared: workspace.nats.is_some(),
            was_missing: false,
            damage: Vec::new(),
            backup: None,
            runs: Vec::new(),
            views: Vec::new(),
            quarantined: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Prints the report. Returns `Failed` if something is lost.
    pub(super) fn print(self) -> Exit {
        let lost = self.runs.iter().any(|run| matches!(run.outcome, "cut" | "unreadable"));
        let exit = if lost { Exit::Failed } else { Exit::Success };
        if self.json {
            output::json_pretty(&self);
            return exit;
        }
        self.print_damage();
        let width = self.runs.iter().map(|run| run.name().len()).max().unwrap_or(0);
        self.runs.iter().for_each(|run| run.print(width));
        let written = if self.dry_run { "would be written again" } else { "was written again" };
        for view in &self.views {
            output::data(format_args!("  {} {written}", view.display()));
        }
        for (view, moved_to) in &self.quarantined {
            output::note(format_args!(
                "another program had changed `{}`; its version was moved to `{}`",
                view.display(),
                moved_to.display()
            ));
        }
        self.notes.iter().for_each(output::note);
        self.print_next_commands();
        exit
    }

    fn print_damage(&self) {
        let store = &self.store;
        if self.was_missing {
            let would_be = if self.dry_run { "would be" } else { "was" };
            output::data(format_args!(
                "the store `{store}` did not exist and {would_be} created from the copy"
            ));
            return;
        }
        if self.damage.is_empty() && self.backup.is_none() {
            let is_added = |run: &RunRecovery| matches!(run.outcome, "whole" | "cut");
            let added = match (self.runs.iter().any(is_added), self.dry_run) {
                (true, true) => "would be added:",
                (true, false) => "were added:",
                (false, true) => "would not be added",
                (false, false) => "were not added",
            };
            output::data(match &self.from {
                None => format!("the store `{store}` is intact"),
                Some(from) if self.runs.is_empty() => {
                    format!("the store `{store}` is intact; `{}` has no runs", from.display())
                }
                Some(from) => {
                    format!("the store `{store}` is intact; the runs of `{}` {added}", from.display())
                }
            });
            return;
        }
        output::data(format_args!("the store `{store}` {} damaged", if self.dry_run { "is" } else { "was" }));
        for damage in &self.damage {
            output::data(format_args!("  {}", styled(DIM, damage)));
        }
        match &self.backup {
            Some(backup) => output::data(format_args!("a backup is in `{}`", backup.display())),
            None if self.dry_run && !self.runs.is_empty() => {
                output::data("its runs would be recovered like this:");
            }
            None => {}
        }
    }

    fn print_next_commands(&self) {
        for run in &self.runs {
            let name = run.name();
            match (run.outcome, run.status) {
                ("cut", Some(RunStatus::Finished(_))) | ("cut", None) => {}
                ("cut", Some(_)) if !self.dry_run => output::note(format_args!(
                    "run `callboard resume {name}` to continue after the last entry that was kept; what its agents \
                     reported later is read from their directories"
                )),
                ("unreadable", _) => {
                    if let Some(command) = rebuild_command(&self.repo, &name) {
                        output::note(format_args!("run `{command}` to rebuild `{name}` from its files"));
                    } else if run.run.is_none() {
                        output::note(
                            "run `callboard recover --from-view VIEW --workflow WORKFLOW` to rebuild a run from its view",
                        );
                    }
                }
                _ => {}
            }
        }
        if self.dry_run && self.was_missing {
            output::note("nothing was changed; run the same command without `--dry-run` to create the store");
        } else if self.dry_run && !self.damage.is_empty() {
            // A store on NATS is repaired in place, without a backup.
            let backup = if self.is_shared { "" } else { "; it makes a backup first" };
            let from = self.from.as_ref().map(|from| format!(" --from {}", output::shell_word(from)));
            output::note(format_args!(
                "nothing was changed; run `callboard recover{}` to repair the store{backup}",
                from.unwrap_or_default()
            ));
        }
    }
}

/// Returns the command that rebuilds a run from its files. `None` if there are none: only runs of `steps` and `cycle` can be
/// rebuilt.
pub(super) fn rebuild_command(repo: &Path, run: &str) -> Option<String> {
    let view = repo.join(".agents/runs").join(run).join("run_state.json");
    if view.exists() {
        let view = output::shell_word(&view);
        return Some(format!("callboard recover --from-view {view} --workflow WORKFLOW"));
    }
    let files = ["json", "progress"].map(|end| repo.join(cycle::DIRECTORY).join(format!("{run}.{end}")));
    files.iter().any(|file| file.exists()).then(|| format!("callboard recover {run}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_run_is_rebuilt_with_the_command_of_its_protocol() {
        let repo = tempfile::Builder::new().prefix("my repo").tempdir().unwrap();
        let write = |path: &str| {
            let path = repo.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        };
        write(".agents/runs/trial/run_state.json");
        write(".workflow/.cycle/made.json");
        write(".workflow/.cycle/torn.progress/ra/spec.md");
        let command = |run| rebuild_command(repo.path(), run);
        let root = repo.path().display();
        assert_eq!(
            command("trial").unwrap(),
            format!(
                "callboard recover --from-view '{root}/.agents/runs/trial/run_state.json' --workflow WORKFLOW"
            )
        );
        assert_eq!(command("made").unwrap(), "callboard recover made");
        assert_eq!(command("torn").unwrap(), "callboard recover torn");
        assert_eq!(command("peer.global.cycle.1"), None);
    }
}
