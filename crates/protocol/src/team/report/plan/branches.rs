//! The branch names of groups.

use super::super::super::definition::GroupId;

/// The first component of the branch names of groups: `feature/…`.
pub(in crate::team) const BRANCH_PREFIX: &str = "feature";

/// Returns the name, with a number appended if it collides with a branch that exists. The run must not continue a branch that
/// it did not create.
pub(super) fn free_name(name: &str, branches: &[String]) -> String {
    let is_free = |name: &String| {
        branches.iter().all(|branch| {
            // No number helps against a branch `feature`, which `read` reports.
            branch != name && !is_below(branch, name) && (branch == BRANCH_PREFIX || !is_below(name, branch))
        })
    };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

/// Returns whether git keeps the branch in a directory of its parent's name, which then cannot be a branch.
pub(super) fn is_below(name: &str, parent: &str) -> bool {
    name.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns `feature/group-A-jwt-auth`.
pub(in crate::team) fn branch_name(id: &GroupId, name: &str) -> String {
    let words: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let slug: String = words.join("-").chars().take(40).collect();
    match slug.trim_end_matches('-') {
        "" => format!("{BRANCH_PREFIX}/group-{id}"),
        slug => format!("{BRANCH_PREFIX}/group-{id}-{slug}"),
    }
}

/// Returns whether the name can be the branch of a group.
pub(super) fn is_branch_name(name: &str) -> bool {
    name.strip_prefix(BRANCH_PREFIX).is_some_and(|rest| rest.starts_with('/')) && is_ref_name(name)
}

/// Returns whether git takes the name for a branch, and no shell reads it as anything else.
pub(in crate::team) fn is_ref_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && !part.starts_with(['-', '.'])
            && !part.ends_with('.')
            && !part.contains("..")
            && !std::path::Path::new(part).extension().is_some_and(|end| end.eq_ignore_ascii_case("lock"))
    };
    name.len() <= 150 && name.split('/').all(is_part)
}
