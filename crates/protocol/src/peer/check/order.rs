//! P1 to P5: the order of phases, and the cycle's status beside it.

use super::parsed::{Facts, PhaseFacts};
use crate::check::{At, Findings};
use crate::peer::document::{CycleStatus, Phase, PhaseStatus};

pub(super) fn check(at: &At, facts: &Facts, findings: &mut Findings) {
    for (rule, before) in [("P1", Phase::Plan), ("P2", Phase::Execute), ("P3", Phase::Express)] {
        if let Some(after) = before.next() {
            check_pair(at, rule, facts.phase(before), facts.phase(after), findings);
        }
    }
    check_current(at, facts, findings);
    check_status(at, facts, findings);
}

/// P1 to P3: one phase completes before the next starts.
fn check_pair(at: &At, rule: &'static str, before: &PhaseFacts, after: &PhaseFacts, findings: &mut Findings) {
    let (Some(first), Some(second)) = (before.status, after.status) else { return };
    let at = at.field("phases").field(after.phase.as_str());
    if second == PhaseStatus::Pending {
        return;
    }
    if first != PhaseStatus::Completed {
        let message = format!(
            "`{}` is {}, but `{}` before it is {}",
            after.phase,
            second.as_str(),
            before.phase,
            first.as_str()
        );
        let repair = format!("`{}` must be completed first", before.phase);
        return findings.add(rule, &at.field("status"), message, repair);
    }
    if let (Some(complete), Some(start)) = (before.complete, after.start)
        && complete >= start
    {
        let message = format!(
            "`{}` started in write {start}, but `{}` completed in {complete}",
            after.phase, before.phase
        );
        let repair = format!("the start of `{}` is a later write", after.phase);
        findings.add(rule, &at.field("sequence_at_start"), message, repair);
    }
}

/// P4: at most one phase is in progress, and `current_phase` is where the cycle is.
fn check_current(at: &At, facts: &Facts, findings: &mut Findings) {
    let working: Vec<_> = facts.phases.iter().filter(|phase| phase.is(PhaseStatus::InProgress)).collect();
    if let [_, second, ..] = working[..] {
        let at = at.field("phases").field(second.phase.as_str()).field("status");
        let names: Vec<_> = working.iter().map(|phase| format!("`{}`", phase.phase)).collect();
        let message = format!("{} are in progress at once", names.join(" and "));
        return findings.add("P4", &at, message, "only one phase works at a time");
    }
    let Some(current) = facts.current else { return };
    // Who cannot be read may be anywhere.
    if facts.phases.iter().any(|phase| phase.status.is_none()) {
        return;
    }
    let started = facts.phases.iter().rev().find(|phase| match phase.status {
        Some(PhaseStatus::InProgress | PhaseStatus::Completed) => true,
        Some(PhaseStatus::Failed) => phase.start.is_some(),
        Some(PhaseStatus::Pending) | None => false,
    });
    let last = started.map_or(Phase::Plan, |phase| phase.phase);
    // A phase that failed before it started was not current, but may well be called so.
    let failed = facts.phases.iter().any(|phase| phase.is(PhaseStatus::Failed) && phase.phase == current);
    if current != last && !failed {
        let at = at.field("metadata").field("current_phase");
        let message = match working.first() {
            Some(working) => format!("{} is `{current}`, but `{}` is in progress", at.owner, working.phase),
            None => format!("{} is `{current}`, but the last that started is `{last}`", at.owner),
        };
        findings.add("P4", &at, message, format!("write `{last}`"));
    }
}

/// P5: the cycle's status agrees with its phases.
fn check_status(at: &At, facts: &Facts, findings: &mut Findings) {
    let Some(status) = facts.status else { return };
    if facts.phases.iter().any(|phase| phase.status.is_none()) {
        return;
    }
    let [pending, working, completed, failed] = PhaseStatus::ALL.map(|status| facts.count(status));
    let wrong = match status {
        CycleStatus::Initialized if pending < 4 => Some("a phase is no longer pending"),
        CycleStatus::InProgress if failed > 0 => Some("a phase has failed"),
        CycleStatus::InProgress if pending == 4 => Some("no phase has started"),
        CycleStatus::Completed if completed < 4 => Some("not all phases are completed"),
        CycleStatus::Failed if failed == 0 => Some("no phase has failed"),
        CycleStatus::Failed if failed > 1 => Some("more than one phase has failed"),
        CycleStatus::Failed if working > 0 => Some("a phase is in progress"),
        CycleStatus::Initialized | CycleStatus::InProgress | CycleStatus::Completed | CycleStatus::Failed => {
            None
        }
    };
    if let Some(wrong) = wrong {
        let right = if failed > 0 {
            CycleStatus::Failed
        } else if pending == 4 {
            CycleStatus::Initialized
        } else {
            CycleStatus::InProgress
        };
        let at = at.field("metadata").field("status");
        let message = format!("{} is {}, but {wrong}", at.owner, status.as_str());
        let repair = if right == status {
            "correct the phases".to_owned()
        } else {
            format!("write `{}`, or correct the phases", right.as_str())
        };
        findings.add("P5", &at, message, repair);
    }
}
