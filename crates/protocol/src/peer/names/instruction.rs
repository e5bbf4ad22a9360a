//! Instructions, and the scope of a cycle with each of them.

use std::fmt;
use std::str::FromStr;

use super::{Scope, SpecName};
use crate::closest;

/// What a cycle does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instruction {
    CreateSpec,
    ExecuteTasks,
    RefineSpec,
    AnalyzeProduct,
    PlanProduct,
    GitCommit,
}

/// How the scope of a new cycle is determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopeSource {
    Known(Scope),
    /// The spec with the newest date in the name of its folder. The caller must look into the repository.
    NewestSpec,
}

/// Why an instruction has no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoScope {
    #[error("`{0}` needs an existing spec")]
    SpecNeeded(Instruction),
    #[error("`{0}` takes no spec: it is about the whole repository")]
    SpecNotAccepted(Instruction),
}

/// The word is not an instruction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not an instruction")]
pub struct UnknownInstruction {
    pub word: String,
    /// The most similar instruction.
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

    /// Determines the scope of a new cycle from the given spec and the requirements.
    pub fn scope(self, spec: Option<SpecName>, requirements: &str) -> Result<ScopeSource, NoScope> {
        match self {
            Self::CreateSpec => Ok(ScopeSource::Known(match spec {
                Some(spec) => Scope::Spec(spec),
                None => Scope::derived(requirements),
            })),
            Self::ExecuteTasks => Ok(match spec {
                Some(spec) => ScopeSource::Known(Scope::Spec(spec)),
                None => ScopeSource::NewestSpec,
            }),
            Self::RefineSpec => match spec {
                Some(spec) => Ok(ScopeSource::Known(Scope::Spec(spec))),
                None => Err(NoScope::SpecNeeded(self)),
            },
            Self::AnalyzeProduct => Ok(ScopeSource::Known(spec.map_or(Scope::Global, Scope::Spec))),
            Self::PlanProduct | Self::GitCommit => match spec {
                Some(_) => Err(NoScope::SpecNotAccepted(self)),
                None => Ok(ScopeSource::Known(Scope::Global)),
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
    fn an_instruction_prints_as_it_parses_and_a_typo_gets_a_suggestion() {
        for instruction in Instruction::ALL {
            assert_eq!(instruction.to_string().parse(), Ok(instruction));
        }
        let typo = "create-spce".parse::<Instruction>().unwrap_err();
        assert_eq!(
            (typo.to_string().as_str(), typo.meant),
            ("`create-spce` is not an instruction", Some(Instruction::CreateSpec))
        );
        assert_eq!("deploy".parse::<Instruction>().unwrap_err().meant, None);
    }

    #[test]
    fn each_instruction_has_its_scope() {
        let spec = || SpecName::new("login").unwrap();
        let spec_scope = || Ok(ScopeSource::Known(Scope::Spec(spec())));
        let global = || Ok(ScopeSource::Known(Scope::Global));
        for (instruction, with_spec, without_spec) in [
            (Instruction::CreateSpec, spec_scope(), Ok(ScopeSource::Known(Scope::derived("dark mode")))),
            (Instruction::ExecuteTasks, spec_scope(), Ok(ScopeSource::NewestSpec)),
            (Instruction::RefineSpec, spec_scope(), Err(NoScope::SpecNeeded(Instruction::RefineSpec))),
            (Instruction::AnalyzeProduct, spec_scope(), global()),
            (Instruction::PlanProduct, Err(NoScope::SpecNotAccepted(Instruction::PlanProduct)), global()),
            (Instruction::GitCommit, Err(NoScope::SpecNotAccepted(Instruction::GitCommit)), global()),
        ] {
            assert_eq!(instruction.scope(Some(spec()), "dark mode"), with_spec, "{instruction}");
            assert_eq!(instruction.scope(None, "dark mode"), without_spec, "{instruction}");
        }
    }
}
