//! What a cycle can be asked to do, and which spec that is about.

use std::fmt;
use std::str::FromStr;

use super::{Scope, SpecName};
use crate::closest;

/// What a cycle is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instruction {
    CreateSpec,
    ExecuteTasks,
    RefineSpec,
    AnalyzeProduct,
    PlanProduct,
    GitCommit,
}

/// Where the scope of a new cycle comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scoping {
    Known(Scope),
    /// The spec whose folder has the newest date: whoever sees the repository finds it.
    NewestSpec,
}

/// Why an instruction has no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoScope {
    #[error("`{0}` needs an existing spec")]
    SpecNeeded(Instruction),
    #[error("`{0}` takes no spec: it is about the whole repository")]
    SpecNotTaken(Instruction),
}

/// A word that is no instruction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not an instruction")]
pub struct UnknownInstruction {
    pub word: String,
    /// What was probably meant.
    pub meant: Option<Instruction>,
}

impl Instruction {
    pub const ALL: [Self; 6] = [
        Self::CreateSpec,
        Self::ExecuteTasks,
        Self::RefineSpec,
        Self::AnalyzeProduct,
        Self::PlanProduct,
        Self::GitCommit,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateSpec => "create-spec",
            Self::ExecuteTasks => "execute-tasks",
            Self::RefineSpec => "refine-spec",
            Self::AnalyzeProduct => "analyze-product",
            Self::PlanProduct => "plan-product",
            Self::GitCommit => "git-commit",
        }
    }

    /// What a new cycle is about, from the name that was given, if one was, and the requirements.
    pub fn scope(self, spec: Option<SpecName>, requirements: &str) -> Result<Scoping, NoScope> {
        match self {
            Self::CreateSpec => Ok(Scoping::Known(match spec {
                Some(spec) => Scope::Spec(spec),
                None => Scope::derived(requirements),
            })),
            Self::ExecuteTasks => Ok(match spec {
                Some(spec) => Scoping::Known(Scope::Spec(spec)),
                None => Scoping::NewestSpec,
            }),
            Self::RefineSpec => match spec {
                Some(spec) => Ok(Scoping::Known(Scope::Spec(spec))),
                None => Err(NoScope::SpecNeeded(self)),
            },
            Self::AnalyzeProduct => Ok(Scoping::Known(spec.map_or(Scope::Global, Scope::Spec))),
            Self::PlanProduct | Self::GitCommit => match spec {
                Some(_) => Err(NoScope::SpecNotTaken(self)),
                None => Ok(Scoping::Known(Scope::Global)),
            },
        }
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Instruction {
    type Err = UnknownInstruction;

    fn from_str(word: &str) -> Result<Self, UnknownInstruction> {
        let named = |name: &str| Self::ALL.into_iter().find(|instruction| instruction.as_str() == name);
        named(word).ok_or_else(|| UnknownInstruction {
            word: word.to_owned(),
            meant: closest(word, Self::ALL.map(Self::as_str)).and_then(named),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_prints_as_it_parses_and_a_slip_is_recognised() {
        for instruction in Instruction::ALL {
            assert_eq!(instruction.to_string().parse(), Ok(instruction));
        }
        let slip = "create-spce".parse::<Instruction>().unwrap_err();
        assert_eq!(
            (slip.to_string().as_str(), slip.meant),
            ("`create-spce` is not an instruction", Some(Instruction::CreateSpec))
        );
        assert_eq!("deploy".parse::<Instruction>().unwrap_err().meant, None);
    }

    #[test]
    fn each_instruction_knows_what_it_is_about() {
        let spec = || SpecName::new("login").unwrap();
        let about = || Ok(Scoping::Known(Scope::Spec(spec())));
        let global = || Ok(Scoping::Known(Scope::Global));
        for (instruction, named, unnamed) in [
            (Instruction::CreateSpec, about(), Ok(Scoping::Known(Scope::derived("dark mode")))),
            (Instruction::ExecuteTasks, about(), Ok(Scoping::NewestSpec)),
            (Instruction::RefineSpec, about(), Err(NoScope::SpecNeeded(Instruction::RefineSpec))),
            (Instruction::AnalyzeProduct, about(), global()),
            (Instruction::PlanProduct, Err(NoScope::SpecNotTaken(Instruction::PlanProduct)), global()),
            (Instruction::GitCommit, Err(NoScope::SpecNotTaken(Instruction::GitCommit)), global()),
        ] {
            assert_eq!(instruction.scope(Some(spec()), "dark mode"), named, "{instruction}");
            assert_eq!(instruction.scope(None, "dark mode"), unnamed, "{instruction}");
        }
    }
}
