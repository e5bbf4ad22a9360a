//! A workflow file together with the prompt files it names.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::steps::Workflow;
use protocol::steps::load::{self, Examined, Problem, PromptReference, Rule};

/// All that reading the file and its prompts has shown.
#[derive(Debug)]
pub(crate) struct Read {
    /// The workflow and its steps' prompts, in the order of the steps; `None` if there are problems.
    pub(crate) whole: Option<(Workflow, Vec<String>)>,
    /// In the order of the file.
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

/// Reads a workflow and its prompts. A prompt that is missing is a problem like any other, reported with the rest.
pub(crate) fn read(repo: &Path, file: &Path, source: &str) -> Read {
    let Examined { workflow, mut problems, warnings, prompts } = load::examine(source);
    let mut texts = Vec::new();
    for reference in &prompts {
        match prompt(repo, file, reference) {
            Ok(text) => texts.push(text),
            Err(missing) => problems.push(missing),
        }
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    let whole = workflow.filter(|_| problems.is_empty()).map(|workflow| (workflow, texts));
    Read { whole, problems, warnings }
}

/// Finds a step's prompt where the seed looks for it; the first hit wins.
fn prompt(repo: &Path, file: &Path, reference: &PromptReference) -> Result<String, Problem> {
    let PromptReference { path, step, line, column } = reference;
    let called = match step {
        Some(step) => format!("the prompt `{path}` of step `{step}`"),
        None => format!("the prompt `{path}`"),
    };
    let missing =
        |message, hint| Problem { line: *line, column: *column, rule: Rule::MissingPrompt, message, hint };
    let named = Path::new(path);
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
        places.dedup();
    }
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let searched: Vec<_> = places.iter().map(|place| format!("`{}`", place.display())).collect();
        let hint = format!("write it; looked for {}", searched.join(", then "));
        return Err(missing(format!("{called} does not exist"), hint));
    };
    fs::read_to_string(found).map_err(|error| {
        let hint = format!("make `{}` a readable file of UTF-8 text", found.display());
        missing(format!("{called} cannot be read: {error}"), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_prompts_are_reported_with_all_other_problems_in_the_order_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.md"), "plan").unwrap();
        let source = "\
steps:
  - {id: plan, agent: x, prompt: plan.md}
  - {id: code, agent: x, prompt: code.md, neds: [plan]}
  - {id: docs, agent: x, prompt: docs.md}
";
        let read = read(folder.path(), &folder.path().join("wf.yaml"), source);
        let shown: Vec<_> = read
            .problems
            .iter()
            .map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.message))
            .collect();
        assert_eq!(
            shown,
            [
                "3:34 the prompt `code.md` of step `code` does not exist",
                "3:43 `neds` is not a key of a step",
                "4:34 the prompt `docs.md` of step `docs` does not exist",
            ]
        );
        assert!(read.whole.is_none());
    }

    #[test]
    fn a_prompt_is_looked_for_in_the_agents_folder_then_beside_the_workflow_then_in_the_repository() {
        let repo = tempfile::tempdir().unwrap();
        let flows = repo.path().join("flows");
        let agents = repo.path().join(".agents/prompts");
        fs::create_dir_all(&flows).unwrap();
        fs::create_dir_all(&agents).unwrap();
        let source = "steps: [{id: a, agent: x, prompt: p.md}]";
        for place in [repo.path(), &flows, &agents] {
            fs::write(place.join("p.md"), place.to_str().unwrap()).unwrap();
            let (_, prompts) = read(repo.path(), &flows.join("wf.yaml"), source).whole.unwrap();
            assert_eq!(prompts, [place.to_str().unwrap()]);
        }
    }
}
