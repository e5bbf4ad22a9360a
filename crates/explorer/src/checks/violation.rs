//! What an exploration finds, and how it is printed.

use std::fmt;

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule's name, as `docs/exploration.md` lists it.
    pub rule: &'static str,
    /// What was seen instead.
    pub what: String,
}

impl Violation {
    pub fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

/// A path to a state or a transition that violates a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CounterExample {
    /// The name of the model it was found in.
    pub model: String,
    pub violations: Vec<Violation>,
    /// Each input with the state after it; the first is the start of the run.
    pub path: Vec<(String, String)>,
}

impl fmt::Display for CounterExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Violation { rule, what } in &self.violations {
            writeln!(f, "rule violated: {rule}: {what}")?;
        }
        writeln!(f, "in `{}`, on this path:", self.model)?;
        let width = self.path.iter().map(|(input, _)| input.chars().count()).max().unwrap_or(0);
        for (number, (input, state)) in self.path.iter().enumerate() {
            writeln!(f, "{number:>4}  {input:<width$}  {state}")?;
        }
        Ok(())
    }
}
