//! P1 to P5: the order of phases, and the status of the cycle. `docs/peer.md` lists the rules.

use super::parsed::{ParsedDocument, ParsedPhase};
use crate::check::{Location, ViolationCollector};
use crate::peer::document::{PeerCycleStatus, Phase, PhaseStatus};

pub(super) fn check(at: &Location, document: &ParsedDocument, findings: &mut ViolationCollector) {
    for (rule, before) in [("P1", Phase::Plan), ("P2", Phase::Execute), ("P3", Phase::Express)] {
        if let Some(after) = before.next() {
            check_pair(at, rule, document.phase(before), document.phase(after), findings);
        }
    }
    check_current(at, document, findings);
    check_status(at, document, findings);
}

/// P1 to P3: one phase completes before the next starts.
fn check_pair(
    at: &Location,
    rule: &'static str,
    before: &ParsedPhase,
    after: &ParsedPhase,
    findings: &mut ViolationCollector,
) {
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

/// P4: at most one phase is in progress, and `current_phase` is right.
fn check_current(at: &Location, document: &ParsedDocument, findings: &mut ViolationCollector) {
    let in_progress: Vec<_> =
        document.phases.iter().filter(|phase| phase.is(PhaseStatus::InProgress)).collect();
    if let [_, second, ..] = in_progress[..] {
        let at = at.field("phases").field(second.phase.as_str()).field("status");
        let names: Vec<_> = in_progress.iter().map(|phase| format!("`{}`", phase.phase)).collect();
        let message = format!("{} are in progress at once", names.join(" and "));
        return findings.add("P4", &at, message, "only one phase may be in progress");
    }
    let Some(current) = document.current else { return };
    // A phase whose status cannot be parsed may be the current one.
    if document.phases.iter().any(|phase| phase.status.is_none()) {
        return;
    }
    let started = document.phases.iter().rev().find(|phase| match phase.status {
        Some(PhaseStatus::InProgress | PhaseStatus::Completed) => true,
        Some(PhaseStatus::Failed) => phase.start.is_some(),
        Some(PhaseStatus::Pending) | None => false,
    });
    let last = started.map_or(Phase::Plan, |phase| phase.phase);
    // A phase that failed before it started may be called current, too.
    let failed = document.phases.iter().any(|phase| phase.is(PhaseStatus::Failed) && phase.phase == current);
    if current != last && !failed {
        let at = at.field("metadata").field("current_phase");
        let message = match in_progress.first() {
            Some(other) => format!("{} is `{current}`, but `{}` is in progress", at.name, other.phase),
            None => format!("{} is `{current}`, but the last that started is `{last}`", at.name),
        };
        findings.add("P4", &at, message, format!("write `{last}`"));
    }
}

/// P5: the cycle's status agrees with its phases.
fn check_status(at: &Location, document: &ParsedDocument, findings: &mut ViolationCollector) {
    let Some(status) = document.status else { return };
    if document.phases.iter().any(|phase| phase.status.is_none()) {
        return;
    }
    let [pending, in_progress, completed, failed] =
        PhaseStatus::ALL.map(|status| document.count_phases(status));
    let wrong = match status {
        PeerCycleStatus::Initialized if pending < 4 => Some("a phase is no longer pending"),
        PeerCycleStatus::InProgress if failed > 0 => Some("a phase has failed"),
        PeerCycleStatus::InProgress if pending == 4 => Some("no phase has started"),
        PeerCycleStatus::Completed if completed < 4 => Some("not all phases are completed"),
        PeerCycleStatus::Failed if failed == 0 => Some("no phase has failed"),
        PeerCycleStatus::Failed if failed > 1 => Some("more than one phase has failed"),
        PeerCycleStatus::Failed if in_progress > 0 => Some("a phase is in progress"),
        PeerCycleStatus::Initialized
        | PeerCycleStatus::InProgress
        | PeerCycleStatus::Completed
        | PeerCycleStatus::Failed => None,
    };
    if let Some(wrong) = wrong {
        let right = if failed > 0 {
            PeerCycleStatus::Failed
        } else if pending == 4 {
            PeerCycleStatus::Initialized
        } else {
            PeerCycleStatus::InProgress
        };
        let at = at.field("metadata").field("status");
        let message = format!("{} is {}, but {wrong}", at.name, status.as_str());
        let repair = if right == status {
            "correct the phases".to_owned()
        } else {
            format!("write `{}`, or correct the phases", right.as_str())
        };
        findings.add("P5", &at, message, repair);
    }
}
