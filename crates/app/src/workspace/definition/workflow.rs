//! A workflow file together with the prompt files it names.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::steps::Workflow;
use protocol::steps::load::{self, CheckReference, Problem, Prompt, PromptReference, Rule, WorkflowAnalysis};

use crate::config::{Config, Flags};

/// The result of reading the file and its prompts.
#[derive(Debug)]
pub(crate) struct ReadResult {
    /// The workflow and the prompts of the steps that have one, in the order of the steps; `None` if there are problems.
    pub(crate) workflow: Option<(Workflow, Vec<String>)>,
    /// In the order of the file.
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

/// The checks that steps may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KnownChecks {
    /// Those of `[checks]`, or those that the files of the repository suggest.
    Named(Vec<String>),
    /// The repository configures none and suggests none: an unknown name is only a warning.
    NotConfigured,
    /// The caller does not use them.
    NotNeeded,
}

impl KnownChecks {
    /// Returns the checks of the repository, as far as its configuration can be read.
    pub(crate) fn of(repo: &Path) -> Self {
        let Ok(config) = Config::find(repo, Flags::default()) else { return Self::NotConfigured };
        match config.checks.resolve(repo) {
            known if known.is_empty() && !config.checks.is_set() => Self::NotConfigured,
            known => Self::Named(known.into_iter().map(|check| check.value.name).collect()),
        }
    }

    /// Returns what is wrong with the name of a check, if it is unknown.
    fn problem(&self, reference: &CheckReference) -> Option<Problem> {
        let CheckReference { name, step, line, column } = reference;
        let known = match self {
            Self::Named(known) if !known.contains(name) => known.as_slice(),
            Self::NotConfigured => &[],
            Self::Named(_) | Self::NotNeeded => return None,
        };
        let step = step.as_ref().map_or_else(|| "a step".to_owned(), |step| format!("step `{step}`"));
        let known: Vec<_> = known.iter().map(|known| format!("`{known}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Some(Problem {
            line: *line,
            column: *column,
            rule: Rule::UnknownCheck,
            message: format!("{step} names the check `{name}`, which is not configured"),
            hint: format!(
                "add it to `[checks]` in callboard.toml, or write `{{run: [PROGRAM, ARGUMENT]}}`; known are {known}"
            ),
        })
    }
}

/// Reads a workflow and its prompts. A missing prompt and an unknown check are reported with all other problems.
pub(crate) fn read(repo: &Path, file: &Path, source: &str, known: &KnownChecks) -> ReadResult {
    let WorkflowAnalysis { workflow, mut problems, mut warnings, prompts, checks } = load::analyze(source);
    let unknown = checks.iter().filter_map(|reference| known.problem(reference));
    match known {
        KnownChecks::Named(_) => problems.extend(unknown),
        KnownChecks::NotConfigured | KnownChecks::NotNeeded => warnings.extend(unknown),
    }
    let mut texts = Vec::new();
    for reference in &prompts {
        match prompt(repo, file, reference) {
            Ok(text) => texts.push(text),
            Err(missing) => problems.push(missing),
        }
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    let workflow = workflow.filter(|_| problems.is_empty()).map(|workflow| (workflow, texts));
    ReadResult { workflow, problems, warnings }
}

/// Returns the prompt of a step. A prompt that names a file is read from the first of these paths that exists: the path
/// itself if it is absolute, its file name in `.agents/prompts`, relative to the workflow, relative to the repository.
fn prompt(repo: &Path, file: &Path, reference: &PromptReference) -> Result<String, Problem> {
    let PromptReference { prompt, step, line, column } = reference;
    let path = match prompt {
        Prompt::Text(text) => return Ok(text.clone()),
        Prompt::File(path) => path,
    };
    let prompt_name = match step {
        Some(step) => format!("the prompt `{path}` of step `{step}`"),
        None => format!("the prompt `{path}`"),
    };
    let missing =
        |message, hint| Problem { line: *line, column: *column, rule: Rule::MissingPrompt, message, hint };
    let named = Path::new(path);
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut paths: Vec<PathBuf> = Vec::new();
    if named.is_absolute() {
        paths.push(named.to_owned());
    }
    if let Some(name) = named.file_name() {
        paths.push(repo.join(".agents/prompts").join(name));
    }
    if !named.is_absolute() {
        paths.extend([folder.join(named), repo.join(named)]);
        paths.dedup();
    }
    let Some(found) = paths.iter().find(|path| path.is_file()) else {
        let searched: Vec<_> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
        let hint = format!("create it; searched {}", searched.join(", then "));
        return Err(missing(format!("{prompt_name} does not exist"), hint));
    };
    fs::read_to_string(found).map_err(|error| {
        let hint = format!("make `{}` a readable UTF-8 file", found.display());
        missing(format!("{prompt_name} cannot be read: {error}"), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_prompts_are_reported_with_other_problems_in_file_order() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.md"), "plan").unwrap();
        let source = "\
steps:
  - {id: plan, agent: x, prompt: plan.md}
  - {id: code, agent: x, prompt: code.md, neds: [plan]}
  - {id: docs, agent: x, prompt: docs.md}
";
        let read = read(folder.path(), &folder.path().join("wf.yaml"), source, &KnownChecks::NotNeeded);
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
        assert!(read.workflow.is_none());
    }

    #[test]
    fn a_prompt_is_searched_in_the_agents_folder_then_beside_the_workflow_then_in_the_repository() {
        let repo = tempfile::tempdir().unwrap();
        let flows = repo.path().join("flows");
        let agents = repo.path().join(".agents/prompts");
        fs::create_dir_all(&flows).unwrap();
        fs::create_dir_all(&agents).unwrap();
        let source = "steps: [{id: a, agent: x, prompt: p.md}]";
        for folder in [repo.path(), &flows, &agents] {
            fs::write(folder.join("p.md"), folder.to_str().unwrap()).unwrap();
            let read = read(repo.path(), &flows.join("wf.yaml"), source, &KnownChecks::NotNeeded);
            let (_, prompts) = read.workflow.unwrap();
            assert_eq!(prompts, [folder.to_str().unwrap()]);
        }
    }

    #[test]
    fn a_yaml_block_is_the_prompt_itself_even_if_it_has_one_line() {
        let repo = tempfile::tempdir().unwrap();
        let source =
            "steps:\n- id: a\n  agent: x\n  prompt: |\n    Plan it.\n- {id: b, agent: x, prompt: b.md}\n";
        fs::write(repo.path().join("b.md"), "from the file").unwrap();
        let read = read(repo.path(), &repo.path().join("wf.yaml"), source, &KnownChecks::NotNeeded);
        assert_eq!(read.workflow.unwrap().1, ["Plan it.\n", "from the file"]);
    }

    #[test]
    fn an_unknown_check_is_a_problem_where_checks_are_configured_and_else_a_warning() {
        let repo = tempfile::tempdir().unwrap();
        let source = "steps:\n- {id: a, agent: x, prompt: p.md, checks: [test, slow, {run: [make]}]}\n";
        fs::write(repo.path().join("p.md"), "prompt").unwrap();
        let read = |known: &KnownChecks| read(repo.path(), &repo.path().join("wf.yaml"), source, known);
        let shown = |problems: &[Problem]| -> Vec<String> {
            let shown = problems.iter();
            shown.map(|one| format!("{}:{} {} ({})", one.line, one.column, one.message, one.hint)).collect()
        };
        let configured = read(&KnownChecks::Named(vec!["test".to_owned(), "lint".to_owned()]));
        assert_eq!(
            shown(&configured.problems),
            ["2:50 step `a` names the check `slow`, which is not configured (add it to `[checks]` in \
              callboard.toml, or write `{run: [PROGRAM, ARGUMENT]}`; known are `test`, `lint`)"]
        );
        assert!(configured.workflow.is_none());
        let not_configured = read(&KnownChecks::NotConfigured);
        assert_eq!(not_configured.warnings.len(), 2, "{:?}", not_configured.warnings);
        assert!(not_configured.workflow.is_some());
        assert_eq!(read(&KnownChecks::NotNeeded).warnings, []);
    }

    #[test]
    fn the_checks_of_a_repository_are_those_of_its_configuration_or_of_its_files() {
        let repo = tempfile::tempdir().unwrap();
        assert_eq!(KnownChecks::of(repo.path()), KnownChecks::NotConfigured);
        fs::write(repo.path().join("go.mod"), "module x\n").unwrap();
        let KnownChecks::Named(detected) = KnownChecks::of(repo.path()) else {
            panic!("go.mod suggests checks")
        };
        assert!(detected.contains(&"test".to_owned()), "{detected:?}");
        fs::write(repo.path().join("callboard.toml"), "[checks]\nfast = ['true']\n").unwrap();
        assert_eq!(KnownChecks::of(repo.path()), KnownChecks::Named(vec!["fast".to_owned()]));
    }
}
