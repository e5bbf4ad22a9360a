//! Saves an emergency copy if the store disappears while an engine uses it.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use store::{AnyStore, Backend};

use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::workspace::Workspace;

/// If the store is gone, saves a copy of what was committed and explains how to put it back. Returns any other failure
/// unchanged.
///
/// The first error of the engine may be a missing directory or a rejected commit. The cause is that the store is gone.
pub(crate) fn save_if_store_is_gone(workspace: &Workspace, store: &AnyStore, failure: Failure) -> Failure {
    let Backend::Embedded(store) = store.backend() else { return failure };
    if !store.is_gone() {
        return failure;
    }
    let message = format!(
        "the store `{}` was removed, moved or replaced while it was in use",
        workspace.location.root().display()
    );
    let mut gone = Failure::new(Exit::Store, message).code(Code::StoreGone);
    if failure.message != gone.message {
        gone.causes.push(failure.message);
    }
    gone.causes.extend(failure.causes);
    for path in candidate_paths(workspace) {
        gone = match store.emergency_copy(&path) {
            Ok(()) => {
                let word = output::shell_word(&path);
                gone = gone
                    .hint(format!("everything that was committed is saved in `{}`", path.display()))
                    .hint(format!(
                        "put the store back if you have it; otherwise run `callboard recover --from {word}`"
                    ));
                break;
            }
            Err(error) => gone.hint(format!("could not save a copy: {}", runner::with_causes(&error))),
        };
    }
    gone.hint("running agents continue; run `callboard resume` to adopt them once the store is back")
}

fn candidate_paths(workspace: &Workspace) -> impl Iterator<Item = PathBuf> {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let name = format!("{}-{now}-{}.db", repository_name(&workspace.repo), std::process::id());
    directories().map(move |directory| directory.join(&name))
}

/// Returns directories outside any repository: the user's state directory, then the temporary one.
pub(crate) fn directories() -> impl Iterator<Item = PathBuf> {
    let state = etcetera::choose_base_strategy().ok().and_then(|directories| directories.state_dir());
    let directories = state.into_iter().chain([std::env::temp_dir()]);
    directories.map(|directory| directory.join("callboard").join("saved"))
}

/// Returns the prefix of the names of copies from a repository.
pub(crate) fn repository_name(repo: &Path) -> String {
    repo.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
