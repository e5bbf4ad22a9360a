//! Reads the definition of a `steps` run: the workflow file and its prompts.

pub(crate) mod workflow;

use std::fs;
use std::io::Write as _;
use std::num::NonZeroU32;
use std::path::Path;

use protocol::steps::{Definition, DefinitionSource, OnFailure};
use protocol::{KindInfo, RunLocation};

use crate::failure::{Exit, Failure};
use crate::output;
use workflow::Read;

/// Limits that are frozen with a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_attempts: NonZeroU32,
    pub(crate) max_iterations: NonZeroU32,
    pub(crate) on_failure: OnFailure,
}

/// Reads a workflow and its prompts. Prints warnings; fails with every problem.
pub(crate) fn read(repo: &Path, file: &Path, limits: Limits) -> Result<Definition, Failure> {
    let Limits { max_attempts, max_iterations, on_failure } = limits;
    let source = fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("cannot read the workflow `{}`", file.display()))
            .because(Some(&error))
            .hint("name a workflow file; a relative path starts at the current directory")
    })?;
    let Read { whole, problems, warnings } = workflow::read(repo, file, &source);
    for warning in &warnings {
        output::message(output::warning(file, &source, warning));
    }
    let Some((workflow, prompts)) = whole else {
        return Err(Failure::of_problems("workflow", file, &source, &problems));
    };
    // A person may be asked without a prompt.
    let with_prompt = workflow.written_steps().filter(|step| !step.prompt.is_empty());
    let prompts = with_prompt.map(|step| step.id.clone()).zip(prompts).collect();
    Ok(DefinitionSource { workflow, source, prompts, max_attempts, max_iterations, on_failure }.into())
}

/// Adds the views to `info/exclude` of git, before the first view is written.
pub(crate) fn exclude_views(repo: &Path, info: &KindInfo) -> Result<(), Failure> {
    let Some(store::Repository { common_dir, .. }) = store::repository(repo)? else { return Ok(()) };
    let file = common_dir.join("info/exclude");
    let patterns = [&[RunLocation::EXCLUDED], info.views].concat();
    // Append our lines: those of the user, which may not be UTF-8, stay unchanged.
    let write = || {
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let is_there =
            |pattern: &&str| text.split(|byte| *byte == b'\n').any(|line| line == pattern.as_bytes());
        let missing: Vec<_> = patterns.iter().copied().filter(|pattern| !is_there(pattern)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let gap = if text.is_empty() || text.ends_with(b"\n") { "" } else { "\n" };
        fs::create_dir_all(common_dir.join("info"))?;
        let mut file = fs::File::options().create(true).append(true).open(&file)?;
        file.write_all(format!("{gap}{}\n", missing.join("\n")).as_bytes())
    };
    write().map_err(|error| {
        let patterns = patterns.join("`, `");
        let failure = |exit| Failure::new(exit, format!("cannot add `{patterns}` to `{}`", file.display()));
        if supervisor::is_full_disk(&error) {
            let hint = "free space on that disk, then run the same command again";
            return failure(Exit::Store).because(Some(&error)).hint(hint);
        }
        failure(Exit::Usage).because(Some(&error))
    })
}
