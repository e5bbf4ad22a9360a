//! Setting the stage of a `steps` run: the workflow file, its prompts, the repository.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use protocol::steps::load::{self, Problem};
use protocol::steps::{Definition, Frozen, Step};

use crate::failure::Failure;
use crate::render;

/// Reads a workflow and freezes it with its prompts. Warnings are told, problems are a failure.
pub(crate) fn definition(repo: &Path, file: &Path, max_attempts: NonZeroU32) -> Result<Definition, Failure> {
    let source = fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("cannot read the workflow `{}`", file.display())).because(Some(&error))
    })?;
    let loaded = load::load(&source).map_err(|problems| refused(file, &source, &problems))?;
    for warning in &loaded.warnings {
        render::warning(render::problem(file, &source, warning));
    }
    let workflow = loaded.workflow;
    let mut prompts = BTreeMap::new();
    for step in &workflow.steps {
        prompts.insert(step.id.clone(), prompt(repo, file, step)?);
    }
    Ok(Frozen { workflow, source, prompts, max_attempts }.into())
}

fn refused(file: &Path, source: &str, problems: &[Problem]) -> Failure {
    let shown: Vec<_> = problems.iter().map(|problem| render::problem(file, source, problem)).collect();
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    Failure::usage(format!("the workflow `{}` has {count}\n\n{}", file.display(), shown.join("\n\n")))
}

/// Finds a step's prompt where the seed looks for it; the first hit wins.
fn prompt(repo: &Path, file: &Path, step: &Step) -> Result<String, Failure> {
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
        return Err(Failure::usage(format!(
            "step `{}` of `{}` names the prompt `{}`, which does not exist",
            step.id,
            file.display(),
            step.prompt
        ))
        .hint(format!("looked for {}", searched.join(", then "))));
    };
    fs::read_to_string(found).map_err(|error| {
        Failure::usage(format!("cannot read the prompt `{}` of step `{}`", found.display(), step.id))
            .because(Some(&error))
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
