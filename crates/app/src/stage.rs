//! Setting the stage of a `steps` run: the workflow file, its prompts, the repository.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use protocol::steps::load::{self, Loaded, Problem, Rule};
use protocol::steps::{Definition, Frozen, OnFailure, Step};

use crate::failure::Failure;
use crate::render;

/// How far a run may go, frozen with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_attempts: NonZeroU32,
    pub(crate) max_iterations: NonZeroU32,
    pub(crate) on_failure: OnFailure,
}

/// Reads a workflow and freezes it with its prompts. Warnings are told, problems are a failure.
pub(crate) fn definition(repo: &Path, file: &Path, limits: Limits) -> Result<Definition, Failure> {
    let Limits { max_attempts, max_iterations, on_failure } = limits;
    let source = fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("cannot read the workflow `{}`", file.display())).because(Some(&error))
    })?;
    let Loaded { workflow, warnings, prompts: places } =
        load::load(&source).map_err(|problems| refused(file, &source, &problems))?;
    for warning in &warnings {
        render::warning(render::problem(file, &source, warning));
    }
    let mut prompts = BTreeMap::new();
    let mut problems = Vec::new();
    for (step, place) in workflow.steps.iter().zip(places) {
        match prompt(repo, file, step) {
            Ok(text) => drop(prompts.insert(step.id.clone(), text)),
            Err(missing) => problems.push(missing.at(place)),
        }
    }
    if problems.is_empty() {
        Ok(Frozen { workflow, source, prompts, max_attempts, max_iterations, on_failure }.into())
    } else {
        Err(refused(file, &source, &problems))
    }
}

fn refused(file: &Path, source: &str, problems: &[Problem]) -> Failure {
    let shown: Vec<_> = problems.iter().map(|problem| render::problem(file, source, problem)).collect();
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    Failure::usage(format!("the workflow `{}` has {count}\n\n{}", file.display(), shown.join("\n\n")))
}

/// A prompt that cannot be had.
struct NoPrompt {
    message: String,
    hint: Option<String>,
}

impl NoPrompt {
    fn at(self, (line, column): (usize, usize)) -> Problem {
        Problem { line, column, rule: Rule::MissingPrompt, message: self.message, hint: self.hint }
    }
}

/// Finds a step's prompt where the seed looks for it; the first hit wins.
fn prompt(repo: &Path, file: &Path, step: &Step) -> Result<String, NoPrompt> {
    let named = Path::new(&step.prompt);
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut places: Vec<PathBuf> = Vec::new();
    if named.is_absolute() {
        places.push(named.to_owned());
    }
    if let Some(name) = named.file_name() {
        places.push(repo.join(".agents/prompts").join(name));
    }
    if !named.is_absolute() {
        places.extend([folder.join(named), repo.join(named)]);
    }
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let searched: Vec<_> = places.iter().map(|place| format!("`{}`", place.display())).collect();
        return Err(NoPrompt {
            message: format!("the prompt `{}` of step `{}` does not exist", step.prompt, step.id),
            hint: Some(format!("looked for {}", searched.join(", then "))),
        });
    };
    fs::read_to_string(found).map_err(|error| NoPrompt {
        message: format!("the prompt `{}` of step `{}` cannot be read: {error}", found.display(), step.id),
        hint: None,
    })
}

/// Tells git to leave the view files alone, before the first of them is written.
pub(crate) fn exclude_views(repo: &Path) -> Result<(), Failure> {
    let Some(store::Repository { common_dir, .. }) = store::repository(repo)? else { return Ok(()) };
    let file = common_dir.join("info/exclude");
    let pattern = protocol::steps::layout::EXCLUDED;
    let write = || {
        let mut text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        if text.lines().any(|line| line == pattern) {
            return Ok(());
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(pattern);
        text.push('\n');
        fs::create_dir_all(common_dir.join("info"))?;
        fs::write(&file, text)
    };
    write().map_err(|error| {
        Failure::usage(format!("cannot add `{pattern}` to `{}`", file.display())).because(Some(&error))
    })
}
