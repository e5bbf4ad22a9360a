//! What `callboard doctor` looks at, one file per check. Each check takes what was found out so far and answers with
//! findings; none changes anything, and none trusts that another one succeeded.

mod agents;
mod configuration;
mod disk;
mod finding;
mod git;
mod ground;
mod leftovers;
mod limits;
mod locks;
mod orphans;
mod particulars;
mod reboot;
mod runs;
mod shared_store;
mod store_check;
mod views;

use std::path::{Path, PathBuf};

pub(crate) use finding::{Finding, Level};
pub(crate) use ground::Ground;
use locks::Locks;
pub(crate) use reboot::unit;
use runs::Runs;

/// Looks at everything.
pub(crate) async fn examine(mut ground: Ground) -> Vec<Finding> {
    // Before the store is read: whoever is seen now and has no run afterwards is an orphan.
    let marked = supervisor::find_marked();
    let mut locks = Locks::default();
    let (mut findings, store) = match &ground.nats {
        Some(settings) => shared_store::check(&ground, settings).await,
        None => {
            locks = ground.location.as_ref().map(Locks::look).unwrap_or_default();
            store_check::check(&ground)
        }
    };
    if let Some(store) = &store {
        ground.location = Ok(store.local_dir().clone());
    }
    let ground = &ground;
    let mut runs = None;
    if let (Ok(location), Some(store)) = (&ground.location, &store) {
        match Runs::gather(location, store, &locks).await {
            Ok(gathered) => {
                locks.add(&gathered.unfinished);
                runs = Some(gathered);
            }
            Err(failure) => findings.push(Finding::failure("runs", &failure)),
        }
    }
    if let (Some(runs), Some(store)) = (&runs, &store) {
        findings.extend(shared_store::former(ground, store, runs));
    }
    findings.extend(disk::check(ground));
    findings.extend(locks::check(ground, &locks, runs.is_some()));
    findings.extend(runs.iter().flat_map(|runs| runs::check(ground, runs)));
    findings.extend(orphans::check(ground, marked, runs.as_ref()));
    if let (Some(runs), Some(store)) = (&runs, &store) {
        findings.extend(views::check(store, runs).await);
    }
    findings.extend(leftovers::check(ground, runs.as_ref()));
    findings.extend(git::check(ground));
    findings.extend(configuration::check(ground));
    findings.extend(agents::check());
    findings.extend(limits::check());
    findings.push(reboot::check(ground));
    findings
}

/// The nearest directory that exists: what is made below it will be on the same disk.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}
