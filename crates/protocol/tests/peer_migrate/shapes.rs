//! Each generation, with dots and with colons.

use protocol::peer::migrate::MIGRATED_FROM;
use protocol::peer::{CycleStatus, Document, Phase, PhaseStatus, Position};
use serde_json::json;

use super::*;

/// The account of a fixture, which must be the same for both separators.
fn both(fixture: &str) -> String {
    let dots = shown(&dump(fixture, "."));
    let colons = shown(&dump(fixture, ":"));
    let alike = |text: &str| text.replace(['.', ':'], "");
    assert_eq!(alike(&dots), alike(&colons));
    dots
}

fn document(fixture: &str, cycle: &str) -> Document {
    let (cycles, _) = migrate(&dump(fixture, "."));
    cycles.into_iter().find(|migrated| migrated.cycle.to_string() == cycle).unwrap().document
}

#[test]
fn generation_0_meta_and_a_document_per_cycle() {
    insta::assert_snapshot!(both(G0), @"
    peer:spec:password-reset:cycle:1: completed
      initialized 10:00, plan started 10:00, plan completed 10:00, execute started 10:00, execute completed 10:00, express started 10:00, express completed 10:00, review started 10:00, review completed 10:00, completed 10:30, migrated 08:53
      reshaped: the output of `plan`: it has no `phases`; its steps became one
      reshaped: the output of `plan`: it states no success criteria
    peer:spec:password-reset:cycle:2: execute in_progress
      initialized 11:00, plan started 11:00, plan completed 11:00, execute started 11:00, migrated 08:53
      reshaped: the output of `plan`: its `phases` were given the form of version 2
    peer:spec:password-reset:cycle:3: execute failed
      initialized 12:00, plan started 12:00, plan completed 12:00, execute failed 12:20, migrated 08:53
      error of execute: error: the disk is full
      reshaped: the output of `plan`: its `phases` were given the form of version 2
    peer:global:cycle:1: plan in_progress
      initialized 09:00, plan started 09:00, migrated 08:53
      reshaped: it was cycle 1 of `peer:instruction:plan-product`
    peer.spec.password-reset.meta: what it tells of cycle 1, 2 went there; the rest has no place
    ");
}

#[test]
fn generation_1_a_key_for_everything() {
    insta::assert_snapshot!(both(G1), @r#"
    peer:spec:login:cycle:1: completed
      initialized 10:00, plan started 10:00, plan completed 10:00, execute started 10:00, execute completed 10:00, express started 10:00, express completed 10:00, review started 10:00, review completed 10:00, completed 10:40, migrated 08:53
      overruled: the cycle's status is `"initialized"` here, but `peer.spec.login.cycle.1.status` counts more [peer.spec.login.cycle.1.metadata]
      reshaped: the output of `express`: it is no object; it became the field `formatted_output` of one
    peer:spec:login:cycle:2: plan completed
      initialized 08:53, plan started 08:53, plan completed 08:53, migrated 08:53
      guessed: it does not say when it was created; now is written
      guessed: it does not say which instruction it was given
    peer:spec:login:cycle:3: plan failed
      initialized 11:05, plan failed 11:05, migrated 08:53
      error of plan: error: the instruction file cannot be read
      guessed: it does not say when it was created; the earliest time in it is written
      guessed: it does not say which instruction it was given
    peer:spec:login:cycle:4: plan failed
      initialized 08:53, plan started 08:53, plan failed 08:53, migrated 08:53
      error of plan: missing_output: `plan` says that it is completed, but its output is missing
      guessed: it does not say when it was created; now is written
      guessed: it does not say which instruction it was given
      failed: `plan` says that it is completed, but its output is missing
    peer:spec:login:cycle:5: plan in_progress
      initialized 12:00, plan started 12:00, migrated 08:53
    peer.spec.login.cycle.current: it pointed to the newest cycle; that is found by looking
    "#);
}

#[test]
fn generation_2_the_designs() {
    insta::assert_snapshot!(both(G2), @"
    peer:spec:feature-name:cycle:1: execute failed
      initialized 10:00, plan started 10:00, plan completed 10:05, execute started 10:05, execute failed 10:15, migrated 08:53
      error of execute: error: Permission denied
    peer:spec:feature-name:cycle:2: express in_progress
      initialized 11:00, plan started 11:00, plan completed 11:00, execute started 11:00, execute completed 11:00, express started 11:30, migrated 08:53
      reshaped: the output of `plan`: it has no `phases`; one stands for all of it
      reshaped: the output of `plan`: it states no success criteria
    peer.events.peer.spec.feature-name.cycle.1: it is an event; what it tells is in the documents
    ");
}

#[test]
fn generation_3_what_was_shipped() {
    insta::assert_snapshot!(both(G3), @"
    peer:spec:user-auth:cycle:1: completed
      initialized 10:00, plan started 10:00, plan completed 10:05, execute started 10:05, execute completed 10:20, express started 10:20, express completed 10:30, review started 10:30, review completed 10:40, completed 10:40, migrated 08:53
      reshaped: the output of `plan`: its `phases` were given the form of version 2
    peer:spec:user-auth:cycle:2: initialized
      initialized 11:00, migrated 08:53
    peer:spec:user-auth:cycle:3: execute in_progress
      initialized 12:00, plan started 12:00, plan completed 12:05, execute started 12:05, migrated 08:53
      error of execute: error: one attempt timed out
    peer:global:cycle:1: execute failed
      initialized 13:00, plan started 13:00, plan completed 13:00, execute failed 13:09, migrated 08:53
      error of execute: git: nothing to commit
    peer:global:cycle:2: plan failed
      initialized 14:00, plan failed 14:10, migrated 08:53
      error of plan: cancelled: the user said no
    peer.spec.user-auth.cycle.current: it pointed to the newest cycle; that is found by looking
    ");
}

#[test]
fn what_is_no_cycle_is_named_with_the_reason() {
    insta::assert_snapshot!(both(TRANSIENT), @"
    peer.commit.2025.08.13.19.00: it is the plan of a commit, not a cycle
    peer.context.current_execution.instruction: it was there only while a cycle ran
    peer.global.next_cycle: it counted cycles; the next number is found by looking
    peer.locks.create-spec.login: it was a lock
    somebody.elses: it is no key of a cycle
    ");
}

#[test]
fn completed_without_execute_is_failed_and_what_came_after_is_kept_aside() {
    insta::assert_snapshot!(both(NEVER_EXECUTED), @"
    peer:spec:committer:cycle:1: execute failed
      initialized 10:00, plan started 10:00, plan completed 10:00, execute failed 10:30, migrated 08:53
      error of execute: missing_output: `execute` never ran: `express` came after it, and the cycle says that it is completed, but the output of `execute` is missing
      failed: `execute` never ran: `express` came after it, and the cycle says that it is completed, but the output of `execute` is missing
    ");
    let document = document(NEVER_EXECUTED, "peer:spec:committer:cycle:1");
    assert_eq!(document.position(), Position::Failed(Phase::Execute));
    assert_eq!(document.phases.execute.errors()[0].kind, "missing_output");
    assert_eq!(document.phases.express.status, PhaseStatus::Pending);
    assert_eq!(document.cycle_summary, None, "it would claim a success");
    let aside = &document.unknown[MIGRATED_FROM]["peer.spec.committer.cycle.1"];
    assert_eq!(aside["phases"]["express"]["output"]["summary"], "All is done");
    assert_eq!(aside["phases"]["review"]["output"]["quality_score"], 100);
    assert_eq!(aside["cycle_summary"]["completion"], 100);
    assert!(aside["phases"].get("plan").is_none_or(|plan| plan.get("output").is_none()), "{aside}");
}

#[test]
fn a_cycle_at_work_can_be_taken_up_where_it_was() {
    let document = document(G3, "peer:spec:user-auth:cycle:3");
    assert_eq!(document.position(), Position::Working(Phase::Execute));
    assert_eq!(document.phases.execute.output, Some(json!({"progress": "task 2"})));
    assert_eq!(document.phases.execute.errors()[0].message, "one attempt timed out");
    assert_eq!(document.context.user_requirements, "Do the tasks");
}

#[test]
fn a_cycle_that_is_past_a_phase_without_output_has_failed_there_whatever_it_calls_itself() {
    for status in
        ["EXECUTING", "execution_complete", "EXECUTION_FAILED", "REVIEWING", "review_complete", "COMPLETED"]
    {
        let (cycles, _) = migrate(&vec![("peer.spec.a.cycle.1.status".to_owned(), json!(status))]);
        assert_eq!(cycles[0].document.position(), Position::Failed(Phase::Plan), "{status}");
        assert_eq!(cycles[0].document.phases.plan.errors()[0].kind, "missing_output", "{status}");
    }
}

#[test]
fn errors_keep_what_else_they_say_and_their_time() {
    let document = document(G3, "peer:global:cycle:1");
    let error = &document.phases.execute.errors()[0];
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("git", "nothing to commit"));
    assert_eq!(error.timestamp.to_string(), "2025-08-06T13:09:00Z");
    assert_eq!(error.unknown["exit_code"], 1);
}

#[test]
fn times_that_are_still_to_come_are_written_as_now() {
    let error = json!({"message": "late", "timestamp": "2999-02-01T00:00:00Z"});
    let document = json!({"version": 1, "metadata": {"created_at": "2999-01-01T00:00:00Z", "status": "FAILED"},
        "phases": {"plan": {"status": "failed", "error": error}}});
    let (cycles, _) = migrate(&vec![("peer.global.cycle.1".to_owned(), document)]);
    let document = &cycles[0].document;
    assert_eq!((document.metadata.created_at, document.phases.plan.errors()[0].timestamp), (now(), now()));
    assert_eq!(
        document.unknown[MIGRATED_FROM]["peer.global.cycle.1"]["metadata"]["created_at"],
        "2999-01-01T00:00:00Z"
    );
}

#[test]
fn references_to_outputs_are_kept_as_outputs() {
    let document = document(G2, "peer:spec:feature-name:cycle:2");
    assert_eq!(document.phases.execute.output, Some(json!({"output_ref": "obj://peer/execute-2"})));
    assert_eq!(document.phases.plan.output.unwrap()["output_ref"], "obj://peer/plan-2");
}

#[test]
fn a_document_of_version_2_is_taken_as_it_is_and_what_is_older_is_left_out() {
    let current: Value = serde_json::from_str(CURRENT).unwrap();
    let mut dump = dump(G2, ".");
    dump.push(("peer:spec:feature-name:cycle:1".to_owned(), current.clone()));
    let (cycles, _) = migrate(&dump);
    assert_eq!((cycles[0].origin, cycles[1].origin), (Origin::Current, Origin::RunState));
    assert_eq!(cycles[0].document.to_value(), current);
    let left: Vec<_> = cycles[0].left_out.iter().map(|left| left.key.as_str()).collect();
    assert_eq!(left, ["peer.spec.feature-name.cycle.1"]);
}

#[test]
fn a_document_of_version_2_that_breaks_the_rules_is_put_together_anew() {
    let mut current: Value = serde_json::from_str(CURRENT).unwrap();
    current["phases"]["plan"]["status"] = json!("pending");
    let (cycles, _) = migrate(&vec![("peer:spec:feature-name:cycle:1".to_owned(), current)]);
    insta::assert_snapshot!(told(&cycles[0]), @"
    peer:spec:feature-name:cycle:1: plan failed
      initialized 10:00, plan started 10:00, plan failed 10:05, migrated 08:53
      error of plan: out_of_order: `plan` was still pending, but `execute` came after it
      reshaped: it is of version 2, but breaks F6, P1; it was put together anew [peer:spec:feature-name:cycle:1]
      failed: `plan` was still pending, but `execute` came after it
    ");
}

#[test]
fn the_latest_generation_that_says_something_is_believed() {
    let mut dump = dump(G1, ".");
    let g3 = json!({"version": 1, "metadata": {"instruction_name": "refine-spec", "status": "REVIEWING"}, "phases": {
        "plan": {"status": "completed"}, "execute": {"status": "completed"},
        "express": {"status": "completed"}, "review": {"status": "in_progress", "output": {"quality_score": 40}},
    }});
    dump.push(("peer.spec.login.cycle.1".to_owned(), g3));
    let (cycles, _) = migrate(&dump);
    insta::assert_snapshot!(told(&cycles[0]), @r#"
    peer:spec:login:cycle:1: review in_progress
      initialized 10:00, plan started 10:00, plan completed 10:00, execute started 10:00, execute completed 10:00, express started 10:00, express completed 10:00, review started 10:00, migrated 08:53
      overruled: the instruction is `"create-spec"` here, but `peer.spec.login.cycle.1` counts more [peer.spec.login.cycle.1.context.instruction_name]
      overruled: the instruction is `"create-spec"` here, but `peer.spec.login.cycle.1` counts more [peer.spec.login.cycle.1.metadata]
      overruled: the cycle's status is `"completed"` here, but `peer.spec.login.cycle.1` counts more [peer.spec.login.cycle.1.status]
      overruled: the cycle's status is `"completed"` here, but `peer.spec.login.cycle.1` counts more [peer.spec.login.cycle.1.completed_at]
      overruled: the cycle's status is `"initialized"` here, but `peer.spec.login.cycle.1` counts more [peer.spec.login.cycle.1.metadata]
      overruled: the status of `review` is `"completed"` here, but `peer.spec.login.cycle.1` counts more [peer.spec.login.cycle.1.phases.review]
      overruled: the output of `review` is `{"quality_score":88,"strengths":["small"…` here, but `peer.spec.login.cycle.1` counts more [peer.spec.login.cycle.1.review]
      reshaped: the output of `express`: it is no object; it became the field `formatted_output` of one
    "#);
    assert_eq!(cycles[0].document.metadata.status, CycleStatus::InProgress);
    let aside = &cycles[0].document.unknown[MIGRATED_FROM];
    assert_eq!(aside["peer.spec.login.cycle.1.review"], json!({"quality_score": 88, "strengths": ["small"]}));
}

#[test]
fn what_cannot_be_read_is_failed_and_kept() {
    let broken = "{\"version\": 1, \"metadata\": {\"stat";
    let (cycles, _) = migrate(&vec![("peer.spec.a.cycle.1".to_owned(), value_of(broken))]);
    insta::assert_snapshot!(told(&cycles[0]), @"
    peer:spec:a:cycle:1: plan failed
      initialized 08:53, plan failed 08:53, migrated 08:53
      error of plan: unreadable: `peer.spec.a.cycle.1` cannot be read, and nothing else says how far the cycle came
      unreadable: it should be a document, and is none [peer.spec.a.cycle.1]
      guessed: it does not say when it was created; now is written
      guessed: it does not say which instruction it was given
      failed: `peer.spec.a.cycle.1` cannot be read, and nothing else says how far the cycle came
    ");
    assert_eq!(cycles[0].document.unknown[MIGRATED_FROM]["peer.spec.a.cycle.1"], broken);
}

#[test]
fn cycles_that_each_instruction_counted_for_itself_get_numbers_that_are_free() {
    let cycle = |instruction: &str, number: u64, at: &str| {
        let value = json!({"instruction": instruction, "started_at": at, "phases": {}, "status": {"current_phase": "plan"}});
        (format!("peer.instruction.{instruction}.cycle.{number}"), value)
    };
    let mut dump = vec![
        cycle("plan-product", 1, "2025-08-04T10:00:00Z"),
        cycle("git-commit", 1, "2025-08-04T09:00:00Z"),
        cycle("git-commit", 2, "2025-08-04T11:00:00Z"),
    ];
    dump.extend(super::dump(G3, ".").into_iter().filter(|(key, _)| key == "peer.global.cycle.1"));
    let (cycles, _) = migrate(&dump);
    let instructions: Vec<_> =
        cycles.iter().map(|it| (it.cycle.number, it.document.metadata.instruction.as_str())).collect();
    assert_eq!(instructions, [(1, "git-commit"), (2, "git-commit"), (3, "git-commit"), (4, "plan-product")]);
    assert_eq!(cycles[2].notes.last().unwrap().message, "it was cycle 1 of `peer:instruction:git-commit`");
}

#[test]
fn the_temp_files_add_what_the_keys_do_not_say() {
    let files = [
        ("peer_args.txt", "INSTRUCTION=refine-spec\nCONTINUE_MODE=true\nX=$(id)\n"),
        ("peer_context.txt", "IS_SPEC_AWARE=true\nFINAL_SPEC_NAME=\"login\"\nKEY_PREFIX=peer.spec.login\n"),
        ("peer_cycle.txt", "CURRENT_CYCLE=3\nKEY_PREFIX=peer.spec.login\n"),
        ("determined_spec_name.txt", "login\n"),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), value_of(text)));
    let (cycles, _) = migrate(&dump(G1, ".").into_iter().chain(files.clone()).collect());
    let third = &cycles[2].document;
    assert_eq!(third.metadata.instruction, "refine-spec");
    assert_eq!(third.context.peer_mode.as_str(), "continue");
    insta::assert_snapshot!(told(&cycles[2]), @"
    peer:spec:login:cycle:3: plan failed
      initialized 11:05, plan failed 11:05, migrated 08:53
      error of plan: error: the instruction file cannot be read
      unreadable: line 3 is no plain assignment, and nothing is carried out [peer_args.txt]
      guessed: it does not say when it was created; the earliest time in it is written
    ");
    insta::assert_snapshot!(shown(&files.to_vec()), @"
    determined_spec_name.txt: it is about cycle 3 of `peer:spec:login`, which is not in the dump
    peer_args.txt: it is about cycle 3 of `peer:spec:login`, which is not in the dump
    peer_context.txt: it is about cycle 3 of `peer:spec:login`, which is not in the dump
    peer_cycle.txt: it is about cycle 3 of `peer:spec:login`, which is not in the dump
    ");
}

/// A bucket in use has both afterwards: the documents that were entered, and the old keys.
#[test]
fn a_cycle_of_an_instruction_that_was_entered_beside_its_old_keys_is_not_entered_again_under_another_number()
{
    for separator in [".", ":"] {
        let mut both = [G0, G1, G2, G3, NEVER_EXECUTED].map(|fixture| dump(fixture, separator)).concat();
        let (first, _) = migrate(&both);
        let of_instruction =
            format!("peer{separator}instruction{separator}plan-product{separator}cycle{separator}1");
        let entered =
            first.iter().find(|cycle| cycle.sources.iter().any(|source| source.key == of_instruction));
        assert_eq!(entered.unwrap().cycle.to_string(), "peer:global:cycle:3", "1 and 2 are taken");
        for cycle in &first {
            let value = cycle.document.to_value();
            match both.iter_mut().find(|(key, _)| *key == cycle.cycle.key()) {
                Some(item) => item.1 = value,
                None => both.push((cycle.cycle.key(), value)),
            }
        }
        let (second, _) = migrate(&both);
        let named = |cycles: &[Migrated]| cycles.iter().map(|cycle| cycle.cycle.clone()).collect::<Vec<_>>();
        assert_eq!(named(&second), named(&first));
        let again = second.iter().find(|cycle| cycle.cycle == entered.unwrap().cycle).unwrap();
        assert_eq!(again.document, entered.unwrap().document);
        assert_eq!(again.left_out[0].key, of_instruction, "it is known as old, so that it can be deleted");
    }
}
