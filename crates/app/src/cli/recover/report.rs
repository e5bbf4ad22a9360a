//! What `recover` tells: what is wrong, where it was kept, what became of each run.

use std::path::PathBuf;

use protocol::RunId;
use protocol::peer::CycleId;
use protocol::run::RunStatus;
use runner::{Journal, SalvageOutcome, Salvaged};
use serde::{Serialize, Serializer};
use store::{AnyStore, RunRow};

use super::Arguments;
use crate::failure::Exit;
use crate::output::{self, BOLD, DIM, GREEN, RED, YELLOW, styled};
use crate::present::Presentation;
use crate::present::run_status;
use crate::workspace::Workspace;

#[derive(Debug, Serialize)]
pub(super) struct RecoveryReport {
    store: String,
    dry_run: bool,
    /// The copy that is read instead of the store's own database.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<PathBuf>,
    #[serde(skip)]
    json: bool,
    /// Whether the store is on NATS.
    #[serde(skip)]
    is_shared: bool,
    /// Whether there was no store at all, only the copy that it is made from.
    pub(super) was_none: bool,
    /// What is wrong; nothing, if the store is sound.
    pub(super) damage: Vec<String>,
    /// Where the damaged store was kept.
    pub(super) kept: Option<PathBuf>,
    pub(super) runs: Vec<RunRecovery>,
    /// Files that were written again.
    pub(super) views: Vec<PathBuf>,
    /// Strangers' bytes: where they were, where they are.
    pub(super) quarantined: Vec<(PathBuf, PathBuf)>,
    pub(super) notes: Vec<String>,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct RunRecovery {
    run: Option<RunId>,
    /// The number by which its entries name it, if nothing else is left of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<i64>,
    outcome: &'static str,
    /// The last entry that is in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// The last entry that is known to have been written.
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<u64>,
    /// Entries behind the gap: they are in what was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    beyond: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_name")]
    status: Option<RunStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

const NOTHING: RunRecovery = RunRecovery {
    run: None,
    number: None,
    outcome: "whole",
    revision: None,
    newest: None,
    beyond: None,
    status: None,
    why: None,
};

fn as_name<S: Serializer>(status: &Option<RunStatus>, serializer: S) -> Result<S::Ok, S::Error> {
    status.map(run_status::name).serialize(serializer)
}

impl RunRecovery {
    pub(super) fn sound<P: Presentation>(journal: &Journal<P, AnyStore>) -> Self {
        Self {
            run: Some(journal.run.clone()),
            revision: Some(journal.position.revision.0),
            status: Some(journal.state.run.status),
            ..NOTHING
        }
    }

    pub(super) fn of_another_protocol(row: &RunRow) -> Self {
        let why = Some(match row.protocol.as_str() {
            "" => "it cannot be understood".to_owned(),
            protocol => format!("a `{protocol}` run, which this program cannot check"),
        });
        Self { run: Some(row.run.clone()), outcome: "unchecked", why, ..NOTHING }
    }

    pub(super) fn there_already(run: &Result<RunId, i64>) -> Self {
        let why = Some("a run of that name is in the store already; it was left as it is".to_owned());
        Self { run: run.clone().ok(), outcome: "there", why, ..NOTHING }
    }

    pub(super) fn salvaged(Salvaged { run, outcome }: &Salvaged) -> Self {
        let named = Self { run: run.clone().ok(), number: run.clone().err(), ..NOTHING };
        match outcome {
            SalvageOutcome::Whole { revision, status } => {
                Self { revision: Some(revision.0), status: Some(*status), ..named }
            }
            SalvageOutcome::Cut { revision, status, newest, beyond, why } => Self {
                outcome: "cut",
                revision: Some(revision.0),
                newest: Some(newest.0),
                beyond: Some(*beyond),
                status: Some(*status),
                why: Some(why.clone()),
                ..named
            },
            SalvageOutcome::Unreadable { newest, why } => {
                Self { outcome: "unreadable", newest: Some(newest.0), why: Some(why.clone()), ..named }
            }
        }
    }

    fn name(&self) -> String {
        match (&self.run, self.number) {
            (Some(run), _) => run.to_string(),
            (None, Some(number)) => format!("(number {number})"),
            (None, None) => "(nameless)".to_owned(),
        }
    }

    /// The run in a line, without colour.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{} {}", self.name(), self.outcome);
        if let Some(why) = &self.why {
            line.push_str(&format!(": {why}"));
        }
        line
    }

    fn tell(&self, width: usize) {
        let style = match self.outcome {
            "whole" => GREEN,
            "cut" => YELLOW,
            "unreadable" => RED,
            _ => DIM,
        };
        let status = self.status.map(|status| run_status::word(status).1);
        let mut particulars = Vec::new();
        match (self.revision, self.newest) {
            (Some(revision), Some(newest)) => particulars.push(format!("{revision} of {newest} entries")),
            (Some(revision), None) => particulars.push(format!("{revision} entries")),
            (None, Some(newest)) => particulars.push(format!("none of {newest} entries")),
            (None, None) => {}
        }
        particulars.extend(status.map(str::to_owned));
        particulars.extend(self.why.clone());
        output::data(format_args!(
            "  {} {}  {}",
            styled(BOLD, format_args!("{:<width$}", self.name())),
            styled(style, format_args!("{:<10}", self.outcome)),
            particulars.join(", ")
        ));
    }
}

impl RecoveryReport {
    pub(super) fn new(workspace: &Workspace, arguments: &Arguments) -> Self {
        Self {
            store: workspace.store_name(),
            dry_run: arguments.dry_run,
            from: arguments.from.clone(),
            json: arguments.json,
            is_shared: workspace.nats.is_some(),
            was_none: false,
            damage: Vec::new(),
            kept: None,
            runs: Vec::new(),
            views: Vec::new(),
            quarantined: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Prints it, and says whether something is lost.
    pub(super) fn tell(self) -> Exit {
        let lost = self.runs.iter().any(|run| matches!(run.outcome, "cut" | "unreadable"));
        let exit = if lost { Exit::Failed } else { Exit::Success };
        if self.json {
            output::json_pretty(&self);
            return exit;
        }
        self.tell_damage();
        let width = self.runs.iter().map(|run| run.name().len()).max().unwrap_or(0);
        self.runs.iter().for_each(|run| run.tell(width));
        let would = if self.dry_run { "would be written again" } else { "was written again" };
        for view in &self.views {
            output::data(format_args!("  {} {would}", view.display()));
        }
        for (view, kept) in &self.quarantined {
            output::note(format_args!(
                "somebody had changed `{}`; their bytes are in `{}`",
                view.display(),
                kept.display()
            ));
        }
        self.notes.iter().for_each(output::note);
        self.tell_what_next();
        exit
    }

    fn tell_damage(&self) {
        let store = &self.store;
        if self.was_none {
            let made = if self.dry_run { "would be" } else { "is" };
            output::data(format_args!("there was no store `{store}`; it {made} made from the copy"));
            return;
        }
        if self.damage.is_empty() && self.kept.is_none() {
            let adds = if self.dry_run { "would be added" } else { "were added" };
            output::data(match &self.from {
                None => format!("the store `{store}` is sound"),
                Some(from) => {
                    format!("the store `{store}` is sound; these runs of `{}` {adds}:", from.display())
                }
            });
            return;
        }
        output::data(format_args!("the store `{store}` {} damaged", if self.dry_run { "is" } else { "was" }));
        for damage in &self.damage {
            output::data(format_args!("  {}", styled(DIM, damage)));
        }
        match &self.kept {
            Some(kept) => output::data(format_args!("it is kept as it was in `{}`", kept.display())),
            None if self.dry_run && !self.runs.is_empty() => {
                output::data("this is what would become of its runs:");
            }
            None => {}
        }
    }

    fn tell_what_next(&self) {
        for run in &self.runs {
            let name = run.name();
            match (run.outcome, run.status) {
                ("cut", Some(RunStatus::Finished(_))) | ("cut", None) => {}
                ("cut", Some(_)) if !self.dry_run => output::note(format_args!(
                    "`callboard resume {name}` goes on where it is cut; what its agents finished later is found in \
                     their directories"
                )),
                // A cycle has no view.
                ("unreadable", _) if CycleId::from_key(&name).is_ok() => {}
                ("unreadable", _) if run.run.is_some() => output::note(format_args!(
                    "`callboard recover --from-view .agents/runs/{name}/run_state.json --workflow WORKFLOW` rebuilds \
                     `{name}` from its view"
                )),
                ("unreadable", _) => output::note(
                    "`callboard recover --from-view VIEW --workflow WORKFLOW` rebuilds a run from its view",
                ),
                _ => {}
            }
        }
        if self.dry_run && self.was_none {
            output::note("nothing was changed; the same without `--dry-run` does it");
        } else if self.dry_run && !self.damage.is_empty() {
            // Servers keep what they have: no copy is made of it.
            let kept = if self.is_shared { "" } else { ", and keeps the store as it is first" };
            output::note(format_args!("nothing was changed; `callboard recover` does it{kept}"));
        }
    }
}
