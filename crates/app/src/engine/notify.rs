//! `[notify]`: tells a command of the user about every new item of the inbox, once.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use runner::{Notice, Observer};
use store::AnyStore;
use tokio::process::Command;

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
    /// Has one file per item that the command was told about.
    told: PathBuf,
}

impl Notifier {
    pub(crate) fn new(workspace: &Workspace, store: &AnyStore) -> Self {
        Self {
            command: workspace.config.notify.clone().map(|command| command.value).unwrap_or_default(),
            repo: workspace.repo.clone(),
            told: store.local_dir().root().join("notified"),
        }
    }

    /// Starts the command for an item, unless it was started for it before. Does not wait for it.
    pub(crate) fn notify(&self, item: &InboxItem) {
        let Some((program, arguments)) = self.command.split_first() else { return };
        if let Err(error) = self.start(program, arguments, item) {
            output::note(format_args!("cannot notify `{program}` about `{}`: {error}", item.id));
        }
    }

    fn start(&self, program: &str, arguments: &[String], item: &InboxItem) -> io::Result<()> {
        let Some(file) = self.claim(item)? else { return Ok(()) };
        // The command reads the file, so that a slow reader blocks nothing. The runtime reaps it.
        Command::new(program)
            .args(arguments)
            .current_dir(&self.repo)
            .stdin(File::open(&file)?)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(drop)
    }

    /// Writes the file of an item; `None` if there is one. It is written before the command starts: after a crash in
    /// between, the command is not told, instead of twice.
    fn claim(&self, item: &InboxItem) -> io::Result<Option<PathBuf>> {
        let directory = self.told.join(item.run.as_str());
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

fn write(file: &mut File, item: &InboxItem) -> io::Result<()> {
    let mut text = serde_json::to_string(item)?;
    text.push('\n');
    file.write_all(text.as_bytes())
}

fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Shows an engine's notices, and notifies about its questions.
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
