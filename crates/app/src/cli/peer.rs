//! `callboard peer INSTRUCTION`, `callboard peer --continue`.

mod continuing;

use std::num::NonZeroU32;
use std::time::Duration;

use protocol::peer::{Instruction, Peer, PeerCycleId, Phase, SpecName};
use protocol::steps::load::parse_duration;
use protocol::{Protocol as _, protocol_kind};
use runner::{AgentProfile, EngineConfig, EngineRequest, Overrides};
use serde_json::json;
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, EngineArgs};
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, styled};
use crate::peer_cycles::{self, Draft};
use crate::rehearsal::{RehearseFlag, ScriptSteps};
use crate::workspace::{self, LocationArgs, Workspace};
use crate::workspace::{definition, prompts};

/// Run a peer cycle: plan, execute, express and review, each by its own agent
///
/// The four phases share one document, which `callboard state get` prints. A cycle is about a spec or about the whole
/// repository. It ends with the review; to improve on an unsuccessful review, start a new cycle.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "callboard peer [OPTIONS] INSTRUCTION [REQUIREMENTS]...
       callboard peer [OPTIONS] --continue",
    after_help = "Instructions:
  create-spec      write a new spec; without --spec, it is named after REQUIREMENTS
  execute-tasks    do the tasks of a spec; without --spec, the newest in .agent-os/specs/
  refine-spec      improve a spec by the advice of its last review; needs --spec
  analyze-product  analyze the repository, or with --spec a spec
  plan-product     plan the product of the repository
  git-commit       commit the changes in the repository

Examples:
  callboard peer create-spec --spec password-reset 'users can reset a forgotten password by mail'
  callboard peer execute-tasks --wrapper ./agent.sh
  callboard peer create-spec - < requirements.md
  callboard peer create-spec 'dark mode' --rehearse   # with the built-in scripted agent
  callboard peer --continue                           # the last incomplete cycle"
)]
pub(super) struct Arguments {
    /// What the cycle does
    #[arg(required_unless_present_any = ["named", "continues"], conflicts_with = "continues")]
    instruction: Option<String>,

    /// The requirements, in your own words; `-` reads them from standard input
    requirements: Vec<String>,

    /// The instruction, as a flag
    #[arg(long = "instruction", value_name = "INSTRUCTION", id = "named", conflicts_with = "continues")]
    named: Option<String>,

    /// Continue the last incomplete cycle; with --spec, of that spec
    #[arg(
        long = "continue",
        id = "continues",
        long_help = "Continue the last incomplete cycle: with --spec the newest of that spec, with --global the newest \
                     about the repository, else the newest of all. Completed phases do not run again. A failed \
                     cycle stays failed: a new cycle takes over its completed phases. The instruction, the \
                     requirements and the agents are those of the incomplete cycle; flags replace the agents"
    )]
    continues: bool,

    /// The spec of the cycle
    #[arg(long, value_name = "NAME")]
    spec: Option<String>,

    /// With --continue: the last cycle about the whole repository
    #[arg(long, requires = "continues", conflicts_with = "spec")]
    global: bool,

    /// The number of attempts of each phase [default: 2]
    #[arg(long, value_name = "N")]
    max_attempts: Option<NonZeroU32>,

    /// The time limit of an attempt, such as 10m [default: set by the agent's profile]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    engine: EngineArgs,

    /// Start in the background and return at once
    #[arg(long)]
    detach: bool,

    #[command(flatten)]
    location: LocationArgs,

    #[command(flatten)]
    profiles: AgentFlags,

    #[command(flatten)]
    rehearse: RehearseFlag,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags = Flags { jobs: arguments.engine.jobs, max_attempts: arguments.max_attempts, store: None };
    let workspace = Workspace::find(&arguments.location, flags)?;
    if arguments.continues {
        block_on(continuing::run(&workspace, arguments))
    } else {
        block_on(start(&workspace, arguments))
    }
}

/// Opens a new cycle and drives it.
async fn start(workspace: &Workspace, arguments: Arguments) -> Result<Exit, Failure> {
    let (instruction, requirements) = arguments.instruction_and_requirements()?;
    let spec = arguments.spec_name(workspace)?;
    let scope = peer_cycles::scope(&workspace.repo, instruction, spec, &requirements)?;
    let engine_config = engine::engine_config(workspace, Overrides::default())?;
    let mut draft = Draft {
        scope,
        instruction: instruction.to_string(),
        instruction_args: arguments.scope_flags(),
        user_requirements: requirements,
        continues: None,
        earlier_review: None,
        max_attempts: workspace.config.max_attempts.value,
        timeout: arguments.timeout,
        repo_dir: workspace.repo_dir()?,
        workdir: arguments.profiles.workdir(&workspace.repo)?,
        profile: arguments.profile()?,
        env: arguments.profiles.env.clone(),
        roles: arguments.profiles.roles(),
        prompts: prompts::read(&workspace.repo, protocol_kind::<Peer>().info())?,
    };
    require_profiles(&engine_config, &draft)?;
    workspace.lost_store_hints().iter().for_each(output::note);
    let store = workspace.store().await?;
    if instruction == Instruction::RefineSpec {
        draft.earlier_review = peer_cycles::earlier_review(&store, &draft.scope).await?;
    }
    definition::exclude_views(&workspace.repo, protocol_kind::<Peer>().info())?;
    let cycle = peer_cycles::open(&store, &workspace.clock, workspace::person_author(), &draft).await?;
    arguments.drive(workspace, &store, engine_config, &cycle, &draft).await
}

/// Fails if a phase that has to run has no agent profile. Checked before anything is written.
fn require_profiles(engine_config: &EngineConfig, draft: &Draft) -> Result<(), Failure> {
    let phases = Phase::ALL.map(|phase| (Peer::step_id(&phase), phase.agent()));
    let steps = || phases.iter().map(|(step, agent)| (step, *agent));
    engine::require_known_roles(&draft.roles, steps())?;
    let taken_over = draft.continues.as_ref().map_or(0, |continued| continued.outputs.len());
    // The number of the cycle does not matter here.
    let options = draft.options(&draft.scope.clone().cycle(1));
    engine::require_profiles(engine_config, &options, Peer::NAME, steps().skip(taken_over))
        .map_err(|failure| failure.hint("or use `--rehearse` to run with the built-in scripted agent"))
}

impl Arguments {
    fn instruction_and_requirements(&self) -> Result<(Instruction, String), Failure> {
        let (word, first) = match (&self.named, &self.instruction) {
            (Some(word), first) => (word, first.as_ref()),
            (None, Some(word)) => (word, None),
            (None, None) => unreachable!("BUG: clap requires one of the two"),
        };
        let instruction = peer_cycles::instruction(word)?;
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
        self.spec.as_deref().map(|typed| peer_cycles::spec_name(&workspace.repo, typed)).transpose()
    }

    /// The flags that chose the cycle, for the document.
    fn scope_flags(&self) -> String {
        let continues = self.continues.then(|| "--continue".to_owned());
        let global = self.global.then(|| "--global".to_owned());
        let spec = self.spec.as_ref().map(|spec| format!("--spec={spec}"));
        continues.into_iter().chain(global).chain(spec).collect::<Vec<_>>().join(" ")
    }

    /// The agent profile, if the command line names one.
    fn profile(&self) -> Result<Option<AgentProfile>, Failure> {
        match self.rehearse.profile(&ScriptSteps::of_peer())? {
            Some(profile) => Ok(Some(profile)),
            None => self.profiles.profile(),
        }
    }

    async fn drive(
        &self,
        workspace: &Workspace,
        store: &AnyStore,
        engine_config: EngineConfig,
        cycle: &PeerCycleId,
        draft: &Draft,
    ) -> Result<Exit, Failure> {
        let continues = draft.continues.as_ref().map(|continued| &continued.cycle);
        self.announce("opened", cycle, &draft.instruction, continues);
        let run = peer_cycles::run_of(cycle);
        if self.detach {
            return engine::detach(workspace, store, &run, &self.engine, Vec::new()).await;
        }
        let request = EngineRequest::to_resume(None);
        engine::drive(workspace, store, engine_config, &run, request, &self.engine).await
    }

    /// Prints the first line: the cycle and its run. `action` is `opened` or `resumed`.
    fn announce(
        &self,
        action: &str,
        cycle: &PeerCycleId,
        instruction: &str,
        continues: Option<&PeerCycleId>,
    ) {
        let run = peer_cycles::run_of(cycle);
        if self.engine.json {
            output::json(&json!({
                "event": "cycle", "run": run, "is": action, "cycle_id": cycle, "instruction": instruction,
                "continues": continues,
            }));
            return;
        }
        let continues =
            continues.map(|from| format!(", continues {}", output::single_line(&from.to_string())));
        let continues = continues.unwrap_or_default();
        output::message(format_args!(
            "cycle {} is run {run}: {}{continues}",
            styled(BOLD, output::single_line(&cycle.to_string())),
            output::single_line(instruction)
        ));
    }
}
