//! `[notify]`: runs a command of the user once for every new question of a run, and for what an ended run leaves to a person.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use runner::{Notice, Observer};
use rustix::process::{Pid, Signal, kill_process_group};
use store::AnyStore;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::progress::Progress;
use crate::output;
use crate::query::inbox::InboxItem;
use crate::workspace::Workspace;

/// Starts the command of `[notify]`.
#[derive(Debug)]
pub(crate) struct Notifier {
    /// Empty if none is configured.
    command: Vec<String>,
    repo: PathBuf,
    /// The directory with one file per item for which the command was started.
    notified_dir: PathBuf,
    /// The commands that have not ended.
    running: JoinSet<()>,
}

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the engine waits at its end for commands that have not ended.
const GRACE: Duration = Duration::from_secs(2);

/// Returns the directory that has a file for each item of which the user was told, by run.
pub(crate) fn notified_dir(store: &AnyStore) -> PathBuf {
    store.local_dir().root().join("notified")
}

impl Notifier {
    pub(crate) fn new(workspace: &Workspace, store: &AnyStore) -> Self {
        Self {
            command: workspace.config.notify.clone().map(|command| command.value).unwrap_or_default(),
            repo: workspace.repo.clone(),
            notified_dir: notified_dir(store),
            running: JoinSet::new(),
        }
    }

    /// Waits a little for the commands that have not ended, then kills them.
    pub(crate) async fn finish(mut self) {
        let all = async { while self.running.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            output::note("killed a `[notify]` command that did not end");
        }
        self.running.shutdown().await;
    }

    /// Starts the command for an item, unless it was started for it before. Does not wait for it.
    pub(crate) fn notify(&mut self, item: &InboxItem) {
        let Some((program, arguments)) = self.command.split_first() else { return };
        let (program, arguments) = (program.clone(), arguments.to_vec());
        if let Err(error) = self.start(&program, &arguments, item) {
            output::note(format_args!("cannot notify `{program}` about `{}`: {error}", item.id));
        }
    }

    fn start(&mut self, program: &str, arguments: &[String], item: &InboxItem) -> io::Result<()> {
        let Some(file) = self.create_item_file(item)? else { return Ok(()) };
        // Without a command the user was not told: the item is new for the next engine.
        self.start_command(program, arguments, &file).inspect_err(|_| remove(&file))
    }

    fn start_command(&mut self, program: &str, arguments: &[String], file: &Path) -> io::Result<()> {
        // The command reads the file, so that a slow reader blocks nothing.
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.repo)
            .stdin(File::open(file)?)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        // A killed engine cannot kill the group, so the kernel kills the command. It does so when the thread that
        // started the command ends; the engine has only one thread.
        linux::die_with_parent(command.as_std_mut());
        let mut child = command.spawn()?;
        let group = ProcessGroup::of(&child);
        self.running.spawn(async move {
            if tokio::time::timeout(TIMEOUT, child.wait()).await.is_ok() {
                group.forget();
            }
        });
        Ok(())
    }

    /// Writes the file of an item; `None` if it exists. It is written before the command starts, so that a crash in
    /// between loses a notification instead of repeating it.
    fn create_item_file(&self, item: &InboxItem) -> io::Result<Option<PathBuf>> {
        let directory = self.notified_dir.join(item.run.as_str());
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let name = match (item.id.split_once('/'), item.since) {
            (Some((_, name)), _) => name.to_owned(),
            // A run may fail again after a retry.
            (None, since) => format!("failed {}", since.map(|since| since.to_string()).unwrap_or_default()),
        };
        let path = directory.join(name.replace('/', "_") + ".json");
        match File::create_new(&path) {
            Ok(mut file) => write(&mut file, item).inspect_err(|_| remove(&path)).map(|()| Some(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The processes of a command. They are killed when this is dropped: after the timeout, or when the engine exits.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }

    /// Does not kill the group: its first process has ended, so its id may belong to another group.
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn write(file: &mut File, item: &InboxItem) -> io::Result<()> {
    let mut text = serde_json::to_string(item)?;
    text.push('\n');
    file.write_all(text.as_bytes())
}

fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Shows an engine's notices, and starts the `[notify]` command for its questions.
#[derive(Debug)]
pub(crate) struct EngineObserver {
    pub(crate) progress: Progress,
    pub(crate) notifier: Notifier,
}

impl Observer for EngineObserver {
    fn notice(&mut self, notice: Notice<'_>) {
        if let Notice::Question { spec, machine, step, turn } = notice {
            self.notifier.notify(&InboxItem::question(spec, machine, step, turn));
        }
        self.progress.notice(notice);
    }
}
