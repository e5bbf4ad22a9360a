//! One attempt from the engine's side: prepare its directory, start or adopt it, attend it to its end.

use std::io;
use std::path::Path;
use std::time::Duration;

use protocol::AttemptId;
use protocol::brief::{Brief, Upstream};
use protocol::check::artifact_path_problem;
use protocol::report::{Expected, Report};
use protocol::run::Attempt;
use supervisor::adapter::{Assignment, Dependency, ReportRule, environment};
use supervisor::report::{Collected, collect};
use supervisor::{
    AttachError, AttemptDir, AttemptHandle, ClaimError, DirWatcher, Launch, Mark, News, OrderError, Over,
    ShimProgram, Shutdown, Voided, void,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::causes::with_causes;
use crate::engine::until;
use crate::engine_config::{AgentProfile, EngineConfig};
use crate::opening::RunOptions;
use crate::prompt::Told;

/// All that one attempt needs, before anything touches the disk.
#[derive(Debug)]
pub(crate) struct AttemptSpec {
    pub(crate) attempt: AttemptId,
    pub(crate) expected: Expected,
    pub(crate) brief: Brief,
    profile: Option<AgentProfile>,
    provenance: Provenance,
    pub(crate) dir: AttemptDir,
    options: RunOptions,
    artifacts_dir: String,
    mark: Mark,
    shim: ShimProgram,
    dir_watcher: DirWatcher,
    descriptors: Option<u64>,
    lingering: Duration,
}

/// Where an attempt comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provenance {
    /// We have just decided to start it.
    New,
    /// An earlier engine may have started it.
    Found,
}

impl AttemptSpec {
    pub(crate) fn new(
        engine_config: &EngineConfig,
        dir_watcher: &DirWatcher,
        options: RunOptions,
        artifacts_dir: String,
        attempt: AttemptId,
        brief: Brief,
        provenance: Provenance,
    ) -> Self {
        let run = options.location.run.clone();
        Self {
            expected: Expected {
                run_id: run.clone(),
                step_id: attempt.step.clone(),
                agent: brief.agent.clone(),
            },
            dir: AttemptDir::new(&engine_config.attempts_dir(), &run, &attempt),
            mark: Mark { store: engine_config.store_root.clone(), run, attempt: attempt.clone() },
            profile: engine_config.profile(&options, &brief.agent).cloned(),
            descriptors: engine_config.descriptors,
            provenance,
            options,
            artifacts_dir,
            shim: engine_config.shim.clone(),
            dir_watcher: dir_watcher.clone(),
            lingering: engine_config.lingering,
            attempt,
            brief,
        }
    }

    /// Names the report's artifacts from the repository's top, as the document shows them; one that lies elsewhere makes
    /// the report unfit.
    pub(crate) fn localise(&self, mut report: Report) -> Result<Report, String> {
        let root = format!("{}/", self.options.location.repo_dir);
        for artifact in &mut report.artifacts {
            if let Some(inside) = artifact.strip_prefix(&root) {
                *artifact = inside.to_owned();
            }
            if let Some(fault) = artifact_path_problem(artifact) {
                return Err(format!(
                    "artifact `{artifact}` {fault}; name files of the repository, from its top"
                ));
            }
        }
        Ok(report)
    }

    /// How long its agent may run.
    fn timeout(&self) -> Option<Duration> {
        self.brief.timeout.or(self.profile.as_ref().and_then(|profile| profile.timeout))
    }

    /// What counts as its report.
    pub(crate) fn report_rule(&self) -> ReportRule {
        self.profile.as_ref().map_or(ReportRule::Required, |profile| profile.report)
    }

    /// Starts the attempt. A start that was already made loses nothing: one of the shims gets the claim.
    fn launch(&self) -> Result<AttemptHandle, NotStarted> {
        let profile = self.profile.as_ref().ok_or(NotStarted::NoProfile)?;
        let launch = self.prepare(profile)?;
        Ok(AttemptHandle::launch(&self.dir_watcher, &self.shim, self.dir.clone(), &launch)?)
    }

    /// Writes what the step receives, and says how to start it.
    fn prepare(&self, profile: &AgentProfile) -> io::Result<Launch> {
        self.dir.create()?;
        let report_path = text(&self.dir.report());
        // Whole at every run_at: an earlier shim may be starting the same attempt.
        let store = text(&self.mark.store);
        let told = Told::new(&self.expected, &self.attempt, &self.brief, &report_path, &store);
        supervisor::replace(&self.dir.prompt(), told.prompt.as_bytes())?;
        supervisor::replace(&self.dir.context(), told.context.as_bytes())?;
        std::fs::create_dir_all(&self.artifacts_dir)?;
        let assignment = self.assignment(report_path);
        let set: Vec<_> = profile.env.iter().chain(&self.options.env).cloned().collect();
        Ok(Launch {
            run: self.mark.run.clone(),
            attempt: self.attempt.clone(),
            store: self.mark.store.clone(),
            argv: profile.adapter.argv(&assignment),
            cwd: self.options.workdir.clone(),
            env: environment(&profile.pass, std::env::vars_os(), &set, &assignment),
            timeout: self.timeout(),
            silence: profile.silence,
            grace: profile.grace,
            descriptors: self.descriptors,
        })
    }

    fn assignment(&self, report: String) -> Assignment {
        let repo = &self.options.location.repo_dir;
        let dependency = |upstream: &Upstream| Dependency {
            step: upstream.step.clone(),
            artifacts: upstream.artifacts.iter().map(|artifact| format!("{repo}/{artifact}")).collect(),
        };
        Assignment {
            run: self.mark.run.clone(),
            attempt: self.attempt.clone(),
            agent: self.expected.agent.clone(),
            workflow: self.brief.workflow.clone(),
            model: self.brief.model.clone(),
            step_attempt: self.brief.counted_attempt,
            prompt: text(&self.dir.prompt()),
            report,
            repo: repo.clone(),
            artifacts_dir: self.artifacts_dir.clone(),
            manual_input: None,
            root: repo.clone(),
            store: text(&self.mark.store),
            dependencies: self.brief.upstream.iter().map(dependency).collect(),
            iteration: self.brief.iteration,
            state: self.brief.state.clone(),
            loop_back: self
                .brief
                .findings
                .iter()
                .map(|found| (found.from.clone(), found.report_path.clone()))
                .collect(),
        }
    }
}

/// Why an attempt was not even started. It costs an attempt, like a program that cannot be started.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    #[error("nobody plays it")]
    NoProfile,
    #[error("could not prepare the attempt")]
    Prepare(#[from] io::Error),
    #[error(transparent)]
    Attend(#[from] AttachError),
}

impl NotStarted {
    /// Whether the machine is short of something: no fault of the agent's, and no reason to cost it an attempt.
    fn is_shortage(&self) -> bool {
        match self {
            Self::NoProfile => false,
            Self::Prepare(error) | Self::Attend(AttachError::Watch { source: error, .. }) => {
                supervisor::is_shortage(error)
            }
            Self::Attend(AttachError::Spawn(error)) => error.is_shortage(),
            Self::Attend(_) => false,
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// How an attempt came to its end, as far as its process goes.
#[derive(Debug)]
pub(crate) enum Ended {
    Over(Over),
    /// It could not be prepared or no shim could be spawned, and the claim is void.
    NotStarted(String),
}

/// What an task tells the engine.
#[derive(Debug)]
pub(crate) enum AttemptEvent<S> {
    Ended {
        attempt: Attempt<S>,
        spec: Box<AttemptSpec>,
        ended: Ended,
    },
    /// It has handed in a part.
    Partial {
        attempt: Attempt<S>,
    },
    /// It has reported and does not exit.
    Lingers {
        attempt: AttemptId,
    },
    /// It is to be started, and nobody is there to play it.
    NoProfile {
        attempt: AttemptId,
        agent: String,
    },
    /// It can no longer be attached.
    WatchFailed {
        attempt: AttemptId,
        source: WatchFailed,
    },
}

/// Why an attempt can no longer be attached.
#[derive(Debug, thiserror::Error)]
pub enum WatchFailed {
    #[error("the machine is short of something")]
    Shortage(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("nobody plays it")]
    NoProfile,
    #[error("what is left of it could not be ended")]
    Sweep(#[source] io::Error),
    #[error(transparent)]
    Attend(#[from] AttachError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

/// The engine's line to an task.
#[derive(Debug)]
pub(crate) struct Orders(mpsc::UnboundedSender<Shutdown>);

impl Orders {
    pub(crate) fn end(&self, shutdown: Shutdown) {
        // An task that is gone has nothing left to end.
        let _ = self.0.send(shutdown);
    }
}

/// Attends an attempt in the background: starts it, or adopts it if it was started before.
pub(crate) fn attend<S: Clone + Send + Sync + 'static>(
    spec: AttemptSpec,
    attempt: Attempt<S>,
    news: mpsc::UnboundedSender<AttemptEvent<S>>,
) -> Orders {
    let (orders, ordered) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let id = spec.attempt.clone();
        // Counted from here, so later than by the shim: it is the shim's to keep.
        let overdue = spec.timeout().and_then(|timeout| Instant::now().checked_add(timeout));
        let mut task = AttemptTask { spec, ordered, patience: None, overdue };
        let remark = |remark| {
            // The engine has stopped listening: whatever it is lies on disk for the next one.
            let _ = news.send(match remark {
                Remark::Lingers => AttemptEvent::Lingers { attempt: id.clone() },
                Remark::Partial => AttemptEvent::Partial { attempt: attempt.clone() },
            });
        };
        let event = match task.see_to_the_end(remark).await {
            Ok(ended) => AttemptEvent::Ended { attempt, spec: Box::new(task.spec), ended },
            Err(WatchFailed::NoProfile) => {
                AttemptEvent::NoProfile { attempt: id.clone(), agent: task.spec.expected.agent }
            }
            Err(source) => AttemptEvent::WatchFailed { attempt: id.clone(), source },
        };
        // The engine has stopped listening: the fact lies on disk for the next one.
        let _ = news.send(event);
    });
    Orders(orders)
}

/// What is worth telling while an attempt goes on.
enum Remark {
    Lingers,
    Partial,
}

struct AttemptTask {
    spec: AttemptSpec,
    ordered: mpsc::UnboundedReceiver<Shutdown>,
    /// When an attempt that has reported is ended.
    patience: Option<Instant>,
    /// When its time is over: a shim that has not ended it by then may have been stopped.
    overdue: Option<Instant>,
}

impl AttemptTask {
    async fn see_to_the_end(&mut self, remark: impl Fn(Remark)) -> Result<Ended, WatchFailed> {
        let mut handle =
            AttemptHandle::adopt(&self.spec.dir_watcher, self.spec.dir.clone(), self.spec.mark.clone())?;
        let mut launched = false;
        loop {
            tokio::select! {
                biased;
                Some(shutdown) = self.ordered.recv() => {
                    handle.order_end(shutdown)?;
                }
                news = handle.next() => match news? {
                    News::Wrote => {
                        self.look_at_report();
                        if supervisor::partial::has_partial(&self.spec.dir) {
                            remark(Remark::Partial);
                        }
                    }
                    News::Over(Over::Unclaimed) if !launched => {
                        launched = true;
                        if self.was_at_work().await? {
                            return Ok(Ended::Over(Over::Vanished));
                        }
                        match self.spec.launch() {
                            Ok(started) => handle = started,
                            Err(NotStarted::NoProfile) => return Err(WatchFailed::NoProfile),
                            Err(error) if error.is_shortage() => return Err(WatchFailed::Shortage(error.into())),
                            Err(error) if self.is_void()? => return Ok(Ended::NotStarted(with_causes(&error))),
                            // An earlier shim was only slow: it is at work after all.
                            Err(_) => {}
                        }
                    }
                    News::Over(Over::Unclaimed) => {
                        if self.is_void()? {
                            return Ok(Ended::Over(Over::Unclaimed));
                        }
                    }
                    News::Over(over @ (Over::Exit(_) | Over::Vanished | Over::Voided)) => return Ok(Ended::Over(over)),
                },
                () = until(self.overdue) => {
                    self.overdue = None;
                    handle.rouse()?;
                }
                () = until(self.patience) => {
                    self.patience = None;
                    remark(Remark::Lingers);
                    handle.order_end(Shutdown::Once)?;
                }
            }
        }
    }

    /// Whether an attempt without a claim was at work all the same: its files can be removed under it. If so, nothing
    /// of it is left now.
    async fn was_at_work(&self) -> Result<bool, WatchFailed> {
        match self.spec.provenance {
            Provenance::New => Ok(false),
            Provenance::Found => {
                let (dir, mark) = (self.spec.dir.clone(), self.spec.mark.clone());
                let sweep = move || supervisor::sweep_unclaimed(&dir, &mark);
                let swept = tokio::task::spawn_blocking(sweep).await;
                let swept = swept.unwrap_or_else(|error| Err(io::Error::other(error)));
                Ok(swept.map_err(WatchFailed::Sweep)? > 0)
            }
        }
    }

    /// After a valid report the process has a grace.
    fn look_at_report(&mut self) {
        if let Collected::Valid(..) = collect(&self.spec.dir, &self.spec.expected) {
            self.patience.get_or_insert_with(|| Instant::now() + self.spec.lingering);
        }
    }

    /// Makes sure that no shim can begin the attempt any more, unless one has.
    fn is_void(&self) -> Result<bool, ClaimError> {
        match void(&self.spec.dir)? {
            Voided::Now | Voided::Already => Ok(true),
            Voided::ClaimedBy(_) => Ok(false),
        }
    }
}
