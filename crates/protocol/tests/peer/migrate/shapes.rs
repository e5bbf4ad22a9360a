//! Each generation of the format (the table in `docs/peer.md`), with dots and with colons as separators of keys.

use protocol::peer::migrate::MIGRATED_FROM;
use protocol::peer::{Document, Phase, PhaseStatus, StatusWithPhase};
use serde_json::json;

use super::*;

/// The summary of a fixture, which must be the same for both separators.
fn summaries(fixture: &str) -> String {
    let [dots, colons] = [".", ":"].map(|separator| {
        let (cycles, skipped) = migrate(&dump(fixture, separator));
        let skipped = skipped.iter().map(|SkippedKey { key, why, .. }| format!("{key}: {why}"));
        cycles.iter().map(summary).chain(skipped).collect::<Vec<_>>().join("\n")
    });
    let without_separators = |text: &str| text.replace(['.', ':'], "");
    assert_eq!(without_separators(&dots), without_separators(&colons));
    dots
}

fn document(fixture: &str, cycle: &str) -> Document {
    let (cycles, _) = migrate(&dump(fixture, "."));
    cycles.into_iter().find(|migrated| migrated.cycle.to_string() == cycle).unwrap().document
}

#[test]
fn generation_0_has_a_meta_key_and_a_document_per_cycle() {
    insta::assert_snapshot!(summaries(G0), @"
    peer:spec:password-reset:cycle:1: completed
      initialized 10:00, plan started 10:00, plan completed 10:00, execute started 10:00, execute completed 10:00, express started 10:00, express completed 10:00, review started 10:00, review completed 10:00, completed 10:30, migrated 08:53
      converted: output of `plan`: it has no valid `phases`; a placeholder was added
      converted: output of `plan`: it has no valid `success_criteria`; a placeholder was added
    peer:spec:password-reset:cycle:2: execute in_progress
      initialized 11:00, plan started 11:00, plan completed 11:00, execute started 11:00, migrated 08:53
      converted: output of `plan`: `phases` is invalid and was renamed to `phases_as_found`
      converted: output of `plan`: it has no valid `phases`; a placeholder was added
    peer:spec:password-reset:cycle:3: execute failed
      initialized 12:00, plan started 12:00, plan completed 12:00, execute failed 12:20, migrated 08:53
      error of execute: error: the disk is full
      converted: output of `plan`: `phases` is invalid and was renamed to `phases_as_found`
      converted: output of `plan`: it has no valid `phases`; a placeholder was added
    peer:global:cycle:1: plan in_progress
      initialized 09:00, plan started 09:00, migrated 08:53
      converted: it was cycle 1 of `peer:instruction:plan-product`
    peer.spec.password-reset.meta: its entries were read for cycle 1, 2
    ");
}

#[test]
fn generation_1_has_a_key_per_value() {
    insta::assert_snapshot!(summaries(G1), @"
    peer:spec:login:cycle:1: completed
      initialized 10:00, plan started 10:00, plan completed 10:00, execute started 10:00, execute completed 10:00, express started 10:00, express completed 10:00, review started 10:00, review completed 10:00, completed 10:40, migrated 08:53
      converted: output of `express`: it is not an object and became the field `formatted_output`
    peer:spec:login:cycle:2: plan completed
      initialized 08:53, plan started 08:53, plan completed 08:53, migrated 08:53
      assumed: no key says when it was created; the current time was used
      assumed: no key names its instruction; it became `unknown`
    peer:spec:login:cycle:3: plan failed
      initialized 11:05, plan failed 11:05, migrated 08:53
      error of plan: error: the instruction file cannot be read
      assumed: no key says when it was created; its earliest time was used
      assumed: no key names its instruction; it became `unknown`
    peer:spec:login:cycle:4: plan failed
      initialized 08:53, plan started 08:53, plan failed 08:53, migrated 08:53
      error of plan: missing_output: `plan` is marked completed, but has no output
      assumed: no key says when it was created; the current time was used
      assumed: no key names its instruction; it became `unknown`
      failed: `plan` is marked completed, but has no output
    peer:spec:login:cycle:5: plan in_progress
      initialized 12:00, plan started 12:00, migrated 08:53
    peer.spec.login.cycle.current: a pointer to the newest cycle, which is found by listing them
    ");
    let document = document(G1, "peer:spec:login:cycle:2");
    assert_eq!(document.context.peer_mode.as_str(), "continue");
    assert_eq!(document.context.user_requirements, "  Log in with a key\n");
}

#[test]
fn generation_2_has_a_document_with_a_schema_version() {
    insta::assert_snapshot!(summaries(G2), @"
    peer:spec:feature-name:cycle:1: execute failed
      initialized 10:00, plan started 10:00, plan completed 10:05, execute started 10:05, execute failed 10:15, migrated 08:53
      error of execute: error: Permission denied
    peer:spec:feature-name:cycle:2: express in_progress
      initialized 11:00, plan started 11:00, plan completed 11:00, execute started 11:00, execute completed 11:00, express started 11:30, migrated 08:53
      converted: output of `plan`: it has no valid `phases`; a placeholder was added
      converted: output of `plan`: it has no valid `success_criteria`; a placeholder was added
    peer.events.peer.spec.feature-name.cycle.1: an event; the documents have its content
    ");
    let document = document(G2, "peer:spec:feature-name:cycle:2");
    assert_eq!(document.phases.execute.output, Some(json!({"output_ref": "obj://peer/execute-2"})));
    assert_eq!(document.phases.plan.output.unwrap()["output_ref"], "obj://peer/plan-2");
}

#[test]
fn generation_3_has_a_document_of_version_1() {
    insta::assert_snapshot!(summaries(G3), @"
    peer:spec:user-auth:cycle:1: completed
      initialized 10:00, plan started 10:00, plan completed 10:05, execute started 10:05, execute completed 10:20, express started 10:20, express completed 10:30, review started 10:30, review completed 10:40, completed 10:40, migrated 08:53
      converted: output of `plan`: `phases` is invalid and was renamed to `phases_as_found`
      converted: output of `plan`: it has no valid `phases`; a placeholder was added
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
    peer.spec.user-auth.cycle.current: a pointer to the newest cycle, which is found by listing them
    ");
    let working = document(G3, "peer:spec:user-auth:cycle:3");
    assert_eq!(working.phases.execute.output, Some(json!({"progress": "task 2"})));
    assert_eq!(working.context.user_requirements, "Do the tasks");
    let failed = document(G3, "peer:global:cycle:1");
    let error = &failed.phases.execute.errors()[0];
    assert_eq!(
        (error.timestamp.to_string().as_str(), &error.unknown["exit_code"]),
        ("2025-08-06T13:09:00Z", &json!(1))
    );
}

#[test]
fn keys_of_no_cycle_are_skipped_with_the_reason() {
    insta::assert_snapshot!(summaries(KEYS_OF_NO_CYCLE), @"
    peer.commit.2025.08.13.19.00: the plan of a commit, not a cycle
    peer.context.current_execution.instruction: existed only while a cycle ran
    peer.global.next_cycle: a counter; the next number is found by listing the cycles
    peer.locks.create-spec.login: a lock
    somebody.elses: not a key of a cycle
    ");
}

#[test]
fn a_completed_cycle_without_execution_becomes_failed_and_later_outputs_are_preserved() {
    insta::assert_snapshot!(summaries(NEVER_EXECUTED), @"
    peer:spec:committer:cycle:1: execute failed
      initialized 10:00, plan started 10:00, plan completed 10:00, execute failed 10:30, migrated 08:53
      error of execute: missing_output: the cycle is marked completed, but `execute` has no output
      failed: the cycle is marked completed, but `execute` has no output
    ");
    let document = document(NEVER_EXECUTED, "peer:spec:committer:cycle:1");
    assert_eq!(document.phases.execute.errors()[0].kind, "missing_output");
    assert_eq!(document.phases.express.status, PhaseStatus::Pending);
    assert_eq!(document.cycle_summary, None, "it would report a success");
    let preserved = &document.unknown[MIGRATED_FROM]["peer.spec.committer.cycle.1"];
    assert_eq!(preserved["phases"]["express"]["output"]["summary"], "All is done");
    assert_eq!(preserved["cycle_summary"]["completion"], 100);
    assert!(preserved["phases"].get("plan").is_none_or(|plan| plan.get("output").is_none()), "{preserved}");
}

#[test]
fn a_cycle_whose_status_is_beyond_a_phase_without_output_failed_in_that_phase() {
    for status in
        ["EXECUTING", "execution_complete", "EXECUTION_FAILED", "REVIEWING", "review_complete", "COMPLETED"]
    {
        let (cycles, _) = migrate(&vec![("peer.spec.a.cycle.1.status".to_owned(), json!(status))]);
        assert_eq!(cycles[0].document.status_with_phase(), StatusWithPhase::Failed(Phase::Plan), "{status}");
        assert_eq!(cycles[0].document.phases.plan.errors()[0].kind, "missing_output", "{status}");
    }
}

#[test]
fn a_time_in_the_future_becomes_the_current_time() {
    let error = json!({"message": "late", "timestamp": "2999-02-01T00:00:00Z"});
    let old = json!({"version": 1, "metadata": {"created_at": "2999-01-01T00:00:00Z", "status": "FAILED"},
        "phases": {"plan": {"status": "failed", "error": error}}});
    let (cycles, _) = migrate(&vec![("peer.global.cycle.1".to_owned(), old.clone())]);
    let document = &cycles[0].document;
    assert_eq!((document.metadata.created_at, document.phases.plan.errors()[0].timestamp), (now(), now()));
    let preserved = &document.unknown[MIGRATED_FROM]["peer.global.cycle.1"];
    assert_eq!(preserved["metadata"]["created_at"], old["metadata"]["created_at"]);
}

#[test]
fn a_valid_document_of_version_2_is_taken_and_older_keys_are_superseded() {
    let current: Value = serde_json::from_str(CURRENT).unwrap();
    let mut dump = dump(G2, ".");
    dump.push(("peer:spec:feature-name:cycle:1".to_owned(), current.clone()));
    let (cycles, _) = migrate(&dump);
    assert_eq!((cycles[0].origin, cycles[1].origin), (Origin::Current, Origin::Migrated));
    assert_eq!(cycles[0].document.to_value(), current);
    let superseded: Vec<_> = cycles[0].superseded.iter().map(|key| key.key.as_str()).collect();
    assert_eq!(superseded, ["peer.spec.feature-name.cycle.1"]);
}

#[test]
fn an_invalid_document_of_version_2_is_rebuilt() {
    let mut current: Value = serde_json::from_str(CURRENT).unwrap();
    current["phases"]["plan"]["status"] = json!("pending");
    let (cycles, _) = migrate(&vec![("peer:spec:feature-name:cycle:1".to_owned(), current)]);
    let MigratedCycle { document, notes, .. } = &cycles[0];
    assert_eq!(document.status_with_phase(), StatusWithPhase::Failed(Phase::Plan));
    assert_eq!(document.phases.plan.errors()[0].kind, "out_of_order");
    assert_eq!(notes[0].message, "the document of version 2 breaks F6, P1; it was rebuilt");
}

#[test]
fn a_document_takes_precedence_over_keys_and_archives_which_are_preserved() {
    let mut dump = dump(G1, ".");
    let document = json!({"version": 1, "metadata": {"status": "INITIALIZED"}, "phases": {"plan": {"status": "pending"}}});
    let archived = json!({"instruction": "refine-spec", "status": {"current_phase": "complete"}});
    dump.push(("peer.spec.login.cycle.1".to_owned(), document));
    dump.push(("peer.spec.login.archive.cycle.1".to_owned(), archived.clone()));
    let (cycles, _) = migrate(&dump);
    assert_eq!(cycles[0].document.status_with_phase(), StatusWithPhase::Initialized);
    let read: Vec<_> =
        cycles[0].sources.iter().filter(|source| source.read).map(|source| source.key.as_str()).collect();
    assert_eq!(read, ["peer.spec.login.cycle.1"]);
    let preserved = &cycles[0].document.unknown[MIGRATED_FROM];
    assert_eq!(
        preserved["peer.spec.login.cycle.1.review"],
        json!({"quality_score": 88, "strengths": ["small"]})
    );
    assert_eq!(preserved["peer.spec.login.archive.cycle.1"], archived);
}

#[test]
fn a_truncated_document_becomes_failed_and_its_text_is_preserved() {
    let broken = "{\"version\": 1, \"metadata\": {\"stat";
    let (cycles, _) = migrate(&vec![("peer.spec.a.cycle.1".to_owned(), parse_json_or_text(broken))]);
    assert_eq!(cycles[0].document.phases.plan.errors()[0].kind, "unreadable");
    assert_eq!(cycles[0].document.unknown[MIGRATED_FROM]["peer.spec.a.cycle.1"], broken);
}

#[test]
fn cycles_of_an_instruction_get_free_numbers() {
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

/// A migration into the bucket of the old keys does not delete them, so the bucket then has both them and the documents.
#[test]
fn a_cycle_of_an_instruction_keeps_its_number_when_it_is_migrated_again() {
    for separator in [".", ":"] {
        let mut both = [G0, G1, G2, G3, NEVER_EXECUTED].map(|fixture| dump(fixture, separator)).concat();
        let (first, _) = migrate(&both);
        let old_key = ["peer", "instruction", "plan-product", "cycle", "1"].join(separator);
        let migrated =
            first.iter().find(|cycle| cycle.sources.iter().any(|source| source.key == old_key)).unwrap();
        assert_eq!(migrated.cycle.to_string(), "peer:global:cycle:3", "1 and 2 are taken");
        for cycle in &first {
            both.retain(|(key, _)| *key != cycle.cycle.key());
            both.push((cycle.cycle.key(), cycle.document.to_value()));
        }
        let (second, _) = migrate(&both);
        let ids =
            |cycles: &[MigratedCycle]| cycles.iter().map(|cycle| cycle.cycle.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&second), ids(&first));
        let again = second.iter().find(|cycle| cycle.cycle == migrated.cycle).unwrap();
        assert_eq!(again.document, migrated.document);
        assert_eq!(again.superseded[0].key, old_key, "it is known as old, so that it can be deleted");
    }
}
