//! Reads `when` of a step, and checks that it asks about steps that come before.

use super::draft::StepDraft;
use super::field;
use super::graph::{Edges, is_ancestor, name};
use super::loops::LoopDraft;
use crate::StepId;
use crate::located::{Located, MappingEntry, Node, Problems, Rule, SourcePos, Value};
use crate::steps::phases::when::{Comparison, EndStatus, Operand, When};

pub(super) const KEYS: [&str; 4] = ["step", "status", "metric", "artifact"];
pub(super) const COMPARISONS: [&str; 6] = ["is", "is_not", "above", "at_least", "below", "at_most"];
const HINT: &str = "write `when: {step: test, status: COMPLETED}`, `when: {step: test, metric: failures, above: 0}` or \
                    `when: {artifact: PLAN.md}`, or a list of them";

/// A condition of `when`. The step that it asks about is still text: [`Self::build`] takes its id.
pub(super) struct WhenDraft {
    pos: SourcePos,
    test: Test,
}

enum Test {
    Status(Located<String>, EndStatus),
    Metric(Located<String>, String, Comparison),
    Artifact(String),
}

impl WhenDraft {
    /// Returns the id of the step that the condition is about.
    pub(super) fn step(&self) -> Option<&Located<String>> {
        match &self.test {
            Test::Status(step, _) | Test::Metric(step, ..) => Some(step),
            Test::Artifact(_) => None,
        }
    }

    /// Returns the condition; `None` if it names no step of the workflow, which was reported as a problem.
    pub(super) fn build(self, step: Option<StepId>) -> Option<When> {
        Some(match self.test {
            Test::Status(_, status) => When::Status { step: step?, status },
            Test::Metric(_, metric, comparison) => When::Metric { step: step?, metric, comparison },
            Test::Artifact(path) => When::Artifact(path),
        })
    }
}

pub(super) fn read(entry: &MappingEntry, problems: &mut Problems) -> Vec<WhenDraft> {
    match &entry.value.value {
        Value::Mapping(entries) => condition(&entry.value, entries, problems).into_iter().collect(),
        Value::List(items) => items
            .iter()
            .filter_map(|item| match &item.value {
                Value::Mapping(entries) => condition(item, entries, problems),
                Value::Null
                | Value::Bool { .. }
                | Value::AmbiguousBool(_)
                | Value::Number { .. }
                | Value::Text(_)
                | Value::List(_) => {
                    let message =
                        format!("an entry of `when` is {} where a mapping is expected", item.kind());
                    problems.add(item.pos, Rule::WrongType, message, HINT);
                    None
                }
            })
            .collect(),
        Value::Null
        | Value::Bool { .. }
        | Value::AmbiguousBool(_)
        | Value::Number { .. }
        | Value::Text(_) => {
            field::wrong_type(entry, "a mapping", HINT, problems);
            Vec::new()
        }
    }
}

fn condition(node: &Node, entries: &[MappingEntry], problems: &mut Problems) -> Option<WhenDraft> {
    let is_known = |key: &str| KEYS.contains(&key) || COMPARISONS.contains(&key);
    for entry in entries.iter().filter(|entry| !is_known(&entry.key.value)) {
        let message = format!("`{}` is not a key of `when`", entry.key.value);
        problems.add(entry.key.pos, Rule::UnknownKey, message, HINT);
    }
    if entries.iter().any(|entry| !is_known(&entry.key.value)) {
        return None;
    }
    let get = |key| MappingEntry::find(entries, key);
    let compared: Vec<_> = COMPARISONS.into_iter().filter_map(get).collect();
    let test = match (get("step"), get("status"), get("metric"), get("artifact"), &compared[..]) {
        (Some(step), Some(status), None, None, []) => {
            Test::Status(field::text(step, problems)?, end_status(status, problems)?)
        }
        (Some(step), None, Some(metric), None, [compared]) => Test::Metric(
            field::text(step, problems)?,
            field::text(metric, problems)?.value,
            comparison(compared, problems)?,
        ),
        (None, None, None, Some(artifact), []) => Test::Artifact(path(artifact, problems)?),
        (Some(_), None, Some(_), None, [_, second, ..]) => {
            let message = "`when` compares a metric twice";
            problems.add(second.key.pos, Rule::WrongType, message, "write a list of two conditions");
            return None;
        }
        _ => {
            let message =
                "`when` needs `step` and `status`, or `step`, `metric` and a comparison, or `artifact`";
            problems.add(node.pos, Rule::MissingKey, message, HINT);
            return None;
        }
    };
    Some(WhenDraft { pos: node.pos, test })
}

fn end_status(entry: &MappingEntry, problems: &mut Problems) -> Option<EndStatus> {
    let text = field::text(entry, problems)?;
    match text.value.as_str() {
        "COMPLETED" => Some(EndStatus::Completed),
        "SKIPPED" => Some(EndStatus::Skipped),
        other => {
            let message = format!("`{other}` is not a status that `when` can ask for");
            let hint = "write `COMPLETED` or `SKIPPED`: a step does not start while one that it needs has another status";
            problems.add(text.pos, Rule::WrongType, message, hint);
            None
        }
    }
}

fn path(entry: &MappingEntry, problems: &mut Problems) -> Option<String> {
    let text = field::text(entry, problems)?;
    match crate::check::artifact_path_problem(&text.value) {
        None => Some(text.value),
        Some(problem) => {
            let message = format!("the artifact `{}` {problem}", text.value);
            problems.add(text.pos, Rule::WrongType, message, "name a file relative to the repository");
            None
        }
    }
}

fn comparison(entry: &MappingEntry, problems: &mut Problems) -> Option<Comparison> {
    let key = entry.key.value.as_str();
    let operand = match &entry.value.value {
        Value::Number { value, .. } => Operand::Number(value.as_f64()?),
        Value::Text(_)
        | Value::Null
        | Value::Bool { .. }
        | Value::AmbiguousBool(_)
        | Value::List(_)
        | Value::Mapping(_) => Operand::Word(field::text(entry, problems)?.value),
    };
    let number = match operand {
        Operand::Number(number) => number,
        Operand::Word(_) if key == "is" => return Some(Comparison::Is(operand)),
        Operand::Word(_) if key == "is_not" => return Some(Comparison::IsNot(operand)),
        Operand::Word(_) => {
            field::wrong_type(entry, "a number", &format!("write `{key}: 80`"), problems);
            return None;
        }
    };
    Some(match key {
        "is" => Comparison::Is(Operand::Number(number)),
        "is_not" => Comparison::IsNot(Operand::Number(number)),
        "above" => Comparison::Above(number),
        "at_least" => Comparison::AtLeast(number),
        "below" => Comparison::Below(number),
        _ => Comparison::AtMost(number),
    })
}

/// Checks that conditions are about steps that come before.
pub(super) fn check(steps: &[StepDraft], edges: &[Edges], problems: &mut Problems) {
    for (index, step) in steps.iter().enumerate() {
        for asked in edges[index].when.iter().flatten() {
            if is_ancestor(asked.value, index, edges) {
                continue;
            }
            let (this, other) = (name(steps, index), name(steps, asked.value));
            let message =
                format!("`when` of `{this}` asks about `{other}`, which it does not need, directly or not");
            let hint = format!("add `{other}` to the `needs` of `{this}`");
            problems.add(asked.pos, Rule::NotAnAncestor, message, hint);
        }
        let is_paired = step.data_loop.as_ref().is_some_and(LoopDraft::is_paired);
        if let Some(first) = step.when.first().filter(|_| is_paired) {
            let this = name(steps, index);
            let message =
                format!("`when` has no effect on `{this}`, which starts with the items of another step");
            problems.add(first.pos, Rule::NoEffect, message, "move `when` to that step");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    fn loaded(when: &str) -> Result<Vec<When>, String> {
        let text = format!(
            "steps:\n- {{id: other, agent: x, prompt: p}}\n- {{id: test, agent: x, prompt: p}}\n\
             - {{id: a, agent: x, prompt: p, needs: [test], when: {when}}}\n"
        );
        match load(&text) {
            Ok(mut loaded) => Ok(loaded.workflow.steps.remove(2).when),
            Err(problems) => Err(problems[0].message.clone()),
        }
    }

    #[test]
    fn a_condition_is_about_a_status_a_metric_or_a_file() {
        let step = || StepId::new("test").unwrap();
        let metric = |comparison| When::Metric { step: step(), metric: "n".to_owned(), comparison };
        let all = loaded(
            "[{step: test, status: SKIPPED}, {step: test, metric: n, at_most: 3}, {artifact: docs/PLAN.md}]",
        );
        let expected = [
            When::Status { step: step(), status: EndStatus::Skipped },
            metric(Comparison::AtMost(3.0)),
            When::Artifact("docs/PLAN.md".to_owned()),
        ];
        assert_eq!(all.unwrap(), expected);
        let word = |word: &str| Operand::Word(word.to_owned());
        assert_eq!(
            loaded("{step: test, metric: n, is: high}").unwrap(),
            [metric(Comparison::Is(word("high")))]
        );
    }

    #[test]
    fn other_conditions_are_refused() {
        for (when, message) in [
            ("ready", "`when` is a string where a mapping is expected"),
            ("[ready]", "an entry of `when` is a string where a mapping is expected"),
            (
                "{step: test}",
                "`when` needs `step` and `status`, or `step`, `metric` and a comparison, or `artifact`",
            ),
            ("{step: test, status: FAILED}", "`FAILED` is not a status that `when` can ask for"),
            ("{step: test, metric: n, above: 1, below: 3}", "`when` compares a metric twice"),
            ("{step: test, metric: n, above: high}", "`above` is a string where a number is expected"),
            ("{step: test, metric: n, matches: x}", "`matches` is not a key of `when`"),
            ("{step: tset, status: SKIPPED}", "`when` names `tset`, but no step has this id"),
            (
                "{step: other, status: SKIPPED}",
                "`when` of `a` asks about `other`, which it does not need, directly or not",
            ),
            ("{artifact: ../secret}", "the artifact `../secret` leaves the repository"),
        ] {
            assert_eq!(loaded(when).unwrap_err(), message, "{when}");
        }
    }
}
