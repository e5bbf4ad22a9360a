//! Starts the engine in the background, and waits until it has begun.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use protocol::entry::Author;
use protocol::{Revision, RunId};
use serde::Deserialize;
use store::{AnyStore, Backend, StoredEntry};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::EngineArgs;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::Workspace;

/// Starts an engine in the background and returns after its first commit. `agent_flags` are passed on to it.
pub(crate) async fn detach(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    args: &EngineArgs,
    agent_flags: Vec<OsString>,
) -> Result<Exit, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Bug, "cannot determine the path of this program").because(Some(&error))
    })?;
    let mut command = Command::new(program);
    // `--at-once`: it must not follow an engine on another host, because we wait for its own first commit.
    command.arg("resume").arg(run.as_str()).arg("--at-once").arg("--repo").arg(&workspace.repo);
    command.arg("--store").arg(store.local_dir().root()).args(agent_flags);
    if args.exit_when_waiting {
        command.arg("--exit-when-waiting");
    }
    if let Some(jobs) = args.jobs {
        command.arg("--jobs").arg(jobs.to_string());
    }
    store.prepare_local_dir()?;
    let log = store.local_dir().engines_dir().join(format!("{run}.log"));
    let output = std::fs::File::options().create(true).append(true).open(&log);
    let output = output.and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) = output.map_err(|error| {
        Failure::new(Exit::Store, format!("cannot write `{}`", log.display())).because(Some(&error))
    })?;
    let credentials = credentials(store);
    if credentials.is_some() {
        command.arg("--access-from-stdin");
    }
    // Only entries after this one count: an earlier engine may have had the same process id.
    let before = store.newest_revision(run).await?.unwrap_or(Revision(0));
    let mut watch = store.watch(run, before).await?;
    linux::restore_descriptor_limit();
    let mut child = command
        .stdin(if credentials.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::new(Exit::Bug, "cannot start the engine").because(Some(&error)))?;
    if let (Some(mut stdin), Some(credentials)) = (child.stdin.take(), credentials) {
        // If the engine has exited already, its log has the reason.
        let _ = stdin.write_all(credentials.as_bytes()).await;
    }
    let pid = child.id().unwrap_or_default();
    tokio::select! {
        committed = wait_for_entry_by(&mut watch, pid) => committed?,
        exited = child.wait() => {
            // It may have finished the run already; otherwise its log has the reason.
            let has_committed = has_entry_by(&store.entries(run, before).await?, pid)?;
            if !has_committed {
                return Err(exited_at_start(run, &log, exited.ok().and_then(|status| status.code())));
            }
        }
    }
    if args.json {
        output::json(&serde_json::json!({ "event": "detached", "run": run, "pid": pid }));
    } else {
        output::data(run);
        output::note(format_args!(
            "run `callboard watch {run}` to follow it, `callboard stop {run}` to stop it"
        ));
    }
    Ok(Exit::Success)
}

/// Returns the credentials for the store, which the engine reads from stdin. Other users could read its command line, and
/// agents inherit its environment.
fn credentials(store: &AnyStore) -> Option<String> {
    match store.backend() {
        Backend::Nats(store, _) => store.settings().auth.userinfo(),
        Backend::Embedded(_) => None,
    }
}

fn exited_at_start(run: &RunId, log: &Path, code: Option<i32>) -> Failure {
    let exit = [Exit::Failed, Exit::Usage, Exit::Refused, Exit::NeedsPerson, Exit::Bug, Exit::Interrupted]
        .into_iter()
        .find(|exit| Some(i32::from(exit.code())) == code)
        .unwrap_or(Exit::Store);
    Failure::new(exit, format!("the engine of run `{run}` exited at start"))
        .hint(format!("read `{}` for the reason", output::shell_word(log)))
}

/// Waits until the engine with this pid has committed an entry.
async fn wait_for_entry_by(watch: &mut store::Watch, engine: u32) -> Result<(), Failure> {
    while !has_entry_by(&watch.next().await?, engine)? {}
    Ok(())
}

/// The author of an entry, which has the same form in every protocol.
#[derive(Deserialize)]
struct EntryAuthor {
    by: Author,
}

/// Whether any of the entries is by the engine with this pid.
fn has_entry_by(entries: &[StoredEntry], engine: u32) -> Result<bool, Failure> {
    for entry in entries {
        let entry: EntryAuthor =
            serde_json::from_str(&entry.body).map_err(|error| Failure::from_error(Exit::Store, &error))?;
        if matches!(&entry.by, Author::Engine { pid, host, .. } if *pid == engine && *host == linux::host_name())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
