//! Worktrees of runs and of steps.

mod git_worktree;
mod worktrees;
