//! What an attempt needs: its directory, its prompt, its environment and its limits.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linux::DirWatcher;
use protocol::brief::{Brief, ENGINE, GivenAnswer, MemoryPolicy, TreeUse, Upstream};
use protocol::check::artifact_path_problem;
use protocol::report::{Report, ReportIdentity};
use protocol::{AttemptId, RunLocation, StepId, StepKind};
use supervisor::adapter::{
    Adapter, Assignment, Dependency, DependencyAnswer, EnvPolicy, RehearsalScript, ReportRule, environment,
};
use supervisor::checks::StopFlag;
use supervisor::copies::{self, CopyError};
use supervisor::git::{RunWorktrees, WorktreeError};
use supervisor::{AttemptDir, AttemptHandle, Launch, Mark, ShimProgram, SpawnError};

use super::memory;
use super::prompt::PromptFiles;
use crate::engine::{AgentProfile, Assigned, EngineConfig, GRACE, NoAdapter, RoleQuery};
use crate::error_chain::with_causes;
use crate::run::RunOptions;

/// The field of a report with the facts that git knows about the attempt's branch.
pub(super) const GIT_FIELD: &str = "git";

/// Everything that one attempt needs, before anything is written to disk.
#[derive(Debug)]
pub(crate) struct AttemptSpec {
    pub(crate) attempt: AttemptId,
    protocol: String,
    kind: StepKind,
    pub(crate) expected: ReportIdentity,
    pub(crate) brief: Brief,
    profile: Result<AgentProfile, NoAdapter>,
    pub(super) origin: AttemptOrigin,
    pub(crate) dir: AttemptDir,
    options: RunOptions,
    /// The worktrees of the run; the attempt works in one of them.
    run_worktrees: Option<RunWorktrees>,
    artifacts_dir: String,
    pub(super) mark: Mark,
    shim: ShimProgram,
    pub(super) dir_watcher: DirWatcher,
    /// The limit of open files that the agent gets.
    agent_open_files_limit: Option<u64>,
    /// How long the agent may keep running after its report.
    pub(super) linger_timeout: Duration,
}

/// Whether an earlier engine may have started the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOrigin {
    /// This engine has just decided to start it.
    New,
    /// An earlier engine may have started it.
    MaybeStarted,
}

impl AttemptSpec {
    pub(crate) fn new(
        engine_config: &EngineConfig,
        dir_watcher: &DirWatcher,
        options: RunOptions,
        protocol: &str,
        (attempt, kind): (AttemptId, StepKind),
        mut brief: Brief,
        origin: AttemptOrigin,
    ) -> Self {
        let run = options.location.run.clone();
        let (agent, model) = (brief.agent.as_str(), brief.model.as_deref());
        let role_of = RoleQuery { protocol, step: &attempt.step, agent, model };
        let profile = match kind {
            StepKind::Command => Ok(command_profile(&options, &attempt.step, &brief)),
            StepKind::Agent | StepKind::Person | StepKind::Effect => {
                engine_config.assign(&options, role_of).map(|Assigned { profile, model }| {
                    brief.model = model;
                    profile
                })
            }
        };
        let run_worktrees = options.run_worktrees();
        if run_worktrees.is_none() {
            // Without a worktree the attempt works on the user's own files, which must not be replaced by copies.
            brief.copies.clear();
        }
        Self {
            protocol: protocol.to_owned(),
            expected: ReportIdentity {
                run_id: run.clone(),
                step_id: attempt.step.clone(),
                agent: brief.agent.clone(),
            },
            dir: AttemptDir::new(&engine_config.attempts_dir(), &run, &attempt),
            mark: Mark { store: engine_config.local_dir.clone(), run, attempt: attempt.clone() },
            profile,
            agent_open_files_limit: engine_config.agent_open_files_limit,
            origin,
            run_worktrees,
            artifacts_dir: options.location.artifacts_dir(),
            options,
            shim: engine_config.shim.clone(),
            dir_watcher: dir_watcher.clone(),
            linger_timeout: engine_config.linger_timeout,
            attempt,
            kind,
            brief,
        }
    }

    /// Makes the report's artifact paths relative to the repository, as in the document. Fails if one is outside of
    /// it.
    pub(crate) fn relative_artifacts(&self, mut report: Report) -> Result<Report, String> {
        let roots = [self.work_tree(), self.options.location.repo_dir.clone()];
        for artifact in &mut report.artifacts {
            let inside = roots.iter().find_map(|root| artifact.strip_prefix(root)?.strip_prefix('/'));
            if let Some(inside) = inside {
                *artifact = inside.to_owned();
            }
            if let Some(problem) = artifact_path_problem(artifact) {
                return Err(format!(
                    "artifact `{artifact}` {problem}; name files of the repository, relative to its root"
                ));
            }
        }
        Ok(report)
    }

    /// Returns the top of the tree in which the agent works: the repository, or a worktree.
    fn work_tree(&self) -> String {
        match &self.run_worktrees {
            Some(run_worktrees) => text(&run_worktrees.path(self.brief.worktree.as_ref())),
            None => self.options.location.repo_dir.clone(),
        }
    }

    /// Returns the directory in which the agent is started.
    fn cwd(&self) -> PathBuf {
        match self.options.workdir.strip_prefix(&self.options.location.repo_dir) {
            Ok(inside) => Path::new(&self.work_tree()).join(inside),
            Err(_) => self.options.workdir.clone(),
        }
    }

    pub(super) fn has_worktrees(&self) -> bool {
        self.run_worktrees.is_some()
    }

    /// Makes the worktree of the attempt, and returns the variables that git needs there. May block; `stop` ends the setup
    /// command.
    pub(super) fn prepare_tree(&self, stop: StopFlag) -> Result<Vec<(String, String)>, WorktreeError> {
        let Some(run_worktrees) =
            self.run_worktrees.clone().map(|run_worktrees| run_worktrees.stopped_by(stop))
        else {
            return Ok(Vec::new());
        };
        run_worktrees.prepare(self.brief.worktree.as_ref())?;
        let worktree = self.brief.worktree.as_ref();
        match self.brief.tree_use {
            // What the attempt changes is removed when it ends.
            TreeUse::Reads => run_worktrees.snapshot_work(worktree)?,
            // Earlier attempts that only read may have left something.
            TreeUse::Changes => drop(run_worktrees.discard_read_only_changes(worktree)?),
        }
        if let Some(reset) = &self.brief.reset {
            run_worktrees.reset_to_tree(reset)?;
        }
        run_worktrees.identity()
    }

    /// Records the changes of the private copies and removes the copies from the worktree. Then commits what else the
    /// agent has left there, or discards it if the step only reads; a command step commits nothing. Returns a note for
    /// the user, if one is needed. May block.
    pub(super) fn commit_tree(&self) -> Result<Option<String>, NotCommitted> {
        let Some(run_worktrees) = &self.run_worktrees else { return Ok(None) };
        let worktree = self.brief.worktree.as_ref();
        copies::collect(&self.dir, &run_worktrees.path(worktree))?;
        run_worktrees.discard_copies(worktree, &self.attempt)?;
        if self.kind == StepKind::Command {
            return Ok(None);
        }
        // If the engine does not commit in this run, the next attempt that changes the worktree discards.
        if self.brief.tree_use == TreeUse::Reads && run_worktrees.makes_commits() {
            return Ok(run_worktrees.discard_read_only_changes(worktree)?);
        }
        Ok(run_worktrees.commit(worktree, &self.attempt)?)
    }

    /// Removes the private copies from the worktree of an attempt that was not started. May block.
    pub(super) fn discard_copies(&self) -> Result<(), WorktreeError> {
        let Some(run_worktrees) = &self.run_worktrees else { return Ok(()) };
        run_worktrees.discard_copies(self.brief.worktree.as_ref(), &self.attempt)
    }

    /// Adds the memory updates of a report to the attempt's worktree, or to the repository if there is none, and commits them.
    /// Returns a sentence for each that was not added or not committed.
    pub(super) fn apply_memory_updates(&self, report: &Report) -> Vec<String> {
        let mut notes = memory::apply(self.brief.memory_policy, Path::new(&self.work_tree()), report);
        if self.brief.memory_policy == MemoryPolicy::Applied
            && !report.memory_updates.is_empty()
            && let Some(run_worktrees) = &self.run_worktrees
            && let Err(error) = run_worktrees.commit(self.brief.worktree.as_ref(), &self.attempt)
        {
            notes.push(format!("the memory updates are not committed: {}", with_causes(&error)));
        }
        notes
    }

    /// Adds what git knows to the report of the attempt. If the protocol named the attempt's branch, these are the changes on it;
    /// otherwise, if the brief asks for them, the branches that exist. Replaces what the agent wrote into that field.
    pub(super) fn add_git_field(&self, report: &mut Report) {
        let Some(run_worktrees) = &self.run_worktrees else { return };
        let named = self.brief.worktree.as_ref().filter(|worktree| worktree.branch.is_some());
        let facts = match (named, self.brief.list_branches_below) {
            (Some(worktree), _) => run_worktrees.worktree_changes(worktree).map(|changes| changes.to_json()),
            (None, Some(name)) => {
                run_worktrees.branches_below(name).map(|branches| serde_json::json!({ "branches": branches }))
            }
            (None, None) => return,
        };
        report.extra_fields.shift_remove(GIT_FIELD);
        match facts {
            Ok(facts) => {
                report.extra_fields.insert(GIT_FIELD.to_owned(), facts);
            }
            Err(error) => tracing::warn!(%error, "cannot read what git knows about the attempt"),
        }
    }

    /// Returns how long the agent may run.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.brief.timeout.or(self.profile.as_ref().ok().and_then(|profile| profile.timeout))
    }

    /// Returns what counts as the attempt's report.
    pub(crate) fn report_rule(&self) -> ReportRule {
        self.profile.as_ref().map_or(ReportRule::Required, |profile| profile.report)
    }

    /// Prepares the attempt and starts it.
    pub(super) fn start(
        &self,
        handle: &mut AttemptHandle,
        git_variables: Vec<(String, String)>,
    ) -> Result<(), NotStarted> {
        let profile = self.profile.as_ref().map_err(|missing| NotStarted::NoAdapter(missing.clone()))?;
        self.dir.create()?;
        if let Some(run_worktrees) = &self.run_worktrees {
            let (worktree, copies) = (self.brief.worktree.as_ref(), &self.brief.copies);
            let paths: Vec<_> = copies.iter().map(|copy| copy.path.as_str()).collect();
            run_worktrees.record_copies(worktree, &self.attempt, &paths)?;
            copies::write(&self.dir, &run_worktrees.path(worktree), copies)?;
        }
        let launch = self.prepare(profile, git_variables)?;
        Ok(handle.start(&self.shim, &launch)?)
    }

    /// Writes the attempt's input files and returns how to launch it.
    fn prepare(&self, profile: &AgentProfile, mut variables: Vec<(String, String)>) -> io::Result<Launch> {
        let report_path = text(&self.dir.report());
        let store = text(&self.mark.store);
        let files = PromptFiles::new(
            &self.protocol,
            &self.expected,
            &self.attempt,
            &self.brief,
            &report_path,
            &store,
        );
        // Replaced atomically, because an earlier shim may be starting the same attempt.
        supervisor::replace_file(&self.dir.prompt(), files.prompt.as_bytes())?;
        supervisor::replace_file(&self.dir.context(), files.context.as_bytes())?;
        if self.kind == StepKind::Command {
            supervisor::checks::write_specs(&self.dir.checks(), &self.brief.checks)?;
        }
        for answer in &self.brief.answers {
            let text = serde_json::to_string_pretty(answer).expect("BUG: an answer is plain data");
            supervisor::replace_file(&self.dir.manual_result(&answer.step), text.as_bytes())?;
        }
        std::fs::create_dir_all(&self.artifacts_dir)?;
        if let Err(error) = self.link_logs() {
            // The output is in the attempt's directory all the same.
            tracing::warn!(attempt = %self.attempt, %error, "the output is not shown in the run's directory");
        }
        let assignment = self.assignment(report_path);
        variables.extend(profile.env.iter().chain(&self.options.env).chain(&self.brief.variables).cloned());
        Ok(Launch {
            run: self.mark.run.clone(),
            attempt: self.attempt.clone(),
            store: self.mark.store.clone(),
            argv: profile.adapter.argv(&assignment),
            cwd: self.cwd(),
            env: environment(&profile.env_policy, std::env::vars_os(), &variables, &assignment),
            timeout: self.timeout(),
            silence: profile.silence,
            grace: profile.grace,
            agent_open_files_limit: self.agent_open_files_limit,
        })
    }

    /// Links the attempt's output from the run's directory. An attempt that does not count has the same number as the next one,
    /// whose links replace its own.
    fn link_logs(&self) -> io::Result<()> {
        let directory = self.options.location.logs_dir();
        std::fs::create_dir_all(&directory)?;
        let (run, step, attempt) = (&self.mark.run, &self.attempt.step, self.brief.counted_attempt);
        let name = format!("{run}__{step}__attempt{attempt}");
        let link = |kind: &str, log: &Path| {
            supervisor::replace_link(&Path::new(&directory).join(format!("{name}{kind}.log")), log)
        };
        link("", &self.dir.stdout())?;
        link(".stderr", &self.dir.stderr())
    }

    fn dependency_answer(&self, answer: &GivenAnswer) -> DependencyAnswer {
        DependencyAnswer {
            step: answer.step.clone(),
            approved: answer.approved,
            text: answer.text.clone(),
            path: text(&self.dir.manual_result(&answer.step)),
        }
    }

    fn assignment(&self, report_path: String) -> Assignment {
        let repo = &self.options.location.repo_dir;
        let tree = self.work_tree();
        // The run's directory is in the repository even if the attempt works in a worktree.
        let absolute = |artifact: &String| match format!("/{artifact}").starts_with(RunLocation::RUNS_DIR) {
            true => format!("{repo}/{artifact}"),
            false => format!("{tree}/{artifact}"),
        };
        let dependency = |upstream: &Upstream| Dependency {
            step: upstream.step.clone(),
            artifacts: upstream.artifacts.iter().map(absolute).collect(),
        };
        Assignment {
            run: self.mark.run.clone(),
            attempt: self.attempt.clone(),
            agent: self.expected.agent.clone(),
            workflow: self.brief.workflow.clone(),
            model: self.brief.model.clone(),
            counted_attempt: self.brief.counted_attempt,
            prompt_path: text(&self.dir.prompt()),
            report_path,
            checks_path: text(&self.dir.checks()),
            repo: tree.clone(),
            artifacts_dir: self.artifacts_dir.clone(),
            answers: self.brief.answers.iter().map(|answer| self.dependency_answer(answer)).collect(),
            store: text(&self.mark.store),
            dependencies: self.brief.upstream.iter().map(dependency).collect(),
            iteration: self.brief.iteration,
            state: self.brief.state.clone(),
            form: self.brief.form.clone(),
            loop_back: self
                .brief
                .findings
                .iter()
                .map(|found| (found.from.clone(), found.report_path.clone()))
                .collect(),
        }
    }
}

/// Returns how the attempts of a command step are started, which runs checks and needs no configured agent. In a rehearsal the
/// scripted agent reports that all checks have passed, unless its script says otherwise.
fn command_profile(options: &RunOptions, step: &StepId, brief: &Brief) -> AgentProfile {
    let rehearsed = options.profile.as_ref().and_then(|profile| match &profile.adapter {
        // These are the checks of a step that has an agent, too. Its script says what the agent does, so that all checks pass.
        Adapter::Rehearsal(_) if brief.agent == ENGINE => {
            Some((profile, RehearsalScript::default().with_checks(step, &brief.checks)))
        }
        Adapter::Rehearsal(rehearsal) => Some((profile, rehearsal.with_checks(step, &brief.checks))),
        Adapter::Wrapper(_) | Adapter::Command(_) | Adapter::Checks => None,
    });
    match rehearsed {
        Some((profile, rehearsal)) => {
            AgentProfile { adapter: Adapter::Rehearsal(rehearsal), ..profile.clone() }
        }
        None => AgentProfile {
            adapter: Adapter::Checks,
            report: ReportRule::Required,
            // As in the user's terminal: the commands are configured by the user.
            env_policy: EnvPolicy::InheritAll,
            env: Vec::new(),
            timeout: None,
            silence: None,
            grace: GRACE,
        },
    }
}

/// Why an attempt was not started. It counts as a failed attempt, like a program that cannot be executed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStarted {
    #[error("no command is configured for its agent")]
    NoAdapter(NoAdapter),
    #[error("cannot prepare its worktree")]
    Tree(#[from] WorktreeError),
    #[error(transparent)]
    Copies(#[from] CopyError),
    #[error("cannot prepare the attempt")]
    Prepare(#[from] io::Error),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl NotStarted {
    /// Returns whether the machine lacks memory, processes or files. That is not the agent's fault and costs no
    /// attempt.
    pub(super) fn is_resource_shortage(&self) -> bool {
        match self {
            Self::NoAdapter(_) | Self::Tree(_) => false,
            Self::Copies(error) => supervisor::is_resource_shortage(&error.source),
            Self::Prepare(error) => supervisor::is_resource_shortage(error),
            Self::Spawn(error) => error.is_resource_shortage(),
        }
    }
}

/// Why what an attempt left in its worktree is not committed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotCommitted {
    #[error(transparent)]
    Copies(#[from] CopyError),
    #[error(transparent)]
    Tree(#[from] WorktreeError),
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
