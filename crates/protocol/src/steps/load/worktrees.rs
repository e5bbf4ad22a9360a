//! The steps that the loader adds to a workflow with `worktree: true`: a merge after each such step, and one fast-forward at
//! the end.
//!
//! They are steps like others, so that retries, loop-backs and every command work for them. A merge is a gate: a conflict
//! loops back to the step whose branch it is.

use super::draft::StepDraft;
use crate::StepId;
use crate::located::{Located, Problems, Rule};
use crate::steps::workflow::{ENGINE, StepEffect, StepSpec};

/// The id of the step that fast-forwards the base branch.
const FAST_FORWARD: &str = "fast-forward";

fn merge_id(step: &str) -> String {
    format!("{step}.merge")
}

/// Checks that the added steps have ids of their own.
pub(super) fn check_ids(steps: &[StepDraft], problems: &mut Problems) {
    let ids: Vec<_> = steps.iter().filter_map(|step| step.id.as_ref()).collect();
    let with_worktree = steps.iter().filter(|step| step.worktree).filter_map(|step| step.id.as_ref());
    let added: Vec<_> = with_worktree.map(|id| (id, merge_id(&id.value))).collect();
    for (Located { value: id, pos }, merge) in &added {
        if StepId::new(id).is_ok() && StepId::new(merge).is_err() {
            let message =
                format!("`{id}` is too long for a step with `worktree`: its merge is called `{merge}`");
            problems.add(*pos, Rule::UnsafeId, message, "choose a shorter id");
        }
    }
    for Located { value: id, pos } in ids {
        let is_added =
            added.iter().any(|(_, merge)| merge == id) || (!added.is_empty() && id == FAST_FORWARD);
        if is_added {
            let message = format!("a workflow with `worktree: true` has a step `{id}` already");
            problems.add(*pos, Rule::DuplicateId, message, "give this step another id");
        }
    }
}

/// Adds the merges and the fast-forward. Steps that need a step with a worktree need its merge instead.
pub fn add_effect_steps(steps: Vec<StepSpec>) -> Vec<StepSpec> {
    let with_worktree: Vec<_> =
        steps.iter().filter(|step| step.worktree).map(|step| step.id.clone()).collect();
    // An invalid id has been reported.
    let merge_of = |step: &StepId| StepId::new(merge_id(step.as_str())).unwrap_or_else(|_| step.clone());
    let mut all = Vec::new();
    for mut step in steps {
        for need in &mut step.needs {
            if with_worktree.contains(need) {
                *need = merge_of(need);
            }
        }
        let merge = step.worktree.then(|| StepSpec {
            needs: vec![step.id.clone()],
            loop_back_to: Some(step.id.clone()),
            effect: Some(StepEffect::Merge(step.id.clone())),
            ..StepSpec::new(merge_of(&step.id), ENGINE, "")
        });
        all.push(step);
        all.extend(merge);
    }
    if !with_worktree.is_empty() {
        let is_needed = |id: &StepId| all.iter().any(|step| step.needs.contains(id));
        let last: Vec<_> = all.iter().map(|step| step.id.clone()).filter(|id| !is_needed(id)).collect();
        all.push(StepSpec {
            needs: last,
            effect: Some(StepEffect::FastForward),
            ..StepSpec::new(StepId::new(FAST_FORWARD).expect("BUG: it is an id"), ENGINE, "")
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use crate::StepId;

    const FEATURES: &str = "steps:
- {id: plan, agent: a, prompt: p}
- {id: api, agent: a, prompt: p, needs: [plan], worktree: true}
- {id: docs, agent: a, prompt: p, needs: [plan]}
- {id: test, agent: a, prompt: p, needs: [plan, api], loop_back_to: api}
";

    #[test]
    fn a_step_with_a_worktree_is_followed_by_its_merge_and_the_run_by_a_fast_forward() {
        let workflow = load(FEATURES).unwrap().workflow;
        let lines = workflow.steps.iter().map(|step| {
            let needs: Vec<_> = step.needs.iter().map(StepId::as_str).collect();
            format!("{}: {}", step.id, needs.join(" "))
        });
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "plan: ",
                "api: plan",
                "api.merge: api",
                "docs: plan",
                "test: plan api.merge",
                "fast-forward: docs test"
            ]
        );
        let merge = &workflow.steps[2];
        assert_eq!(merge.loop_back_to.as_ref().unwrap().as_str(), "api", "a conflict goes back to the step");
        assert_eq!(workflow.steps_in_file().count(), 4);
    }

    #[test]
    fn a_step_with_the_id_of_an_added_step_is_refused() {
        for taken in ["api.merge", "fast-forward"] {
            let problems = load(&FEATURES.replace("docs", taken)).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].message.contains(&format!("a step `{taken}` already")), "{problems:?}");
            assert!(load(&FEATURES.replace("docs", taken).replace(", worktree: true", "")).is_ok());
        }
        let long = "x".repeat(97);
        let problems = load(&FEATURES.replace("api", &long)).unwrap_err();
        assert!(problems[0].message.contains("too long"), "{problems:?}");
    }

    #[test]
    fn a_worktree_that_is_neither_true_nor_false_is_refused() {
        let problems = load(&FEATURES.replace("true", "\"true\"")).unwrap_err();
        assert!(problems[0].hint.contains("`worktree: true`"), "{problems:?}");
    }
}
