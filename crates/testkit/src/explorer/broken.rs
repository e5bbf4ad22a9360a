//! What exploration finds, and how it is told.

use std::fmt;

/// One rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule's name, as `docs/exploration.md` lists it.
    pub rule: &'static str,
    /// What was seen instead.
    pub what: String,
}

impl Broken {
    pub fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

/// A way into a state, or through a transition, where something is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CounterExample {
    /// Which definition it was found in.
    pub scene: String,
    pub broken: Vec<Broken>,
    /// Each input, and the state after it; the first is how the run opens.
    pub path: Vec<(String, String)>,
}

impl fmt::Display for CounterExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Broken { rule, what } in &self.broken {
            writeln!(f, "`{rule}` is broken: {what}")?;
        }
        writeln!(f, "in `{}`, on this path:", self.scene)?;
        let width = self.path.iter().map(|(input, _)| input.chars().count()).max().unwrap_or(0);
        for (number, (input, state)) in self.path.iter().enumerate() {
            writeln!(f, "{number:>4}  {input:<width$}  {state}")?;
        }
        Ok(())
    }
}
