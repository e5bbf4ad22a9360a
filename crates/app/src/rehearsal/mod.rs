//! Rehearsal: the built-in scripted agent works on the steps of a run, instead of real agents.
//!
//! `--rehearse` stores the scripted agent and its [`script`] with the run. Every attempt is a real process under the
//! real shim: our own program as `__rehearse` ([`agent`]). `supervisor::adapter::rehearsal` selects the scripted
//! attempt.

pub(crate) mod agent;
mod flag;
mod outputs;
mod script;
mod script_steps;
mod template;

use std::fs;
use std::path::Path;

use protocol::steps::load;
use runner::{AgentProfile, GRACE};
use supervisor::adapter::{Adapter, EnvPolicy, RehearsalScript, ReportRule};

use crate::failure::Failure;
pub(crate) use flag::{RehearseFlag, hint};
pub(crate) use script_steps::ScriptSteps;

/// Returns the profile of the scripted agent. Fails with every problem of the script.
fn scripted_agent(script: Option<&Path>, steps: &ScriptSteps) -> Result<AgentProfile, Failure> {
    let rehearsal = match script {
        None => RehearsalScript { default_fields: steps.default_fields(), ..RehearsalScript::default() },
        Some(file) => {
            let source = read("script", file)?;
            script::load(&source, steps).map_err(|problems| {
                Failure::of_problems("script", file, &source, &problems)
                    .hint(format_args!("run {} to print a script with examples", steps.template_command))
            })?
        }
    };
    Ok(AgentProfile {
        adapter: Adapter::Rehearsal(rehearsal),
        report: ReportRule::Required,
        env_policy: EnvPolicy::AllowList(Vec::new()),
        env: Vec::new(),
        timeout: None,
        silence: None,
        grace: GRACE,
    })
}

/// Reads the steps of a workflow file.
pub(crate) fn workflow_steps(file: &Path) -> Result<ScriptSteps, Failure> {
    let source = read("workflow", file)?;
    let loaded =
        load::load(&source).map_err(|problems| Failure::of_problems("workflow", file, &source, &problems))?;
    Ok(ScriptSteps::of_workflow(&loaded.workflow))
}

/// Returns a script in which every step succeeds, with examples in comments.
pub(crate) fn script_template(steps: &ScriptSteps) -> String {
    template::script(steps)
}

fn read(what: &str, file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("cannot read the {what} `{}`", file.display())).because(Some(&error))
    })
}
