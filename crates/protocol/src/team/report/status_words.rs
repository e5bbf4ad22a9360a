//! Status words of agents: a closed set per role, with aliases. The text must end with the word. Accepted are any
//! letter case, emoji, markup, and prose before the word if it ends like a sentence or a clause. Refused are an
//! unknown word, a condition, and two contradicting words.

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
pub(in crate::team) type Words<V> = &'static [(V, &'static [&'static str])];

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
    (PmWord::MoreWork, &["CONTINUE", "IN_PROGRESS", "REASSIGNING_FOR_FIXES", "ESCALATING_TO_TECH_LEAD"]),
    // The word with which the project manager of the original system declares the whole project complete.
    (PmWord::Complete, &["BAZINGA", "COMPLETE", "COMPLETE_BAZINGA"]),
];

/// Parses a status word. Fails with the reason and the words that are known.
pub(in crate::team) fn parse<V: Copy + PartialEq>(words: Words<V>, text: &str) -> Result<V, String> {
    let refused = |why: &str| {
        let canonical: Vec<_> = words.iter().filter_map(|(_, words)| words.first().copied()).collect();
        format!("`{}` {why}; use one of {}", text.trim(), canonical.join(", "))
    };
    let (tokens, rest) = tokens(text);
    let aliases = words.iter().flat_map(|(verdict, aliases)| aliases.iter().map(|alias| (*verdict, *alias)));
    let mut aliases: Vec<(V, Vec<&str>)> =
        aliases.map(|(verdict, alias)| (verdict, alias.split('_').collect())).collect();
    aliases.sort_by_key(|(_, alias)| std::cmp::Reverse(alias.len()));
    let is_alias = |tokens: &[Token], alias: &[&str]| {
        tokens.iter().map(|token| token.word.as_str()).eq(alias.iter().copied())
            && tokens.iter().skip(1).all(Token::continues)
    };
    let last_word = |tokens: &[Token]| {
        let found = aliases.iter().find(|(_, alias)| {
            tokens.len() >= alias.len() && is_alias(&tokens[tokens.len() - alias.len()..], alias)
        });
        found.map(|(verdict, alias)| (*verdict, tokens.len() - alias.len()))
    };
    // The last status word is the verdict. Any status word before it must mean the same.
    let all: Vec<_> = (1..=tokens.len()).filter_map(|end| last_word(&tokens[..end])).collect();
    let Some((verdict, from)) = last_word(&tokens) else {
        return Err(refused(match all.is_empty() {
            true => "is no status word",
            false => "does not say one status clearly",
        }));
    };
    let before = all.iter().filter(|(_, start)| *start < from);
    if before.clone().any(|(other, _)| *other != verdict) {
        return Err(refused("has two status words"));
    }
    let begins_clause = from == 0 || tokens[from].begins_clause();
    if !begins_clause || rest.contains('?') {
        return Err(refused("does not say one status clearly"));
    }
    Ok(verdict)
}

/// A word in upper case, with what is between it and the word before.
struct Token {
    gap: String,
    word: String,
}

impl Token {
    /// Returns whether the word belongs to the one before, as in `READY_FOR_QA`, `ready-for-qa` and `ready for qa`.
    fn continues(&self) -> bool {
        matches!(self.gap.trim(), "" | "_" | "-" | "+")
    }

    /// Returns whether a sentence or a clause ends before the word.
    fn begins_clause(&self) -> bool {
        let gap = &self.gap;
        gap.contains([':', '!', ';', '\n', '—', '–']) || gap.contains(". ") || gap.contains(" - ")
    }
}

/// Splits a text into words, and what follows the last one.
fn tokens(text: &str) -> (Vec<Token>, String) {
    let (mut tokens, mut token) = (Vec::new(), Token { gap: String::new(), word: String::new() });
    for c in text.to_uppercase().chars() {
        match (c.is_alphanumeric(), token.word.is_empty()) {
            (true, _) => token.word.push(c),
            (false, true) => token.gap.push(c),
            (false, false) => {
                let next = Token { gap: c.to_string(), word: String::new() };
                tokens.push(std::mem::replace(&mut token, next));
            }
        }
    }
    if token.word.is_empty() {
        return (tokens, token.gap);
    }
    tokens.push(token);
    (tokens, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_in_any_case_with_emoji_and_prose_before_it() {
        for text in [
            "READY_FOR_QA",
            "ready for qa",
            "✅ Ready-for-QA!",
            "Status: READY_FOR_QA",
            "**Status:** `READY_FOR_QA`",
            "12 of 12 pass. READY_FOR_QA",
            "12 of 12 pass\nREADY_FOR_QA\n",
        ] {
            assert_eq!(parse(DEVELOPER, text), Ok(DeveloperVerdict::ReadyForQa), "{text}");
        }
        assert_eq!(parse(QA, "PASS ✅"), Ok(QaVerdict::Pass));
        assert_eq!(parse(TECH_LEAD, "approved"), Ok(TechLeadWord::Approved));
        assert_eq!(parse(TECH_LEAD, "Looks good, no issues: APPROVED"), Ok(TechLeadWord::Approved));
        assert_eq!(parse(TECH_LEAD, "Clean and tested - APPROVED 🎉"), Ok(TechLeadWord::Approved));
        assert_eq!(parse(PM, "ESCALATING_TO_TECH_LEAD"), Ok(PmWord::MoreWork));
        assert_eq!(parse(PM, "planning complete"), Ok(PmWord::Planned));
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
            "READY_FOR_BAZINGA",
            "READY_FOR_BAZINGA or so",
            "PARTIALLY_COMPLETE",
            "90% COMPLETE",
            "BAZINGA once B is merged",
            "BAZINGA?",
            "CONTINUE. BAZINGA",
            "BAZINGA or CONTINUE",
            "we can say BAZINGA when B is merged",
        ] {
            assert!(parse(PM, text).is_err(), "{text} should be refused");
        }
        for text in ["PASS and FAIL", "BLOCKED: fail", "PASSING", "do not PASS"] {
            assert!(parse(QA, text).is_err(), "{text} should be refused");
        }
        for text in
            ["UN-APPROVED", "APPROVED if the SQL injection is fixed", "I would say APPROVED", "not approved"]
        {
            assert!(parse(TECH_LEAD, text).is_err(), "{text} should be refused");
        }
        assert!(parse(DEVELOPER, "APPROVED").is_err());
    }
}
