//! Status words of agents: a closed set per role, with aliases. Any letter case and emoji are accepted, and prose before the
//! word or after it, but not on both sides. A negation, an unknown word or two contradicting words are refused.

use super::super::step::{DeveloperVerdict, QaVerdict};

/// The word of a tech lead. The verdict adds how many blocking issues the report lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::team) enum TechLeadWord {
    Approved,
    ChangesRequested,
    Unblocked,
}

/// The word of a project manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::team) enum PmWord {
    Planned,
    MoreWork,
    Complete,
}

/// The words of one role, by verdict: the canonical word, then its aliases.
type Words<V> = &'static [(V, &'static [&'static str])];

pub(in crate::team) const DEVELOPER: Words<DeveloperVerdict> = &[
    (DeveloperVerdict::ReadyForQa, &["READY_FOR_QA", "READY_FOR_TESTING"]),
    (DeveloperVerdict::ReadyForReview, &["READY_FOR_REVIEW"]),
    (
        DeveloperVerdict::Blocked,
        &["BLOCKED", "INCOMPLETE", "PARTIAL", "NEEDS_TECH_LEAD_VALIDATION", "ERROR", "ESCALATE_SENIOR"],
    ),
];

pub(in crate::team) const QA: Words<QaVerdict> = &[
    (QaVerdict::Pass, &["PASS", "PASSED"]),
    (QaVerdict::Fail, &["FAIL", "FAILED", "FAIL_ESCALATE", "PARTIAL"]),
    (QaVerdict::Blocked, &["BLOCKED"]),
    (QaVerdict::Flaky, &["FLAKY"]),
];

pub(in crate::team) const TECH_LEAD: Words<TechLeadWord> = &[
    (TechLeadWord::Approved, &["APPROVED", "APPROVED_WITH_NOTES"]),
    (TechLeadWord::ChangesRequested, &["CHANGES_REQUESTED"]),
    (TechLeadWord::Unblocked, &["UNBLOCKED", "UNBLOCKING_GUIDANCE_PROVIDED", "ARCHITECTURAL_DECISION_MADE"]),
];

pub(in crate::team) const PM: Words<PmWord> = &[
    (PmWord::Planned, &["PLANNING_COMPLETE"]),
    (PmWord::MoreWork, &["CONTINUE", "IN_PROGRESS", "REASSIGNING_FOR_FIXES"]),
    // The word with which the original's project manager declares the whole project complete.
    (PmWord::Complete, &["BAZINGA", "COMPLETE"]),
];

/// Words that turn a status into its opposite or postpone it.
const NEGATIONS: [&str; 14] = [
    "NOT", "NO", "NEVER", "CANNOT", "CAN'T", "ISN'T", "DON'T", "WON'T", "YET", "UNTIL", "BEFORE", "ALMOST",
    "WITHOUT", "NEARLY",
];

/// Parses a status word. Fails with the reason and the words that are known.
pub(in crate::team) fn parse<V: Copy + PartialEq>(words: Words<V>, text: &str) -> Result<V, String> {
    let known = || {
        let canonical: Vec<_> = words.iter().filter_map(|(_, words)| words.first().copied()).collect();
        canonical.join(", ")
    };
    let tokens = tokens(text);
    let found = occurrences(words, &tokens);
    let Some(first) = found.first() else {
        return Err(format!("`{}` is no status word; use one of {}", text.trim(), known()));
    };
    if found.iter().any(|other| other.verdict != first.verdict) {
        return Err(format!("`{}` has two status words; use one of {}", text.trim(), known()));
    }
    let at_edge = found.iter().any(|found| found.from == 0 || found.to == tokens.len());
    let is_negated = tokens.iter().any(|token| NEGATIONS.contains(&token.as_str()));
    if is_negated || !at_edge {
        return Err(format!("`{}` does not say one status clearly; use one of {}", text.trim(), known()));
    }
    Ok(first.verdict)
}

struct Occurrence<V> {
    verdict: V,
    from: usize,
    to: usize,
}

/// Finds every status word that is not part of a longer one.
fn occurrences<V: Copy>(words: Words<V>, tokens: &[String]) -> Vec<Occurrence<V>> {
    let mut aliases: Vec<(V, Vec<&str>)> = words
        .iter()
        .flat_map(|(verdict, aliases)| aliases.iter().map(|alias| (*verdict, alias.split('_').collect())))
        .collect();
    aliases.sort_by_key(|(_, alias)| std::cmp::Reverse(alias.len()));
    let mut found = Vec::new();
    let mut from = 0;
    while from < tokens.len() {
        let here = aliases.iter().find(|(_, alias)| {
            tokens[from..].len() >= alias.len() && alias.iter().zip(&tokens[from..]).all(|(a, b)| a == b)
        });
        match here {
            Some((verdict, alias)) => {
                let to = from + alias.len();
                found.push(Occurrence { verdict: *verdict, from, to });
                from = to;
            }
            None => from += 1,
        }
    }
    found
}

fn tokens(text: &str) -> Vec<String> {
    let text = text.to_uppercase().replace('’', "'");
    let tokens = text.split(|c: char| !(c.is_alphanumeric() || c == '\''));
    tokens.filter(|token| !token.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_in_any_case_with_emoji_and_prose_around_it() {
        for text in [
            "READY_FOR_QA",
            "ready for qa",
            "✅ Ready-for-QA!",
            "Status: READY_FOR_QA",
            "READY_FOR_QA. 12 of 12",
        ] {
            assert_eq!(parse(DEVELOPER, text), Ok(DeveloperVerdict::ReadyForQa), "{text}");
        }
        assert_eq!(parse(QA, "PASS ✅"), Ok(QaVerdict::Pass));
        assert_eq!(parse(TECH_LEAD, "approved"), Ok(TechLeadWord::Approved));
        assert_eq!(parse(TECH_LEAD, "architectural_decision_made"), Ok(TechLeadWord::Unblocked));
        assert_eq!(parse(PM, "COMPLETE + BAZINGA"), Ok(PmWord::Complete));
    }

    #[test]
    fn an_unclear_word_is_refused() {
        for text in [
            "",
            "DONE",
            "not BAZINGA yet",
            "BAZINGA is not reached",
            "almost BAZINGA",
            "READY_FOR_BAZINGA or so",
            "BAZINGA or CONTINUE",
            "we can say BAZINGA when B is merged",
        ] {
            assert!(parse(PM, text).is_err(), "{text} should be refused");
        }
        for text in ["PASS and FAIL", "BLOCKED: fail", "PASSING", "do not PASS"] {
            assert!(parse(QA, text).is_err(), "{text} should be refused");
        }
        assert!(parse(DEVELOPER, "APPROVED").is_err());
    }
}
