//! What the run's files show: the document paced, each report when it comes, everything when the run rests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use protocol::entry::{Entry, Input};
use protocol::report::Report;
use protocol::run::Fact;
use protocol::{Protocol, Revision, View};
use store::{Digest, Store, ViewMark};
use tokio::time::Instant;

use super::{Engine, EngineError};
use crate::marks::{marks_here, marks_kept};
use crate::notice::Notice;
use crate::views::{Firmness, Views};

/// The views of a run, and whether the document's is behind.
#[derive(Debug)]
pub(super) struct Showing {
    views: Views,
    stale: bool,
    /// Whose files they are, if others have some too.
    host: Option<String>,
    /// The repository is on other hosts only: nothing is shown here.
    absent: bool,
}

impl Showing {
    pub(super) fn new(
        marks: &[ViewMark],
        quarantine: PathBuf,
        host: Option<&str>,
        repository: &Path,
    ) -> Self {
        Self {
            views: Views::new(&marks_here(marks, host), quarantine),
            stale: true,
            host: host.map(str::to_owned),
            absent: host.is_some() && !repository.is_dir(),
        }
    }

    /// The document has changed.
    pub(super) fn is_stale(&mut self) {
        self.stale = true;
    }

    /// When the document's view is to be written next.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.stale && !self.absent).then(|| self.views.not_before().into())
    }

    pub(super) fn take_marks(&mut self) -> Vec<ViewMark> {
        marks_kept(self.views.take_marks(), self.host.as_deref())
    }

    pub(super) fn give_back(&mut self, marks: Vec<ViewMark>) {
        self.views.give_back(marks_here(&marks, self.host.as_deref()));
    }
}

impl<P: Protocol, S: Store> Engine<'_, P, S> {
    /// Finishes what an earlier engine may have left undone: the views of what it committed last. They are known for
    /// ours before we change the document.
    ///
    /// A view's mark rides in the engine's next commit. Until then others may commit, so an unmarked view of ours shows
    /// some revision since the last mark.
    pub(super) async fn recognise_views(&mut self) -> Result<(), EngineError> {
        if self.showing.absent {
            return Ok(());
        }
        let view = P::view(&self.journal.document);
        let is_its = |mark: &&ViewMark| view.as_ref().is_some_and(|view| mark.path == view.path);
        let marks = marks_here(&self.journal.views, self.showing.host.as_deref());
        let marked = marks.iter().find(is_its).map_or(Revision(0), |mark| mark.revision);
        let mut reported = BTreeMap::new();
        for stored in self.journal.store.entries(&self.journal.run, marked).await? {
            if let Some(view) = &view {
                self.recognise_at(view, stored.revision).await?;
            }
            let entry: Entry<P> = self.journal.decode(&stored)?;
            if let Some((step, _)) = report_in::<P>(&entry.input) {
                reported.insert(step.clone(), entry.input);
            }
        }
        // Of each step the latest: an earlier one of a step that was sent back would take the file of the later one for
        // a stranger's.
        for input in reported.values() {
            self.show_report(input);
        }
        self.show_now();
        Ok(())
    }

    /// Takes a stranger in the view's place for ours if it shows the document as it was then.
    async fn recognise_at(&mut self, view: &View, revision: Revision) -> Result<(), EngineError> {
        let failed = |source| EngineError::View { path: PathBuf::from(&view.path), source };
        if let Some(found) = self.showing.views.stranger(view).map_err(failed)? {
            let shown = self.journal.document_at(revision).await?.as_ref().and_then(P::view);
            if shown.is_some_and(|shown| Digest::of(shown.body) == found) {
                self.showing.views.recognise(view, found);
            }
        }
        Ok(())
    }

    /// Writes the document's view if it is stale and its time has come.
    pub(super) fn show(&mut self) {
        if self.showing.due().is_some_and(|due| due <= Instant::now()) {
            self.show_now();
        }
    }

    fn show_now(&mut self) {
        let begun = Instant::now();
        let Some(view) = P::view(&self.journal.document) else {
            self.showing.stale = false;
            return;
        };
        let written = self.write_view(&view, Firmness::Paced);
        self.showing.views.charge(begun.elapsed());
        match written {
            Ok(()) => self.showing.stale = false,
            // Not lost: it stays stale, is tried again, and ends the command aloud if it still fails at rest.
            Err(error) => {
                if self.showing.views.back_off() {
                    let view = PathBuf::from(&view.path);
                    self.observer.notice(Notice::ViewFailed { view, error: &error });
                }
            }
        }
    }

    /// The latest report of a step is a file of the seed's layout, too. One that cannot be written now is written when
    /// the run rests.
    pub(super) fn show_report(&mut self, input: &Input<P>) {
        if self.showing.absent {
            return;
        }
        let Some((step, report)) = report_in::<P>(input) else { return };
        let Some(path) = P::report_path(&self.journal.document, step) else { return };
        let begun = Instant::now();
        let view = report_view(path, report);
        let written = self.write_view(&view, Firmness::Paced);
        self.showing.views.charge(begun.elapsed());
        if let Err(error) = written {
            self.observer.notice(Notice::ViewFailed { view: PathBuf::from(&view.path), error: &error });
        }
    }

    /// Writes all views so that they last, and notes what they show: the run rests.
    pub(super) async fn write_all_views(&mut self) -> Result<(), EngineError> {
        if self.showing.absent {
            return Ok(());
        }
        let failed = |view: &View| {
            let path = PathBuf::from(&view.path);
            move |source| EngineError::View { path, source }
        };
        for view in self.missing_reports().await? {
            self.write_view(&view, Firmness::AtRest).map_err(failed(&view))?;
        }
        if let Some(view) = P::view(&self.journal.document) {
            self.write_view(&view, Firmness::AtRest).map_err(failed(&view))?;
        }
        let marks = self.showing.take_marks();
        Ok(self.journal.store.mark_views(&self.journal.run, marks).await?)
    }

    /// Report files that should be there and are not: they are found in the journal, which is read only if there are
    /// any.
    async fn missing_reports(&self) -> Result<Vec<View>, EngineError> {
        let reported = P::reported_steps(&self.journal.document).into_iter();
        let paths = reported.filter_map(|step| Some((P::report_path(&self.journal.document, &step)?, step)));
        let missing: BTreeMap<_, _> = paths
            .filter(|(path, _)| !self.showing.views.is_there(path.as_ref()))
            .map(|(path, step)| (step, path))
            .collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = BTreeMap::new();
        for stored in self.journal.store.entries(&self.journal.run, Revision(0)).await? {
            let entry: Entry<P> = self.journal.decode(&stored)?;
            if let Some((step, report)) = report_in::<P>(&entry.input) {
                found.insert(step.clone(), report.clone());
            }
        }
        let steps: BTreeSet<_> = missing.keys().cloned().collect();
        found.retain(|step, _| steps.contains(step));
        Ok(found.into_iter().map(|(step, report)| report_view(missing[&step].clone(), &report)).collect())
    }

    fn write_view(&mut self, view: &View, firmness: Firmness) -> io::Result<()> {
        if let Some(aside) = self.showing.views.write(view, self.journal.position.revision, firmness)? {
            self.observer.notice(Notice::SetAside { view: aside.view, kept: aside.kept });
        }
        Ok(())
    }
}

fn report_in<P: Protocol>(input: &Input<P>) -> Option<(&P::Step, &Report)> {
    match input {
        Input::Fact { fact: Fact::Ended { attempt, .. }, evidence: Some(evidence) } => {
            Some((&attempt.step, evidence.report.as_ref()?))
        }
        Input::Fact { fact: Fact::Ended { .. } | Fact::BackoffElapsed { .. }, .. }
        | Input::Opened { .. }
        | Input::Request { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred
        | Input::Recovered { .. } => None,
    }
}

fn report_view(path: String, report: &Report) -> View {
    let mut body = serde_json::to_string_pretty(report).expect("BUG: a report is plain data");
    body.push('\n');
    View { path, body }
}
