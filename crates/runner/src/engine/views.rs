//! The view files of a run: the document's view is written at a limited rate, each report when it arrives, and all of
//! them when the engine exits.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linux::DirWatch;
use protocol::entry::Input;
use protocol::report::Report;
use protocol::run::Fact;
use protocol::{Revision, StepId, View};
use store::{Digest, ViewMark};
use tokio::time::Instant;

use super::{Engine, EngineError};
use crate::engine::Notice;
use crate::views::{Durability, ViewFiles};
use crate::views::{view_marks_for_store, view_marks_of_host};

/// The view files of a run, and whether those of the document are stale.
#[derive(Debug)]
pub(super) struct RunViews {
    files: ViewFiles,
    stale: bool,
    /// This host, if several hosts share the store and each has its own files.
    host: Option<String>,
    /// The repository is not on this host: no views are written.
    repo_missing: bool,
    watched_view: Option<WatchedView>,
}

/// A view that agents read. It is replaced when another program changes it.
#[derive(Debug)]
struct WatchedView {
    view: PathBuf,
    watch: DirWatch,
    /// When the view was last replaced without regard to the rate limit.
    replaced_at: Option<Instant>,
}

/// The shortest time between two replacements that ignore the rate limit, so that another program that keeps writing the
/// watched view does not keep the engine busy.
const MIN_REPLACEMENT_INTERVAL: Duration = Duration::from_secs(1);

impl RunViews {
    pub(super) fn new(
        marks: &[ViewMark],
        quarantine: PathBuf,
        host: Option<&str>,
        repository: &Path,
    ) -> Self {
        Self {
            files: ViewFiles::new(&view_marks_of_host(marks, host), quarantine),
            stale: true,
            host: host.map(str::to_owned),
            repo_missing: host.is_some() && !repository.is_dir(),
            watched_view: None,
        }
    }

    /// Waits until another program has changed the watched view. Cancel-safe.
    pub(super) async fn changed(&self) {
        if let Some(WatchedView { view, watch, .. }) = &self.watched_view {
            while watch.written().await.is_ok() {
                if !self.files.is_unchanged(view) {
                    return;
                }
            }
        }
        std::future::pending::<()>().await;
    }

    /// Records that the document has changed.
    pub(super) fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// Returns when the document's views are to be written next.
    pub(super) fn next_write(&self) -> Option<Instant> {
        (self.stale && !self.repo_missing).then(|| self.files.not_before().into())
    }

    /// Returns whether the repository is not on this host.
    pub(super) fn repo_missing(&self) -> bool {
        self.repo_missing
    }

    pub(super) fn take_view_marks(&mut self) -> Vec<ViewMark> {
        view_marks_for_store(self.files.take_view_marks(), self.host.as_deref())
    }

    /// Puts back the marks of a commit that failed.
    pub(super) fn put_back_view_marks(&mut self, marks: Vec<ViewMark>) {
        self.files.put_back_view_marks(view_marks_of_host(&marks, self.host.as_deref()));
    }
}

impl Engine<'_> {
    /// Writes the views of commits whose engine exited before it could. First recognises the files that earlier engines
    /// wrote, so that they are not quarantined as edits of another program.
    ///
    /// A view's mark, the digest of what was written, is stored with the engine's next commit. Other clients may commit
    /// in between, so an unmarked view shows any revision since the last mark.
    pub(super) async fn recover_views(&mut self) -> Result<(), EngineError> {
        if self.views.repo_missing {
            return Ok(());
        }
        let views = self.journal.document().views();
        let marks = view_marks_of_host(&self.journal.views, self.views.host.as_deref());
        let marked = |view: &View| marks.iter().find(|mark| mark.path == view.path).map(|mark| mark.revision);
        // A view without a mark may show any revision.
        let oldest = views.iter().map(|view| marked(view).unwrap_or(Revision(0))).min();
        let mut latest = BTreeMap::new();
        for stored in self.journal.store.entries(&self.journal.run, oldest.unwrap_or(Revision(0))).await? {
            self.recognise_views(&views, stored.revision).await?;
            let entry = self.journal.decode(&stored)?;
            if let Some((step, report)) = report_in(&entry.input)
                && self.journal.machine().shows_report(step, report)
            {
                latest.insert(step.clone(), entry.input);
            }
        }
        // Only the latest report of each step: comparing with an earlier one would quarantine the file of the later
        // one.
        for input in latest.values() {
            self.write_report_view(input);
        }
        self.write_document_views();
        Ok(())
    }

    /// Recognises files of earlier engines: those at the views' paths that show the document as it was at the revision.
    async fn recognise_views(&mut self, views: &[View], revision: Revision) -> Result<(), EngineError> {
        let mut unknown = Vec::new();
        for view in views {
            let failed = |source| EngineError::View { path: PathBuf::from(&view.path), source };
            if let Some(found) = self.views.files.unknown_digest(view).map_err(failed)? {
                unknown.push((view, found));
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let shown = self.journal.document_at(revision).await?.map(|document| document.views());
        for (view, found) in unknown {
            let mut shown = shown.iter().flatten().filter(|shown| shown.path == view.path);
            if shown.any(|shown| Digest::of(&shown.body) == found) {
                self.views.files.recognise(view, found);
            }
        }
        Ok(())
    }

    /// Watches the first view, if agents of the protocol read it.
    pub(super) fn watch_first_view(&mut self) {
        let should_watch = self.journal.kind().info().reverts_view_edits && !self.views.repo_missing;
        let Some(view) = self.journal.document().views().into_iter().next().filter(|_| should_watch) else {
            return;
        };
        let view = PathBuf::from(view.path);
        let Some(directory) = view.parent() else { return };
        match self.dir_watcher.watch(directory, std::slice::from_ref(&view)) {
            Ok(watch) => self.views.watched_view = Some(WatchedView { view, watch, replaced_at: None }),
            // The next write of the views notices a change, too.
            Err(error) => tracing::warn!(%error, view = %view.display(), "cannot watch the view"),
        }
    }

    /// Replaces a view that another program has changed.
    pub(super) fn replace_changed_view(&mut self) {
        self.views.mark_stale();
        let Some(watched_view) = &mut self.views.watched_view else { return };
        if watched_view.replaced_at.is_none_or(|at| at.elapsed() >= MIN_REPLACEMENT_INTERVAL) {
            watched_view.replaced_at = Some(Instant::now());
            self.write_document_views();
        }
    }

    /// Writes the document's views if they are stale and their time has come.
    pub(super) fn write_views_if_due(&mut self) {
        if self.views.next_write().is_some_and(|at| at <= Instant::now()) {
            self.write_document_views();
        }
    }

    /// Writes the document's views without regard to the rate limit: agents read there whether the run is paused or
    /// stopped.
    pub(super) fn show_status_now(&mut self) {
        if !self.views.repo_missing {
            self.write_document_views();
        }
    }

    /// Writes the document's views at once if they are stale.
    pub(super) fn write_stale_views(&mut self) {
        if self.views.stale && !self.views.repo_missing {
            self.write_document_views();
        }
    }

    fn write_document_views(&mut self) {
        self.make_answer_dirs();
        for view in self.journal.document().views() {
            let start = Instant::now();
            let written = self.write_view(&view, Durability::Buffered);
            self.views.files.charge(start.elapsed());
            // The views stay stale and are retried. If they still cannot be written at exit, the command fails.
            if let Err(error) = written {
                // Only the first failure since the last success is shown.
                if self.views.files.back_off() {
                    let view = PathBuf::from(&view.path);
                    self.observer.notice(Notice::ViewFailed { view, error: &error });
                }
                return;
            }
        }
        self.views.stale = false;
    }

    /// Writes the view of the report in `input`, if there is a report and the protocol shows it in a view. If that fails,
    /// the view is written at exit.
    pub(super) fn write_report_view(&mut self, input: &Input) {
        if self.views.repo_missing {
            return;
        }
        let Some((step, report)) = report_in(input) else { return };
        if !self.journal.machine().shows_report(step, report) {
            return;
        }
        let Some(path) = self.journal.machine().report_view_path(step) else { return };
        let start = Instant::now();
        let view = report_view(path, report);
        let written = self.write_view(&view, Durability::Buffered);
        self.views.files.charge(start.elapsed());
        if let Err(error) = written {
            self.observer.notice(Notice::ViewFailed { view: PathBuf::from(&view.path), error: &error });
        }
    }

    /// Writes and syncs all views, and stores their marks.
    pub(super) async fn write_all_views(&mut self) -> Result<(), EngineError> {
        if self.views.repo_missing {
            return Ok(());
        }
        let failed = |view: &View| {
            let path = PathBuf::from(&view.path);
            move |source| EngineError::View { path, source }
        };
        for view in self.missing_report_views().await? {
            self.write_view(&view, Durability::Synced).map_err(failed(&view))?;
        }
        for view in self.journal.document().views() {
            self.write_view(&view, Durability::Synced).map_err(failed(&view))?;
        }
        let marks = self.views.take_view_marks();
        Ok(self.journal.store.record_view_marks(&self.journal.run, marks).await?)
    }

    /// Returns the views of reports whose files are missing or changed. Reads the journal only if there are any.
    async fn missing_report_views(&self) -> Result<Vec<View>, EngineError> {
        let machine = self.journal.machine();
        let reported = machine.reported_steps().into_iter();
        let paths = reported.filter_map(|step| Some((machine.report_view_path(&step)?, step)));
        let missing: BTreeMap<_, _> = paths
            .filter(|(path, _)| !self.views.files.is_unchanged(path.as_ref()))
            .map(|(path, step)| (step, path))
            .collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = BTreeMap::new();
        for stored in self.journal.store.entries(&self.journal.run, Revision(0)).await? {
            let entry = self.journal.decode(&stored)?;
            if let Some((step, report)) = report_in(&entry.input)
                && machine.shows_report(step, report)
            {
                found.insert(step.clone(), report.clone());
            }
        }
        let steps: BTreeSet<_> = missing.keys().cloned().collect();
        found.retain(|step, _| steps.contains(step));
        Ok(found.into_iter().map(|(step, report)| report_view(missing[&step].clone(), &report)).collect())
    }

    fn write_view(&mut self, view: &View, durability: Durability) -> io::Result<()> {
        if let Some(quarantined) = self.views.files.write(view, self.journal.position.revision, durability)? {
            self.observer
                .notice(Notice::ViewQuarantined { view: quarantined.view, moved_to: quarantined.moved_to });
        }
        Ok(())
    }
}

fn report_in(input: &Input) -> Option<(&StepId, &Report)> {
    match input {
        Input::Fact { fact: Fact::Ended { attempt, .. }, evidence: Some(evidence) } => {
            Some((&attempt.step, evidence.report.as_ref()?))
        }
        Input::Fact {
            fact: Fact::Ended { .. } | Fact::BackoffElapsed { .. } | Fact::Answered { .. },
            ..
        }
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
