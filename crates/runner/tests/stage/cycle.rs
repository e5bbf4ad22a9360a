//! A cycle on a real store, in its first phase.

use std::num::NonZeroU32;
use std::path::Path;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Input};
use protocol::peer::{Definition, Mode, Peer, Phase};
use protocol::run::{Attempt, Change, ChangeOf};
use protocol::{Protocol as _, RunId, Stage, TryNo, Turn};
use runner::{Clock, Frozen, Journal, Staging};
use store::{Commit, Location, Part, SqliteStore, Store as _, WriteId};

use crate::stage::person;

pub(crate) type Cycle = Journal<Peer, SqliteStore>;

/// Opens a cycle and lets its planner begin.
pub(crate) async fn planning(directory: &Path) -> anyhow::Result<Cycle> {
    let store = SqliteStore::open(&Location::find(directory, Some(directory.join("store")))?)?;
    let definition = Definition {
        cycle: "peer:spec:login:cycle:1".parse()?,
        instruction: "create-spec".to_owned(),
        mode: Mode::New,
        instruction_args: String::new(),
        user_requirements: "People can log in".to_owned(),
        continues: None,
        advice: None,
        tries: NonZeroU32::MIN,
        timeout: None,
    };
    let stage = Stage { run: RunId::new(definition.cycle.key())?, repo_dir: directory.display().to_string() };
    let staging = Staging { stage, workdir: directory.to_owned(), player: None, env: Vec::new() };
    let frozen = Frozen { title: "login".to_owned(), definition, staging };
    let mut journal = runner::open::<Peer, _>(&store, &Clock::system(), person(), frozen).await?;
    let seat = Phase::Plan;
    if !journal.folded.run.chairs.contains_key(&seat) {
        append(&mut journal, &store, vec![Change::Called { seat, turn: Turn(1) }]).await?;
    }
    began(&mut journal, &store, 1).await?;
    Ok(journal)
}

/// The planner's try of that number begins.
pub(crate) async fn began(journal: &mut Cycle, store: &SqliteStore, number: u32) -> anyhow::Result<()> {
    let attempt = Attempt { seat: Phase::Plan, turn: Turn(1), try_no: TryNo(number) };
    append(journal, store, vec![Change::Began { attempt, counted: number }]).await
}

/// Commits what an engine would.
pub(crate) async fn append(
    journal: &mut Cycle,
    store: &SqliteStore,
    changes: Vec<ChangeOf<Peer>>,
) -> anyhow::Result<()> {
    let by = Author::Engine { host: "here".to_owned(), boot_id: "none".to_owned(), pid: 1 };
    let at = Clock::system().now().max(journal.folded.at);
    let (actions, timers) = (Vec::new(), Vec::new());
    let entry = Entry::<Peer> { v: ENTRY_VERSION, at, by, input: Input::Due, changes, actions, timers };
    journal.folded.fold(&entry);
    let parts = Peer::record(&journal.frozen.definition, &mut journal.document, &entry)?;
    let parts = parts.into_iter().map(|path| Part { body: Peer::part(&journal.document, &path), path });
    let commit = Commit {
        run: journal.run.clone(),
        protocol: Peer::NAME.to_owned(),
        expected: journal.position,
        epoch: None,
        write_id: WriteId::new(),
        entry: entry.encode(),
        parts: parts.collect(),
        outbox: Vec::new(),
        acknowledged: Vec::new(),
        views: Vec::new(),
        snapshot: None,
        summary: serde_json::to_string(&journal.summary())?,
    };
    journal.position = store.commit(commit).await?;
    Ok(())
}
