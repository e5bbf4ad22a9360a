//! The data of one attempt, from which arguments and environment variables are made.

use protocol::brief::StateLocation;
use protocol::report::ReportForm;
use protocol::{AttemptId, RunId};

/// The data of one attempt. Paths are absolute and are text, because they become arguments and variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub run: RunId,
    pub attempt: AttemptId,
    pub agent: String,
    pub workflow: String,
    pub model: Option<String>,
    /// The number of this attempt among those that count towards `max_attempts`.
    pub counted_attempt: u32,
    pub prompt_path: String,
    pub report_path: String,
    /// The file that lists what a command step runs.
    pub checks_path: String,
    /// The top of the tree in which the agent works: the repository, or a worktree. Also the value of `CALLBOARD_ROOT`, for
    /// `callboard` commands of the agent.
    pub repo: String,
    pub artifacts_dir: String,
    /// Answers of people to the questions of steps that this one needs.
    pub answers: Vec<DependencyAnswer>,
    /// The value of `CALLBOARD_STORE`: the local directory, on NATS too.
    pub store: String,
    pub dependencies: Vec<Dependency>,
    /// Where the run's document is stored, if agents may read and write it directly.
    pub state: Option<StateLocation>,
    /// Which execution of the step this is: 1, plus 1 for every loop-back that has reset it.
    pub iteration: u32,
    /// What the report must contain. The scripted agent of a rehearsal reports the example of this form.
    pub form: ReportForm,
    /// The gates that caused the loop-back, each with the path of its report, which is empty if a person or a check decided.
    pub loop_back: Vec<(String, String)>,
}

/// The artifacts of a step that this one needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub step: String,
    pub artifacts: Vec<String>,
}

/// A person's answer to a step that this one needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependencyAnswer {
    pub step: String,
    pub approved: bool,
    pub text: Option<String>,
    /// The file with the answer.
    pub path: String,
}

impl Assignment {
    pub(super) fn step(&self) -> &str {
        self.attempt.step.as_str()
    }

    /// Returns the file with the first answer of a person, or an empty text.
    pub(super) fn answer_path(&self) -> &str {
        self.answers.first().map_or("", |answer| &answer.path)
    }
}

#[cfg(test)]
pub(super) fn example() -> Assignment {
    Assignment {
        run: RunId::new("f8c1").expect("a name"),
        attempt: "code-review#2.1".parse().expect("an id"),
        agent: "re \"viewer\"".to_owned(),
        workflow: "release".to_owned(),
        model: None,
        counted_attempt: 3,
        prompt_path: "/tmp/a b/prompt.md".to_owned(),
        report_path: "/tmp/a b/report.json".to_owned(),
        checks_path: "/tmp/a b/checks.json".to_owned(),
        repo: "/home/me/it's mine".to_owned(),
        artifacts_dir: "/home/me/artifacts".to_owned(),
        answers: Vec::new(),
        store: "/home/me/store".to_owned(),
        dependencies: Vec::new(),
        state: None,
        iteration: 1,
        form: ReportForm::Plain,
        loop_back: Vec::new(),
    }
}
