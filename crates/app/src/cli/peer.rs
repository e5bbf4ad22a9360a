//! `callboard peer INSTRUCTION`, `callboard peer --continue`.

mod continuing;

use std::num::NonZeroU32;
use std::time::Duration;

use protocol::peer::{CycleId, Instruction, Peer, Phase, SpecName};
use protocol::steps::load::parse_duration;
use runner::{AgentProfile, EngineConfig, EngineRequest, Overrides};
use serde_json::json;
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::cycles::{self, Draft};
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, Show};
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, styled};
use crate::rehearsal::{RehearseFlag, Roles};
use crate::workspace::definition;
use crate::workspace::{self, Place, Workspace};

/// Run a peer cycle: plan, execute, express, review, each by an agent of its own
///
/// A cycle has one document that all four build on; `callboard state get` shows it. It is about a spec, or about the
/// repository as a whole. The review closes it, whatever it says: improvement is a new cycle.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "callboard peer [OPTIONS] INSTRUCTION [REQUIREMENTS]...
       callboard peer [OPTIONS] --continue",
    after_help = "Instructions:
  create-spec      a new spec; without --spec it is named after REQUIREMENTS
  execute-tasks    the tasks of a spec; without --spec of the newest in .agent-os/specs/
  refine-spec      a spec, with what its last review recommends; needs --spec
  analyze-product  the repository, or with --spec a spec
  plan-product     the repository
  git-commit       the repository

Examples:
  callboard peer create-spec --spec password-reset 'users can reset a forgotten password by mail'
  callboard peer execute-tasks --wrapper ./agent.sh
  callboard peer create-spec - < requirements.md
  callboard peer create-spec 'dark mode' --rehearse   # the built-in scripted agent plays, no token is spent
  callboard peer --continue                           # the last cycle that was not completed"
)]
pub(super) struct Arguments {
    /// What the cycle is to do
    #[arg(required_unless_present_any = ["named", "continues"], conflicts_with = "continues")]
    instruction: Option<String>,

    /// What you want, in your own words; `-` reads it from standard input
    requirements: Vec<String>,

    /// The instruction, as a flag
    #[arg(long = "instruction", value_name = "INSTRUCTION", id = "named", conflicts_with = "continues")]
    named: Option<String>,

    /// Go on with the last cycle that was not completed: of the spec, or of all
    #[arg(
        long = "continue",
        id = "continues",
        long_help = "Go on with the last cycle that was not completed: with --spec the highest number of that spec, with \
                     --global of those about the repository, else the one that was begun last. Completed phases \
                     never run again. A cycle that has failed stays failed: the next one goes on with it and takes \
                     over what was completed there. Its instruction, requirements and profiles hold unless profiles \
                     are given again"
    )]
    continues: bool,

    /// The spec that the cycle is about
    #[arg(long, value_name = "NAME")]
    spec: Option<String>,

    /// With --continue: the last cycle that is about the repository as a whole
    #[arg(long, requires = "continues", conflicts_with = "spec")]
    global: bool,

    /// Tries in all of each phase [default: 2]
    #[arg(long, value_name = "N")]
    max_attempts: Option<NonZeroU32>,

    /// How long an attempt of a phase may take, such as 10m [default: as its profile says]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    show: Show,

    /// Start in the background and return at once
    #[arg(long)]
    detach: bool,

    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    profiles: AgentFlags,

    #[command(flatten)]
    rehearse: RehearseFlag,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags = Flags { jobs: arguments.show.jobs, max_attempts: arguments.max_attempts, store: None };
    let workspace = Workspace::find(&arguments.place, flags)?;
    if arguments.continues {
        block_on(continuing::go_on(&workspace, arguments))
    } else {
        block_on(begin(&workspace, arguments))
    }
}

/// Opens a new cycle and plays it.
async fn begin(workspace: &Workspace, arguments: Arguments) -> Result<Exit, Failure> {
    let (instruction, requirements) = arguments.asked()?;
    let spec = arguments.spec_name(workspace)?;
    let scope = cycles::scope(&workspace.repo, instruction, spec, &requirements)?;
    let engine_config = engine::engine_config(workspace, Overrides::default())?;
    let mut draft = Draft {
        scope,
        instruction: instruction.to_string(),
        instruction_args: arguments.typed(),
        user_requirements: requirements,
        continues: None,
        advice: None,
        max_attempts: workspace.config.max_attempts.value,
        timeout: arguments.timeout,
        repo_dir: workspace.repo_dir()?,
        workdir: arguments.profiles.workdir(&workspace.repo)?,
        profile: arguments.profile()?,
        env: arguments.profiles.env.clone(),
    };
    has_profile(&engine_config, &draft)?;
    workspace.traces().iter().for_each(output::note);
    let store = workspace.store().await?;
    if instruction == Instruction::RefineSpec {
        draft.advice = cycles::advice(&store, &draft.scope).await?;
    }
    definition::exclude_views(&workspace.repo)?;
    let cycle = cycles::open(&store, &workspace.clock, workspace::person(), &draft).await?;
    arguments.drive(workspace, &store, engine_config, &cycle, &draft).await
}

/// Whoever will be asked must have a profile before anything is written.
fn has_profile(engine_config: &EngineConfig, draft: &Draft) -> Result<(), Failure> {
    let taken_over = draft.continues.as_ref().map_or(0, |continued| continued.outputs.len());
    let asked = Phase::ALL.into_iter().skip(taken_over);
    let mut alone =
        asked.filter(|phase| draft.profile.is_none() && !engine_config.by_agent.contains_key(phase.agent()));
    match alone.next() {
        None => Ok(()),
        Some(phase) => Err(engine::no_profile(phase.agent(), phase.as_str())
            .hint("or let the built-in scripted agent play, without an agent: `--rehearse`")),
    }
}

impl Arguments {
    /// The instruction, and what the user wants.
    fn asked(&self) -> Result<(Instruction, String), Failure> {
        let (word, first) = match (&self.named, &self.instruction) {
            (Some(word), first) => (word, first.as_ref()),
            (None, Some(word)) => (word, None),
            (None, None) => unreachable!("BUG: clap requires one of the two"),
        };
        let instruction = cycles::instruction(word)?;
        let words: Vec<_> = first.into_iter().chain(&self.requirements).map(String::as_str).collect();
        let requirements = match words.as_slice() {
            ["-"] => std::io::read_to_string(std::io::stdin()).map_err(|error| {
                Failure::usage("cannot read the requirements from standard input").because(Some(&error))
            })?,
            words => words.join(" "),
        };
        Ok((instruction, requirements))
    }

    fn spec_name(&self, workspace: &Workspace) -> Result<Option<SpecName>, Failure> {
        self.spec.as_deref().map(|typed| cycles::spec_name(&workspace.repo, typed)).transpose()
    }

    /// What chose the cycle, as it was typed.
    fn typed(&self) -> String {
        let continues = self.continues.then(|| "--continue".to_owned());
        let spec = self.spec.as_ref().map(|spec| format!("--spec={spec}"));
        continues.into_iter().chain(spec).collect::<Vec<_>>().join(" ")
    }

    /// Who plays, if the command line says it.
    fn profile(&self) -> Result<Option<AgentProfile>, Failure> {
        match self.rehearse.profile(&Roles::of_peer())? {
            Some(profile) => Ok(Some(profile)),
            None => self.profiles.profile(),
        }
    }

    async fn drive(
        &self,
        workspace: &Workspace,
        store: &AnyStore,
        engine_config: EngineConfig,
        cycle: &CycleId,
        draft: &Draft,
    ) -> Result<Exit, Failure> {
        let continues = draft.continues.as_ref().map(|continued| &continued.cycle);
        self.announce("opened", cycle, &draft.instruction, continues);
        let run = cycles::run_of(cycle);
        if self.detach {
            return engine::detach(workspace, store, &run, &self.show, Vec::new()).await;
        }
        engine::drive::<Peer>(
            workspace,
            store,
            engine_config,
            &run,
            EngineRequest::to_resume(None),
            &self.show,
        )
        .await
    }

    /// The first line: which cycle this is, and which run.
    fn announce(&self, is: &str, cycle: &CycleId, instruction: &str, continues: Option<&CycleId>) {
        let run = cycles::run_of(cycle);
        if self.show.json {
            output::json(&json!({
                "event": "cycle", "run": run, "is": is, "cycle_id": cycle, "instruction": instruction,
                "continues": continues,
            }));
            return;
        }
        let continues = continues.map(|from| format!(", continues {}", output::harmless(&from.to_string())));
        let continues = continues.unwrap_or_default();
        output::talk(format_args!(
            "cycle {} is run {run}: {instruction}{continues}",
            styled(BOLD, output::harmless(&cycle.to_string()))
        ));
    }
}
