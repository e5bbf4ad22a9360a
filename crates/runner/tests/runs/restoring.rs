//! A document that is not what was written, on a real store that somebody else has written into.

use std::num::NonZeroU32;

use protocol::peer::{CycleStatus, Definition, Document, Event, Peer, State};
use protocol::run::{Request, RunStatus};
use protocol::{Revision, RunId};
use runner::{
    Clock, Engine, EngineConfig, EngineError, EngineRequest, Journal, LoadError, Overrides, RestoreError,
};
use rusqlite::Connection;
use serde_json::Value;
use store::{AnyStore, Location, SqliteStore, Store as _, Tenure};
use testkit::harness::{new_cycle, run_of, spec};

use crate::harness::{engine_config, person};

/// A cycle that was opened and stopped: two revisions.
struct Stopped {
    _directory: tempfile::TempDir,
    store: AnyStore,
    run: RunId,
}

impl Stopped {
    async fn new() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let location = Location::find(directory.path(), Some(directory.path().join("store")))?;
        let store = AnyStore::from(SqliteStore::open(&location)?);
        let definition = Definition { max_attempts: NonZeroU32::MIN, ..new_cycle("peer:global:cycle:1") };
        let run = run_of(&definition);
        let spec = spec::<Peer>(definition, &run, directory.path(), None);
        runner::open(&store, &Clock::system(), person(), spec).await?;
        let stopped = Self { _directory: directory, store, run };
        let asked = EngineRequest { request: Request::Stop, by: Some(person()), reason: None };
        let mut nobody = ();
        let engine_config = engine_config(&stopped.store);
        let engine = Engine::<Peer, _>::lock(
            &stopped.store,
            engine_config,
            &stopped.run,
            Tenure::OneShot,
            &mut nobody,
        );
        engine.await?.handle(asked).await?;
        Ok(stopped)
    }

    /// What a stranger does to the store.
    fn meddle(&self, statement: &str) -> anyhow::Result<()> {
        let changed = Connection::open(self.store.local_dir().database())?.execute(statement, [])?;
        anyhow::ensure!(changed == 1, "{statement} changed {changed} rows");
        Ok(())
    }

    async fn journal(&self) -> Result<Journal<Peer, AnyStore>, LoadError> {
        Ok(Journal::load(&self.store, &Clock::system(), &self.run).await?.expect("the run is there"))
    }

    async fn lock(&self, engine_config: EngineConfig) -> Result<(), EngineError> {
        let mut nobody = ();
        Engine::<Peer, _>::lock(&self.store, engine_config, &self.run, Tenure::OneShot, &mut nobody)
            .await
            .map(drop)
    }

    fn kept(&self) -> anyhow::Result<Value> {
        let root = self.store.local_dir().root();
        let file = root.join("quarantine").join(self.run.as_str()).join("document-2.json");
        Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?)
    }
}

const TORN: &str = r#"UPDATE parts SET body = '{"status": "fai' WHERE path = 'phases/plan' AND revision = 2"#;

fn last_event(document: &Document) -> (Event, u64) {
    let last = document.history.last().expect("a document has a history");
    (last.event.clone(), last.sequence)
}

#[tokio::test]
async fn a_torn_or_rule_breaking_document_is_folded_again_from_a_whole_journal() -> anyhow::Result<()> {
    let broken = r#"UPDATE parts SET body = '{"status": "completed"}' WHERE path = 'phases/execute'"#;
    let missing = "DELETE FROM parts WHERE path = 'phases/plan' AND revision = 2";
    for (external, bad) in [
        (TORN, r#"{"status": "fai"#),
        (broken, r#"{"status": "completed"}"#),
        // Of a part that is gone an older one is shown: a document of two revisions.
        (missing, r#"{"status":"pending"}"#),
    ] {
        let stopped = Stopped::new().await?;
        let before = stopped.journal().await?.document;
        stopped.meddle(external)?;
        assert!(matches!(stopped.journal().await, Err(LoadError::Corrupted { .. })), "{external}");
        stopped.lock(engine_config(&stopped.store)).await?;
        let journal = stopped.journal().await?;
        assert_eq!(journal.document.phases, before.phases);
        assert_eq!(last_event(&journal.document), (Event::Recovered, before.sequence + 1));
        assert_eq!(journal.position.revision, Revision(3));
        assert!(stopped.kept()?.as_object().unwrap().values().any(|body| body == bad), "{external}");
        runner::verify::<Peer, _>(&stopped.store, &Clock::system(), &stopped.run).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_proven_to_be_the_last_is_put_back_only_when_a_person_says_so() -> anyhow::Result<()> {
    let stopped = Stopped::new().await?;
    stopped.meddle(TORN)?;
    stopped.meddle("UPDATE entries SET body = replace(body, 'tester', 'jester') WHERE revision = 2")?;
    let refused = stopped.lock(engine_config(&stopped.store)).await;
    assert!(
        matches!(refused, Err(EngineError::Restore(RestoreError::NotLast { from: Revision(1), .. }))),
        "{refused:?}"
    );
    assert_eq!(stopped.store.load(&stopped.run).await?.unwrap().position.revision, Revision(2));
    assert!(stopped.kept().is_err(), "nothing was touched");

    let overrides = Overrides { recover: true, ..Overrides::default() };
    stopped.lock(EngineConfig { overrides, ..engine_config(&stopped.store) }).await?;
    let journal = stopped.journal().await?;
    // Revision 2 had sequence 2: it is never given overrides.
    assert_eq!(last_event(&journal.document), (Event::Recovered, 3));
    assert_eq!(journal.document.metadata.status, CycleStatus::Initialized);
    assert_eq!(
        (journal.state.run.status, journal.state.run.state),
        (RunStatus::Running, State::Ready(protocol::peer::Phase::Plan))
    );
    assert!(stopped.kept()?.to_string().contains("fai"));
    Ok(())
}

#[tokio::test]
async fn without_any_sound_document_nothing_is_touched() -> anyhow::Result<()> {
    let stopped = Stopped::new().await?;
    stopped.meddle(TORN)?;
    stopped.meddle("UPDATE parts SET body = 'x' WHERE path = 'head' AND revision = 1")?;
    stopped.meddle("UPDATE entries SET body = replace(body, 'tester', 'jester') WHERE revision = 2")?;
    let overrides = Overrides { recover: true, ..Overrides::default() };
    let refused = stopped.lock(EngineConfig { overrides, ..engine_config(&stopped.store) }).await;
    assert!(matches!(refused, Err(EngineError::Restore(RestoreError::NoCandidate { .. }))), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn bytes_that_are_no_text_any_more_are_kept_and_put_back_like_any_others() -> anyhow::Result<()> {
    let stopped = Stopped::new().await?;
    let before = stopped.journal().await?.document;
    stopped.meddle(
        "UPDATE parts SET body = CAST(X'7B22FF227D' AS TEXT) WHERE path = 'phases/plan' AND revision = 2",
    )?;
    let found = stopped.journal().await;
    assert!(matches!(found, Err(LoadError::Corrupted { .. })), "{found:?}");
    stopped.lock(engine_config(&stopped.store)).await?;
    assert_eq!(stopped.journal().await?.document.phases, before.phases);
    assert_eq!(stopped.kept()?["phases/plan"], r#"not UTF-8: {\"\xff\"}"#);
    Ok(())
}

#[tokio::test]
async fn a_number_that_was_given_after_an_earlier_loss_is_not_given_again_after_the_next()
-> anyhow::Result<()> {
    let stopped = Stopped::new().await?;
    // The bad document says that somebody has seen 500.
    stopped.meddle(
        r#"UPDATE parts SET body = replace(body, '"sequence":2', '"sequence":500') WHERE path = 'head' AND revision = 2"#,
    )?;
    stopped.meddle(TORN)?;
    stopped.lock(engine_config(&stopped.store)).await?;
    assert_eq!(last_event(&stopped.journal().await?.document), (Event::Recovered, 501));
    // The next loss leaves nothing sound but the first revision, and a head that tells nothing.
    stopped.meddle("UPDATE parts SET body = 'x' WHERE path = 'head' AND revision = 3")?;
    stopped.meddle("UPDATE entries SET body = replace(body, 'tester', 'jester') WHERE revision = 2")?;
    let overrides = Overrides { recover: true, ..Overrides::default() };
    stopped.lock(EngineConfig { overrides, ..engine_config(&stopped.store) }).await?;
    assert_eq!(last_event(&stopped.journal().await?.document), (Event::Recovered, 502));
    Ok(())
}

#[tokio::test]
async fn bad_bytes_that_were_kept_stay_when_the_same_revision_is_found_bad_in_another_way()
-> anyhow::Result<()> {
    let stopped = Stopped::new().await?;
    let quarantine = stopped.store.local_dir().root().join("quarantine").join(stopped.run.as_str());
    std::fs::create_dir_all(&quarantine)?;
    // As if putting it back had failed after they were kept.
    std::fs::write(quarantine.join("document-2.json"), "what was found first")?;
    stopped.meddle(TORN)?;
    stopped.lock(engine_config(&stopped.store)).await?;
    assert_eq!(std::fs::read_to_string(quarantine.join("document-2.json"))?, "what was found first");
    assert!(std::fs::read_to_string(quarantine.join("document-2-1.json"))?.contains("fai"));
    Ok(())
}
