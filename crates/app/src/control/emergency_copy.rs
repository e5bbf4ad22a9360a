//! A store that was taken away under a living engine: what it still has in its hands is saved before it stops.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use store::AnyStore;

use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::workspace::Workspace;

/// Saves a copy if the store is gone, and says where it is and what to type. Any other failure stays as it is.
///
/// Whatever ended the engine first, a lost directory or a refused commit: if the store is gone, that is the reason.
pub(crate) fn rescue(workspace: &Workspace, store: &AnyStore, failure: Failure) -> Failure {
    let AnyStore::Embedded(store) = store else { return failure };
    if !store.is_gone() {
        return failure;
    }
    let what = format!(
        "the store `{}` was removed, moved or replaced while it was in use",
        workspace.location.root().display()
    );
    let mut gone = Failure::new(Exit::Store, what).code(Code::Gone);
    if failure.what != gone.what {
        gone.causes.push(failure.what);
    }
    gone.causes.extend(failure.causes);
    for path in places(workspace) {
        gone = match store.emergency_copy(&path) {
            Ok(()) => {
                let word = output::shell_word(&path);
                gone = gone.hint(format!("all that was committed is saved in `{}`", path.display())).hint(format!(
                    "put the store back if you have it; else `callboard recover --from {word}` makes a new one of it"
                ));
                break;
            }
            Err(error) => gone.hint(format!("no copy could be saved there: {}", runner::with_causes(&error))),
        };
    }
    gone.hint("agents that are at work go on; `callboard resume` finds them once the store is back")
}

fn places(workspace: &Workspace) -> impl Iterator<Item = PathBuf> {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let name = format!("{}-{now}-{}.db", repository_name(&workspace.repo), std::process::id());
    directories().map(move |directory| directory.join(&name))
}

/// Out of reach of whatever removes repositories: the user's state directory, or else the temporary one.
pub(crate) fn directories() -> impl Iterator<Item = PathBuf> {
    let state = etcetera::choose_base_strategy().ok().and_then(|directories| directories.state_dir());
    let directories = state.into_iter().chain([std::env::temp_dir()]);
    directories.map(|directory| directory.join("callboard").join("saved"))
}

/// What copies from a repository begin with.
pub(crate) fn repository_name(repo: &Path) -> String {
    repo.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
