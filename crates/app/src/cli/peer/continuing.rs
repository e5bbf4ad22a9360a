//! `callboard peer --continue`.

use std::path::Path;

use protocol::peer::{Continued, Definition, Peer, Scope};
use protocol::run::{Request, RunStatus};
use protocol::{RunId, protocol_kind};
use runner::Overrides;
use store::AnyStore;

use super::{Arguments, require_profiles};
use crate::cli::resume;
use crate::control;
use crate::control::ControlRequest;
use crate::engine;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::peer_cycles::{self, Draft, IncompletePeerCycle};
use crate::workspace::{self, Workspace};
use crate::workspace::{definition, prompts};

/// Continues the last incomplete cycle: resumes it, or opens a new cycle after it if it has failed.
pub(super) async fn run(workspace: &Workspace, arguments: Arguments) -> Result<Exit, Failure> {
    let scope = match arguments.spec_name(workspace)? {
        Some(spec) => Some(Scope::Spec(spec)),
        None => arguments.global.then_some(Scope::Global),
    };
    let Some(store) = workspace.existing_store().await? else {
        return Err(workspace.with_lost_store_hints(nothing_incomplete(scope.as_ref())));
    };
    loop {
        let found = peer_cycles::newest_incomplete(&store, scope.as_ref()).await?;
        let found = found.ok_or_else(|| nothing_incomplete(scope.as_ref()))?;
        arguments.check_rehearsal(&found)?;
        let Some(continued) = found.failed.clone() else {
            return arguments.resume(workspace, &store, &found).await;
        };
        control::refuse_inside_attempt("continue a cycle")?;
        if found.is_ending {
            finish_stopping(workspace, &store, &found.run).await?;
            continue;
        }
        let number = found.next;
        let draft = arguments.next_draft(workspace, found, continued)?;
        let engine_config = engine::engine_config(workspace, Overrides::default())?;
        require_profiles(&engine_config, &draft)?;
        definition::exclude_views(&workspace.repo, protocol_kind::<Peer>().info())?;
        // `None` if another client has taken the number: then the search starts again.
        let opened = peer_cycles::open_with_number(
            &store,
            &workspace.clock,
            workspace::person_author(),
            &draft,
            number,
        )
        .await?;
        if let Some(cycle) = opened {
            return arguments.drive(workspace, &store, engine_config, &cycle, &draft).await;
        }
    }
}

/// Waits until a cycle that is being stopped has ended, so that none of its agents runs when the next cycle starts.
async fn finish_stopping(workspace: &Workspace, store: &AnyStore, run: &RunId) -> Result<(), Failure> {
    let control = ControlRequest { action: "stop".to_owned(), request: Request::Stop, reason: None };
    let Err(failure) = control.submit_and_wait(workspace, store, run).await else { return Ok(()) };
    // The request fails if the cycle has ended meanwhile.
    match workspace.load(store, run).await?.state.run.status {
        RunStatus::Finished(_) => Ok(()),
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopping(_)
        | RunStatus::Stopped(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_) => Err(failure),
    }
}

fn nothing_incomplete(scope: Option<&Scope>) -> Failure {
    let of = scope.map(|scope| format!(" of `{scope}`")).unwrap_or_default();
    Failure::usage(format_args!("there is no incomplete cycle{of} to continue"))
        .hint("run `callboard peer INSTRUCTION` to start one; `callboard peer --help` lists the instructions")
}

impl Arguments {
    /// Fails if a rehearsal would be continued with real agents, because they would build on invented results, or a real cycle as
    /// a rehearsal.
    fn check_rehearsal(&self, found: &IncompletePeerCycle) -> Result<(), Failure> {
        let refused =
            |what: &str| Failure::new(Exit::Refused, format_args!("cycle `{}` {what}", found.cycle));
        let rehearsed = found.options.is_rehearsal();
        let flags = &self.profiles;
        let real = flags.wrapper.is_some() || flags.command_template.is_some() || !flags.role.is_empty();
        if rehearsed && real {
            return Err(refused("is a rehearsal and cannot be continued with real agents").hint(
                format_args!("run `callboard peer {}` to start a new cycle", found.definition.instruction),
            ));
        }
        if !rehearsed && self.rehearse.is_given() {
            return Err(
                refused("is not a rehearsal and cannot be continued as one").hint("leave out `--rehearse`")
            );
        }
        if found.failed.is_none() && self.rehearse.script().is_some() {
            return Err(refused("keeps its rehearsal script").hint("use `--rehearse` without a script"));
        }
        Ok(())
    }

    /// The draft of the cycle after a failed one. Settings of the failed one are used unless a flag replaces them.
    fn next_draft(
        &self,
        workspace: &Workspace,
        found: IncompletePeerCycle,
        continued: Continued,
    ) -> Result<Draft, Failure> {
        let IncompletePeerCycle { cycle, definition, options, .. } = found;
        let mut env = options.env;
        env.extend(self.profiles.env.iter().cloned());
        let mut roles = options.roles;
        for (name, role) in self.profiles.roles() {
            roles.entry(name).or_default().override_with(&role);
        }
        Ok(Draft {
            scope: cycle.scope,
            instruction: definition.instruction,
            instruction_args: self.scope_flags(),
            user_requirements: definition.user_requirements,
            continues: Some(continued),
            earlier_review: definition.earlier_review,
            max_attempts: self.max_attempts.unwrap_or(definition.max_attempts),
            timeout: self.timeout.or(definition.timeout),
            repo_dir: workspace.repo_dir()?,
            workdir: match &self.profiles.workdir {
                // A directory that a flag has set is kept. The default is this repository, which may be another work tree than that
                // of the failed cycle.
                None if options.workdir != Path::new(&options.location.repo_dir) => options.workdir,
                Some(_) | None => self.profiles.workdir(&workspace.repo)?,
            },
            profile: self.profile()?.or(options.profile),
            env,
            roles,
            prompts: prompts::read(&workspace.repo, protocol_kind::<Peer>().info())?,
        })
    }

    async fn resume(
        self,
        workspace: &Workspace,
        store: &AnyStore,
        found: &IncompletePeerCycle,
    ) -> Result<Exit, Failure> {
        let Definition { instruction, continues, .. } = &found.definition;
        let engine_config = engine::engine_config(workspace, self.profiles.overrides()?)?;
        self.announce("resumed", &found.cycle, instruction, continues.as_ref().map(|from| &from.cycle));
        for (given, flag) in
            [(self.max_attempts.is_some(), "--max-attempts"), (self.timeout.is_some(), "--timeout")]
        {
            if given {
                output::note(format_args!("`{flag}` has no effect: the resumed cycle keeps its own limit"));
            }
        }
        let arguments = resume::Arguments::with_flags(self.engine, self.detach, self.location, self.profiles);
        resume::resume(workspace, store, &found.run, engine_config, arguments).await
    }
}
