//! Which run may write to the paths of views that all runs of a protocol share, such as `coordination/`.

use std::fs;
use std::io;
use std::path::Path;

use protocol::run::RunStatus;
use protocol::{ProtocolKind, RunId, View};
use runner::{RunAtRevision, RunSpec, Summary};
use store::AnyStore;

use super::Workspace;
use crate::failure::{Exit, Failure};
use crate::output::shell_word;

/// Clears the paths of the views of a new run: deletes the files that a finished run has left there. Fails if an
/// unfinished run writes the same files. Fails also if another program has written or changed one, unless `replace` is set:
/// then the engine moves that file aside.
pub(crate) async fn clear_view_paths(
    workspace: &Workspace,
    store: &AnyStore,
    kind: &'static dyn ProtocolKind,
    spec: &RunSpec,
    replace: bool,
) -> Result<(), Failure> {
    if kind.info().view_patterns.is_empty() {
        return Ok(());
    }
    let machine = kind
        .open(&spec.definition, &spec.options.location, workspace.clock.now())
        .expect("BUG: the definition is of another protocol");
    let views = machine.document().views();
    let finished = refuse_if_in_use(workspace, store, kind, spec, &views).await?;
    let mut existing: Vec<&View> =
        views.iter().filter(|view| Path::new(&view.path).symlink_metadata().is_ok()).collect();
    let mut outdated = Vec::new();
    for run in finished {
        if existing.is_empty() {
            break;
        }
        let Some(run_at) = RunAtRevision::load(store.as_ref(), workspace.protocols, &run, None).await? else {
            continue;
        };
        for old in run_at.machine().document().views() {
            if existing.iter().any(|view| view.path == old.path) && is_unchanged(&old)? {
                existing.retain(|view| view.path != old.path);
                outdated.push(old.path);
            }
        }
    }
    if let Some(view) = existing.first().filter(|_| !replace) {
        return Err(not_ours(&view.path));
    }
    for path in outdated {
        fs::remove_file(&path).map_err(|error| cannot_replace(&path, &error))?;
    }
    Ok(())
}

/// Fails if an unfinished run writes one of the views. Returns the finished runs of the protocol, newest first.
async fn refuse_if_in_use(
    workspace: &Workspace,
    store: &AnyStore,
    kind: &'static dyn ProtocolKind,
    spec: &RunSpec,
    views: &[View],
) -> Result<Vec<RunId>, Failure> {
    let repo_dir = &spec.options.location.repo_dir;
    let mut finished = Vec::new();
    for row in store.runs().await? {
        let Some(summary) = Summary::decode(&row.summary) else { continue };
        if row.protocol != kind.info().name || summary.repo_dir != *repo_dir {
            continue;
        }
        if matches!(summary.status, RunStatus::Finished(_)) {
            finished.push((summary.updated_at, row.run));
            continue;
        }
        let Some(run_at) = RunAtRevision::load(store.as_ref(), workspace.protocols, &row.run, None).await?
        else {
            continue;
        };
        let used = run_at.machine().document().views();
        if let Some(shared) = views.iter().find(|view| used.iter().any(|used| used.path == view.path)) {
            return Err(in_use(&row.run, &shared.path));
        }
    }
    finished.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    Ok(finished.into_iter().map(|(_, run)| run).collect())
}

/// Whether the file is as the finished run has left it. A pipe in its place is not opened: that could block.
fn is_unchanged(view: &View) -> Result<bool, Failure> {
    let found = fs::symlink_metadata(&view.path)
        .and_then(|found| if found.is_file() { fs::read(&view.path).map(Some) } else { Ok(None) });
    match found {
        Ok(found) => Ok(found.is_some_and(|found| found == view.body.as_bytes())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(cannot_replace(&view.path, &error)),
    }
}

fn cannot_replace(path: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot replace `{path}`")).because(Some(error))
}

fn in_use(run: &RunId, path: &str) -> Failure {
    Failure::new(Exit::Refused, format!("`{path}` belongs to run `{run}`, which is not finished"))
        .hint(format_args!("run `callboard resume {run}` to continue it"))
        .hint(format_args!("run `callboard stop {run}` to end it"))
}

fn not_ours(path: &str) -> Failure {
    Failure::new(Exit::Refused, format!("`{path}` exists, and another program has written or changed it"))
        .hint(format_args!(
            "run `callboard import {}` to continue what it describes",
            shell_word(path.as_ref())
        ))
        .hint("add `--replace` to move it aside and start anew")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_space_is_quoted_in_the_hint() {
        let failure = not_ours("/my work/coordination/group.json");
        let hint = failure.hints.first().unwrap().to_string();
        assert!(hint.contains("`callboard import '/my work/coordination/group.json'`"), "{hint}");
    }
}
