//! The checks of `callboard doctor`, one file each.

mod agents;
mod configuration;
mod disk;
mod files;
mod git;
mod limits;
mod locks;
mod nats_store;
mod orphans;
mod runs;
mod sqlite_store;

use super::{DoctorContext, Finding};
use locks::Locks;
use runs::Runs;

/// Runs every check.
pub(crate) async fn run_all(mut context: DoctorContext) -> Vec<Finding> {
    // Scan processes before reading the store: a process found now whose run is absent afterwards is an orphan.
    let marked = supervisor::find_marked();
    let mut locks = Locks::default();
    let (mut findings, store) = match &context.nats {
        Some(settings) => nats_store::check(&context, settings).await,
        None => {
            locks = context.location.as_ref().map(Locks::scan).unwrap_or_default();
            sqlite_store::check(&context)
        }
    };
    if let Some(store) = &store {
        context.location = Ok(store.local_dir().clone());
    }
    let context = &context;
    let mut runs = None;
    if let (Ok(location), Some(store)) = (&context.location, &store) {
        match Runs::load(location, store, &locks).await {
            Ok(loaded) => {
                locks.add(&loaded.unfinished);
                runs = Some(loaded);
            }
            Err(failure) => findings.push(Finding::failure("runs", &failure)),
        }
    }
    if let (Some(runs), Some(store)) = (&runs, &store) {
        findings.extend(nats_store::former_store(context, store, runs));
    }
    findings.extend(disk::check(context));
    findings.extend(locks::check(context, &locks, runs.is_some()));
    findings.extend(runs.iter().flat_map(|runs| runs::check(context, runs)));
    findings.extend(orphans::check(context, marked, runs.as_ref()));
    findings.extend(files::check(context, runs.as_ref()));
    findings.extend(git::check(context, runs.as_ref()));
    findings.extend(configuration::check(context));
    findings.extend(agents::check());
    findings.extend(limits::check());
    findings
}
