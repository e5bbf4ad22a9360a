//! `--accept-changes`: a new run continues an old one with the new version of its workflow.

use std::collections::BTreeMap;

use protocol::run::Request;
use protocol::steps::{Definition, Reports, Status, Steps, StoredDefinition, fill_missing};
use protocol::{RunId, RunLocation, StepId, Turn, protocol_kind};
use runner::{DocumentImport, EngineConfig, RunAtRevision, RunOptions, RunSpec};
use serde_json::{Map, Value, json};
use store::AnyStore;

use super::start_at::stored_definition;
use crate::cli::{diff, rm};
use crate::control::start_again::require_startable;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::query::difference;
use crate::workspace::{self, Workspace};

/// Makes a new run with the new definition and the document of the old run, and shows the difference. The old run stays as it
/// is. The new run is to start at `step`.
pub(super) async fn continue_in_new_run(
    workspace: &Workspace,
    store: &AnyStore,
    run_at: &RunAtRevision,
    definition: Definition,
    step: &str,
    engine_config: &EngineConfig,
) -> Result<RunId, Failure> {
    let old = &run_at.run;
    let context = format!("cannot continue run `{old}` with the new version");
    let with_context = |failure: Failure| failure.context(&context);
    let mut journal = workspace.load(store, old).await?;
    rm::refuse_unfinished(&journal).map_err(with_context)?;
    // Before the new run is made: a command that is refused must not leave one.
    let request = Request::Retry { step: StepId::new(step).ok() };
    require_startable(workspace, store, &mut journal, &request, engine_config).await?;
    let options = &run_at.spec.options;
    if options.worktrees.is_some() || definition.workflow().has_worktrees() {
        let what = "it has worktrees, and a new run has worktrees and branches of its own";
        return Err(with_context(
            Failure::new(Exit::Refused, what)
                .hint("run `callboard run WORKFLOW` to start a new run with the new version"),
        ));
    }
    let run = free_name(store, old).await?;
    let location = RunLocation { run: run.clone(), ..options.location.clone() };
    let mut document = run_at.machine().document().to_value();
    // Steps that only the old version has.
    if let Some(steps) = document["steps"].as_object_mut() {
        steps.retain(|id, _| StepId::new(id).is_ok_and(|id| definition.has_step(&id)));
    }
    let now = workspace.clock.now();
    // Steps that only the new version has. No report is given, so they are pending.
    let document = fill_missing(&definition, &location, now, document, &Reports::new()).document;
    refuse_unfinished_needs(&definition, &document, step).map_err(with_context)?;
    diff::print(
        &difference::between(
            &steps_with_prompts(&stored_definition(run_at)?),
            &steps_with_prompts(&definition.clone().into()),
        ),
        "steps",
    );

    let options = RunOptions { location, ..options.clone() };
    let spec = RunSpec::new(definition.workflow().name.clone(), &definition, options);
    let path = format!("run {old}, revision {}", run_at.revision);
    // No turns: the new run has had none, so no attempt id can be used twice.
    let import = DocumentImport { path, document, turns: BTreeMap::<StepId, Turn>::new(), request: None };
    let (by, kind) = (workspace::person_author(), protocol_kind::<Steps>());
    let imported = runner::import_document(Some(store), &by, now, kind, spec, import).await;
    imported
        .map_err(|error| with_context(Failure::from_document_import(&error, &run, old.as_str().as_ref())))?;
    output::note(format_args!("run `{run}` continues `{old}` with the new version; `{old}` stays as it is"));
    Ok(run)
}

/// Fails if the step is unknown, or needs one that is not done. The new run is not made then.
fn refuse_unfinished_needs(definition: &Definition, document: &Value, step: &str) -> Result<(), Failure> {
    let known = StepId::new(step).ok().filter(|id| definition.has_step(id));
    let id = known.ok_or_else(|| Failure::usage(format!("the new version has no step `{step}`")))?;
    let is_done = |need: &&StepId| {
        let status = document["steps"][need.as_str()]["status"].as_str();
        [Status::Completed, Status::Skipped].iter().any(|done| status == Some(done.as_str()))
    };
    match definition.step(&id).needs.iter().find(|need| !is_done(need)) {
        None => Ok(()),
        Some(need) => {
            let what = format!("`{step}` needs `{need}`, which has not succeeded; start at `{need}`");
            Err(Failure::new(Exit::Refused, what))
        }
    }
}

/// Returns the first name that no run has: `trial-v2`, `trial-v3`.
async fn free_name(store: &AnyStore, old: &RunId) -> Result<RunId, Failure> {
    let base = match old.as_str().rsplit_once("-v") {
        Some((base, number)) if number.parse::<u32>().is_ok() => base,
        Some(_) | None => old.as_str(),
    };
    for number in 2_u32.. {
        let name = RunId::new(format!("{base}-v{number}"));
        let name = name.map_err(|error| Failure::usage("the name is too long").because(Some(&error)))?;
        if store.protocol(&name).await?.is_none() {
            return Ok(name);
        }
    }
    unreachable!("BUG: there is always another number")
}

/// Returns the steps of the workflow file and the texts of their prompts, in the form that [`diff::print`] expects.
fn steps_with_prompts(definition: &StoredDefinition) -> Value {
    let steps: Map<_, _> = definition
        .workflow
        .steps_in_file()
        .map(|step| {
            let mut value = serde_json::to_value(step).expect("BUG: a step is plain data");
            value["prompt text"] = definition.prompts.get(&step.id).cloned().into();
            (step.id.to_string(), value)
        })
        .collect();
    json!({ "document": { "steps": steps } })
}
