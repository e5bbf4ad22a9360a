//! Corrupted documents in the embedded store: SQL statements change it without the program.

use std::num::NonZeroU32;

use protocol::peer::{Definition, Event, Peer, PeerCycleStatus, Phase, State};
use protocol::run::{Request, RunStatus};
use protocol::{PROTOCOLS, Revision, RunId, TypedMachine, protocol_kind};
use runner::{
    Clock, Engine, EngineConfig, EngineError, EngineRequest, Journal, LoadError, Overrides, RestoreError,
};
use rusqlite::Connection;
use serde_json::Value;
use store::{AnyStore, Location, LockPurpose, SqliteStore};
use testkit::harness::{new_peer_cycle, run_of, run_spec};

use super::harness::{engine_config_without_adapter, test_author};
use crate::peer_document;

/// A cycle that was opened and stopped: two revisions.
struct StoppedPeerCycle {
    _directory: tempfile::TempDir,
    store: AnyStore,
    run: RunId,
}

impl StoppedPeerCycle {
    async fn new() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let location = Location::find(directory.path(), Some(directory.path().join("store")))?;
        let store = AnyStore::from(SqliteStore::open(&location)?);
        let definition =
            Definition { max_attempts: NonZeroU32::MIN, ..new_peer_cycle("peer:global:cycle:1") };
        let run = run_of(&definition);
        let spec = run_spec(&definition, &run, directory.path(), None);
        runner::open(&store, &Clock::system(), protocol_kind::<Peer>(), test_author(), spec).await?;
        let stopped = Self { _directory: directory, store, run };
        let engine_request = EngineRequest { request: Request::Stop, by: Some(test_author()), reason: None };
        let mut observer = ();
        let engine_config = engine_config_without_adapter(&stopped.store);
        let engine =
            Engine::lock(&stopped.store, engine_config, &stopped.run, LockPurpose::OneShot, &mut observer);
        engine.await?.handle(engine_request).await?;
        Ok(stopped)
    }

    /// Changes exactly one row of the database.
    fn corrupt(&self, statement: &str) -> anyhow::Result<()> {
        let changed = Connection::open(self.store.local_dir().database())?.execute(statement, [])?;
        anyhow::ensure!(changed == 1, "{statement} changed {changed} rows");
        Ok(())
    }

    async fn journal(&self) -> Result<Journal, LoadError> {
        Ok(Journal::load(&self.store, &Clock::system(), PROTOCOLS, &self.run)
            .await?
            .expect("the run is there"))
    }

    /// Takes the engine lock and loads the run, which restores a corrupted document.
    async fn lock(&self, engine_config: EngineConfig) -> Result<(), EngineError> {
        let mut observer = ();
        Engine::lock(&self.store, engine_config, &self.run, LockPurpose::OneShot, &mut observer)
            .await
            .map(drop)
    }

    /// Reads the quarantined document of revision 2.
    fn quarantined(&self) -> anyhow::Result<Value> {
        let root = self.store.local_dir().root();
        let file = root.join("quarantine").join(self.run.as_str()).join("document-2.json");
        Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?)
    }
}

/// Truncates a part of the newest document. Its entry can restore it.
const TRUNCATE_PART: &str =
    r#"UPDATE parts SET body = '{"status": "fai' WHERE path = 'phases/plan' AND revision = 2"#;

/// Damages the newest entry: its checksum no longer matches.
const DAMAGE_ENTRY: &str = "UPDATE entries SET body = replace(body, 'tester', 'jester') WHERE revision = 2";

fn last_event(cycle: &Journal) -> (Event, u64) {
    let document = peer_document(cycle);
    let last = document.history.last().expect("a document has a history");
    (last.event.clone(), last.sequence)
}

#[tokio::test]
async fn a_corrupted_document_is_replayed_from_an_intact_journal() -> anyhow::Result<()> {
    let broken = r#"UPDATE parts SET body = '{"status": "completed"}' WHERE path = 'phases/execute'"#;
    let missing = "DELETE FROM parts WHERE path = 'phases/plan' AND revision = 2";
    for (statement, bad) in [
        (TRUNCATE_PART, r#"{"status": "fai"#),
        (broken, r#"{"status": "completed"}"#),
        // Without the newest part, the document is mixed from two revisions.
        (missing, r#"{"status":"pending"}"#),
    ] {
        let stopped = StoppedPeerCycle::new().await?;
        let before = peer_document(&stopped.journal().await?);
        stopped.corrupt(statement)?;
        assert!(matches!(stopped.journal().await, Err(LoadError::Corrupted { .. })), "{statement}");
        stopped.lock(engine_config_without_adapter(&stopped.store)).await?;
        let journal = stopped.journal().await?;
        assert_eq!(peer_document(&journal).phases, before.phases);
        assert_eq!(last_event(&journal), (Event::Recovered, before.sequence + 1));
        assert_eq!(journal.position.revision, Revision(3));
        assert!(stopped.quarantined()?.as_object().unwrap().values().any(|body| body == bad), "{statement}");
        runner::verify(&stopped.store, &Clock::system(), PROTOCOLS, &stopped.run).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_older_document_is_restored_only_with_the_users_consent() -> anyhow::Result<()> {
    let stopped = StoppedPeerCycle::new().await?;
    stopped.corrupt(TRUNCATE_PART)?;
    stopped.corrupt(DAMAGE_ENTRY)?;
    let refused = stopped.lock(engine_config_without_adapter(&stopped.store)).await;
    assert!(
        matches!(
            refused,
            Err(EngineError::Restore(RestoreError::WouldLoseChanges { from: Revision(1), .. }))
        ),
        "{refused:?}"
    );
    assert_eq!(stopped.store.load(&stopped.run).await?.unwrap().position.revision, Revision(2));
    assert!(stopped.quarantined().is_err(), "nothing was written");

    let overrides = Overrides { recover: true, ..Overrides::default() };
    stopped.lock(EngineConfig { overrides, ..engine_config_without_adapter(&stopped.store) }).await?;
    let journal = stopped.journal().await?;
    // Revision 2 had sequence 2, which is not used again.
    assert_eq!(last_event(&journal), (Event::Recovered, 3));
    assert_eq!(peer_document(&journal).metadata.status, PeerCycleStatus::Initialized);
    let state = &TypedMachine::<Peer>::of(journal.machine()).unwrap().state;
    assert_eq!((journal.state.run.status, state), (RunStatus::Running, &State::Ready(Phase::Plan)));
    assert!(stopped.quarantined()?.to_string().contains("fai"));
    Ok(())
}

#[tokio::test]
async fn without_a_valid_document_the_restore_is_refused() -> anyhow::Result<()> {
    let stopped = StoppedPeerCycle::new().await?;
    stopped.corrupt(TRUNCATE_PART)?;
    stopped.corrupt("UPDATE parts SET body = 'x' WHERE path = 'head' AND revision = 1")?;
    stopped.corrupt(DAMAGE_ENTRY)?;
    let overrides = Overrides { recover: true, ..Overrides::default() };
    let refused =
        stopped.lock(EngineConfig { overrides, ..engine_config_without_adapter(&stopped.store) }).await;
    assert!(matches!(refused, Err(EngineError::Restore(RestoreError::NoCandidate { .. }))), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn bytes_that_are_not_utf8_are_quarantined_and_restored() -> anyhow::Result<()> {
    let stopped = StoppedPeerCycle::new().await?;
    let before = peer_document(&stopped.journal().await?);
    stopped.corrupt(
        "UPDATE parts SET body = CAST(X'7B22FF227D' AS TEXT) WHERE path = 'phases/plan' AND revision = 2",
    )?;
    let found = stopped.journal().await;
    assert!(matches!(found, Err(LoadError::Corrupted { .. })), "{found:?}");
    stopped.lock(engine_config_without_adapter(&stopped.store)).await?;
    assert_eq!(peer_document(&stopped.journal().await?).phases, before.phases);
    assert_eq!(stopped.quarantined()?["phases/plan"], r#"not UTF-8: {\"\xff\"}"#);
    Ok(())
}

#[tokio::test]
async fn a_sequence_number_is_not_used_again_after_two_losses() -> anyhow::Result<()> {
    let stopped = StoppedPeerCycle::new().await?;
    // The bad document claims that a client has seen sequence 500.
    stopped.corrupt(
        r#"UPDATE parts SET body = replace(body, '"sequence":2', '"sequence":500') WHERE path = 'head' AND revision = 2"#,
    )?;
    stopped.corrupt(TRUNCATE_PART)?;
    stopped.lock(engine_config_without_adapter(&stopped.store)).await?;
    assert_eq!(last_event(&stopped.journal().await?), (Event::Recovered, 501));
    // Now only the first revision is valid, and the bad part `head` contains no sequence.
    stopped.corrupt("UPDATE parts SET body = 'x' WHERE path = 'head' AND revision = 3")?;
    stopped.corrupt(DAMAGE_ENTRY)?;
    let overrides = Overrides { recover: true, ..Overrides::default() };
    stopped.lock(EngineConfig { overrides, ..engine_config_without_adapter(&stopped.store) }).await?;
    assert_eq!(last_event(&stopped.journal().await?), (Event::Recovered, 502));
    Ok(())
}

#[tokio::test]
async fn an_impossible_sequence_number_is_part_of_the_damage() -> anyhow::Result<()> {
    let stopped = StoppedPeerCycle::new().await?;
    let before = peer_document(&stopped.journal().await?).sequence;
    stopped.corrupt(
        r#"UPDATE parts SET body = replace(body, '"sequence":2', '"sequence":9007199254740000') WHERE path = 'head' AND revision = 2"#,
    )?;
    stopped.corrupt(TRUNCATE_PART)?;
    stopped.lock(engine_config_without_adapter(&stopped.store)).await?;
    assert_eq!(last_event(&stopped.journal().await?), (Event::Recovered, before + 1));
    Ok(())
}

#[tokio::test]
async fn quarantined_bytes_of_the_same_revision_are_not_overwritten() -> anyhow::Result<()> {
    let stopped = StoppedPeerCycle::new().await?;
    let quarantine = stopped.store.local_dir().root().join("quarantine").join(stopped.run.as_str());
    std::fs::create_dir_all(&quarantine)?;
    // As if the restore had failed after the bytes were written.
    std::fs::write(quarantine.join("document-2.json"), "what was found first")?;
    stopped.corrupt(TRUNCATE_PART)?;
    stopped.lock(engine_config_without_adapter(&stopped.store)).await?;
    assert_eq!(std::fs::read_to_string(quarantine.join("document-2.json"))?, "what was found first");
    assert!(std::fs::read_to_string(quarantine.join("document-2-1.json"))?.contains("fai"));
    Ok(())
}
