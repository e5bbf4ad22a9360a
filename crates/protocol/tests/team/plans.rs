//! Which plans are refused, and why.

use serde_json::{Value, json};

use super::*;

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let mut plan = plan(&[("A", "a.txt", &[]), ("B", "b.txt", &[])]);
    change(&mut plan);
    TeamRun::open(definition()).try_report("pm.plan", plan, BTreeMap::new()).unwrap_err()
}

#[test]
fn a_plan_is_refused_with_the_reasons() {
    let refused = |change: fn(&mut Value), why: &str| {
        let reason = refusal(change);
        assert!(reason.contains(why), "{reason} should contain {why}");
    };
    refused(|plan| plan["task_groups"][1]["id"] = "A".into(), "there is already a group `A`");
    refused(|plan| plan["task_groups"][0]["id"] = "../x".into(), "cannot be the id of a group");
    refused(|plan| plan["task_groups"][0]["id"] = "pm".into(), "cannot be the id of a group");
    refused(|plan| plan["task_groups"][0]["depends_on"] = json!(["X"]), "`X`, which does not exist");
    refused(
        |plan| {
            plan["task_groups"][0]["depends_on"] = json!(["B"]);
            plan["task_groups"][1]["depends_on"] = json!(["A"]);
        },
        "depends on itself",
    );
    refused(
        |plan| {
            plan["task_groups"][0]["depends_on"] = json!(["B"]);
            plan["execution_phases"] =
                json!([{ "phase_number": 1, "group_ids": ["A"] }, { "phase_number": 2, "group_ids": ["B"] }]);
        },
        "which is in a later phase",
    );
    refused(|plan| plan["task_groups"] = json!([]), "the plan has no groups");
    refused(|plan| plan["task_groups"][0]["tasks"] = json!(["TA", "TB"]), "task `TB` is in the groups");
    refused(|plan| plan["task_groups"][0]["tasks"] = json!([]), "task `TA` is in no group");
    refused(|plan| plan["success_criteria"][0]["tasks"] = json!([]), "criterion `C1` names no task");
    refused(|plan| plan["task_groups"][0]["branch_name"] = "feature/../x".into(), "cannot be the branch");
    refused(
        |plan| {
            plan["task_groups"][0]["branch_name"] = "feature/login/ui".into();
            plan["task_groups"][1]["branch_name"] = "feature/login".into();
        },
        "git cannot have the branches `feature/login/ui` and `feature/login` at the same time",
    );
    refused(|plan| plan["mode"] = "simple".into(), "one group with the id `main`");
    refused(|plan| plan["mode"] = "fast".into(), "`mode` is \"fast\": use");
    refused(|plan| plan["task_groups"][1]["id"] = "a".into(), "`A` and `a` differ only in letter case");
    for command in [
        "cd x; make",
        "make && test",
        "make | grep ok",
        "make >log",
        "echo $(date)",
        "echo `date`",
        "test -f $HOME/x",
        "test -f \"${HOME}/x\"",
    ] {
        let reason = refusal(|plan| plan["success_criteria"][0]["command"] = command.into());
        assert!(
            reason.contains("no shell reads it: name a script, or write `sh -c '…'`"),
            "{command}: {reason}"
        );
    }
}

/// Regression: the task of an earlier plan did not count, so the plan was refused.
#[test]
fn a_later_plan_may_repeat_the_criteria_of_the_first() {
    let mut run = one_group();
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.report("A.merge", json!({}));
    run.report("pm.criteria", criteria_report(1));
    let mut later = plan(&[("B", "b.txt", &[])]);
    later["success_criteria"][0]["tasks"] = json!(["TA"]);
    run.report("pm.check", later);
    assert_eq!(run.active(), ["B.developer"]);
}

#[test]
fn a_command_may_quote_what_a_shell_would_read() {
    let mut run = TeamRun::open(definition());
    let mut plan = plan(&[("A", "a.txt", &[])]);
    plan["success_criteria"][0]["command"] = r#"sh -c 'make && "test" | tee log' \; "a;b" "^a$" '$b'"#.into();
    run.report("pm.plan", plan);
    let command = &run.state.run.machine.brief(&StepId::new("pm.criteria").unwrap(), 1).checks[0].command;
    assert_eq!(command, &["sh", "-c", r#"make && "test" | tee log"#, ";", "a;b", "^a$", "$b"]);
}

#[test]
fn a_pattern_overlaps_only_files_with_its_suffix() {
    let both_start = |one: &str, other: &str| {
        let mut run = TeamRun::open(definition());
        run.report("pm.plan", plan(&[("A", one, &[]), ("B", other, &[])]));
        run.active().len() == 2
    };
    for (one, other) in [("**/*.rs", "Doc.md"), ("src/*.rs", "docs/*.rs"), ("**/*.rs", "**/*.md")] {
        assert!(both_start(one, other) && both_start(other, one), "{one} and {other}");
    }
    for (one, other) in
        [("**/*.rs", "src/a.rs"), ("src/", "src/a.rs"), ("src/**", "src/a.rs"), ("src/**", "**/*.rs")]
    {
        assert!(!both_start(one, other) && !both_start(other, one), "{one} and {other}");
    }
}

#[test]
fn the_only_group_has_a_branch_like_every_other() {
    let mut run = TeamRun::open(definition());
    let mut plan = plan(&[("main", "a.txt", &[])]);
    plan["mode"] = "simple".into();
    run.report("pm.plan", plan);
    assert_eq!(run.document().plan.groups[0].branch_name, "feature/group-main-group-main");
}

/// A rehearsal reports the example of the report form, so it must be valid.
#[test]
fn the_example_of_a_plan_is_accepted_in_every_mode() {
    let modes = [(ModeChoice::Auto, 2), (ModeChoice::Parallel, 2), (ModeChoice::Simple, 1)];
    for ((mode, groups), at_once) in modes.into_iter().flat_map(|mode| [(mode, 1), (mode, 4)]) {
        let limits = Limits { groups: std::num::NonZeroU8::new(at_once).unwrap(), ..Limits::default() };
        let mut run = TeamRun::open(Definition { mode, limits, ..definition() });
        let form = run.state.run.machine.brief(&StepId::new("pm.plan").unwrap(), 1).form;
        let example = form.fields().unwrap().example.clone().into();
        run.report("pm.plan", example);
        assert_eq!(run.file("pm_state.json")["task_groups"].as_array().unwrap().len(), groups, "{mode:?}");
    }
}

#[test]
fn a_phase_has_no_more_groups_than_work_at_once() {
    let ids = ["A", "B", "C", "D", "E"];
    let groups: Vec<(&str, &str, &[&str])> = ids.iter().map(|id| (*id, *id, &[][..])).collect();
    let mut plan = plan(&groups);
    let mut run = TeamRun::open(definition());
    plan["execution_phases"] = json!([{ "phase_number": 1, "group_ids": ids }]);
    let reason = run.try_report("pm.plan", plan.clone(), BTreeMap::new()).unwrap_err();
    assert!(reason.contains("phase 1 has 5 groups; at most 4 work at once"), "{reason}");
    // Without phases the fifth group gets into a second one.
    plan.as_object_mut().unwrap().remove("execution_phases");
    run.report("pm.plan", plan);
    assert_eq!(run.active().len(), 4);
}

#[test]
fn a_group_gets_a_branch_that_does_not_exist_yet() {
    let branches = |git: Value| -> Vec<String> {
        let mut run = TeamRun::open(definition());
        let mut plan = plan(&[("A", "a.txt", &[]), ("B", "b.txt", &[])]);
        plan["task_groups"][0]["branch_name"] = "feature/login".into();
        plan["git"] = git;
        run.report("pm.plan", plan);
        run.document().plan.groups.iter().map(|group| group.branch_name.clone()).collect()
    };
    let b = "feature/group-B-group-b";
    assert_eq!(branches(json!({})), ["feature/login", b]);
    assert_eq!(branches(json!({ "branches": ["feature/login"] })), ["feature/login-2", b]);
    assert_eq!(
        branches(json!({ "branches": ["feature/login", "feature/login-2/x"] })),
        ["feature/login-3", b]
    );
    let mut run = TeamRun::open(definition());
    let mut plan = plan(&[("A", "a.txt", &[])]);
    plan["git"] = json!({ "branches": ["feature"] });
    let refused = run.try_report("pm.plan", plan, BTreeMap::new()).unwrap_err();
    assert!(refused.contains("there is a branch `feature`"), "{refused}");
}
