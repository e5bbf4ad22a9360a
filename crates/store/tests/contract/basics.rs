//! Guarantees that a single process can check.

use std::time::Duration;

use protocol::{Epoch, Revision};
use store::{
    Commit, CommitError, Digest, EngineLockError, LockPurpose, Position, Store, ViewMark, WriteError, WriteId,
};

use super::{Backend, entry_commit, item, part, run};

fn bodies(entries: &[store::StoredEntry]) -> Vec<(u64, &str)> {
    entries.iter().map(|entry| (entry.revision.0, entry.body.as_str())).collect()
}

fn view_mark(path: &str, revision: u64) -> ViewMark {
    ViewMark { path: path.to_owned(), revision: Revision(revision), digest: Digest::of(path) }
}

pub(crate) async fn a_commit_is_read_back_whole<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("whole"));
    assert_eq!(store.load(&run).await.unwrap(), None);
    let position = store
        .commit(Commit {
            parts: vec![part("/steps/a", "{\"ü\":1}")],
            outbox: vec![item("start:a#1.1", "{}"), item("another", "[]")],
            views: vec![view_mark("run_state.json", 1)],
            summary: "{\"state\":\"open\"}".to_owned(),
            ..entry_commit(&run, Position::absent(), "opened")
        })
        .await
        .unwrap();
    assert_eq!(position.revision, Revision(1));

    // A second handle, as another process has.
    let store = backend.store();
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!((loaded.protocol.as_str(), loaded.position, loaded.epoch), ("steps", position, Epoch(0)));
    assert_eq!(loaded.summary, "{\"state\":\"open\"}");
    assert_eq!(bodies(&loaded.tail), [(1, "opened")]);
    assert_eq!(loaded.outbox, [item("start:a#1.1", "{}"), item("another", "[]")]);
    assert_eq!(loaded.views, [view_mark("run_state.json", 1)]);
    assert_eq!(store.parts_at(&run, Revision(1)).await.unwrap(), [part("/steps/a", "{\"ü\":1}")]);
}

/// The store does not parse bodies.
pub(crate) async fn bodies_come_back_byte_for_byte<B: Backend>(backend: B) {
    let odd = [
        "",
        "\n",
        "{\"a\":1}\n{",
        " { \"n\" : 1.0e2 } ",
        "\"\\\u{0}\u{7f}ü\u{10ffff}\r\n",
        "null",
        "\"text\"",
    ];
    let (store, run) = (backend.store(), run("odd"));
    let mut position = Position::absent();
    for snapshot in [false, true] {
        for body in odd {
            let commit = Commit {
                parts: vec![part("first", body), part("second", "{}"), part(body, body)],
                outbox: vec![item("same", body), item(body, body)],
                snapshot: snapshot.then(|| body.to_owned()),
                summary: body.to_owned(),
                ..entry_commit(&run, position, body)
            };
            position = store.commit(commit).await.unwrap();
            let store = backend.store();
            let loaded = store.load(&run).await.unwrap().unwrap();
            assert_eq!(loaded.summary, body);
            assert_eq!(loaded.snapshot.map(|stored| stored.body), snapshot.then(|| body.to_owned()));
            assert!(loaded.outbox.contains(&item("same", body)) && loaded.outbox.contains(&item(body, body)));
            assert_eq!(store.entry(&run, position.revision).await.unwrap().unwrap().body, body);
            let parts = store.parts_at(&run, position.revision).await.unwrap();
            assert!(parts.contains(&part("first", body)) && parts.contains(&part(body, body)), "{parts:?}");
        }
    }
    assert_eq!(backend.store().last_intact_revision(&run).await.unwrap(), position.revision);
}

pub(crate) async fn a_conflict_names_both_revisions<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("contested"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let second = store.commit(entry_commit(&run, first, "2")).await.unwrap();
    store.commit(entry_commit(&run, second, "3")).await.unwrap();
    let error = store.commit(entry_commit(&run, first, "late")).await.unwrap_err();
    let CommitError::Conflict { run: named, expected, found } = &error else { panic!("{error}") };
    assert_eq!((named, *expected, *found), (&run, Revision(1), Revision(3)));
    assert_eq!(error.to_string(), "run `contested` is at revision 3, the change was made for revision 1");
}

pub(crate) async fn a_refused_commit_leaves_nothing_behind<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("untouched"));
    let first = store
        .commit(Commit {
            parts: vec![part("document", "1")],
            outbox: vec![item("pending", "{}")],
            ..entry_commit(&run, Position::absent(), "1")
        })
        .await
        .unwrap();
    store.commit(entry_commit(&run, first, "2")).await.unwrap();
    let before = store.load(&run).await.unwrap();
    let runs = store.runs().await.unwrap();
    let everything = Commit {
        parts: vec![part("document", "lost"), part("other", "lost")],
        outbox: vec![item("lost", "{}")],
        acknowledged: vec!["pending".to_owned()],
        views: vec![view_mark("lost", 2)],
        snapshot: Some("lost".to_owned()),
        summary: "lost".to_owned(),
        ..entry_commit(&run, first, "lost")
    };
    assert!(matches!(store.commit(everything.clone()).await, Err(CommitError::Conflict { .. })));
    let oversized = Commit { entry: "x".repeat(B::LIMIT), ..everything };
    assert!(matches!(store.commit(oversized).await, Err(CommitError::TooLarge { .. })));
    assert_eq!(store.load(&run).await.unwrap(), before);
    assert_eq!(store.runs().await.unwrap(), runs);
    assert_eq!(store.parts_at(&run, Revision(9)).await.unwrap(), [part("document", "1")]);
}

pub(crate) async fn a_run_is_created_once<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("once"));
    store.commit(entry_commit(&run, Position::absent(), "first")).await.unwrap();
    let error = store.commit(entry_commit(&run, Position::absent(), "second")).await.unwrap_err();
    assert!(
        matches!(error, CommitError::Conflict { expected: Revision(0), found: Revision(1), .. }),
        "{error}"
    );
}

pub(crate) async fn the_protocol_of_a_run_is_read_without_loading_it<B: Backend>(backend: B) {
    let store = backend.store();
    for protocol in ["steps", "peer"] {
        let commit =
            Commit { protocol: protocol.to_owned(), ..entry_commit(&run(protocol), Position::absent(), "1") };
        store.commit(commit).await.unwrap();
    }
    for (name, protocol) in [("steps", Some("steps")), ("peer", Some("peer")), ("absent", None)] {
        assert_eq!(store.protocol(&run(name)).await.unwrap().as_deref(), protocol);
    }
}

pub(crate) async fn the_newest_revision_of_a_run_is_read_without_loading_it<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("growing"));
    assert_eq!(store.newest_revision(&run).await.unwrap(), None);
    let mut position = Position::absent();
    for revision in 1..=3 {
        position = store.commit(entry_commit(&run, position, "more")).await.unwrap();
        assert_eq!(store.newest_revision(&run).await.unwrap(), Some(Revision(revision)));
    }
}

pub(crate) async fn the_document_of_a_run_is_read_at_one_revision<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("shown"));
    assert_eq!(store.document(&run).await.unwrap(), None);
    let parts = vec![part("b", "1"), part("a", "1")];
    let first = Commit { parts, ..entry_commit(&run, Position::absent(), "1") };
    let position = store.commit(first).await.unwrap();
    let second = Commit { parts: vec![part("b", "2")], ..entry_commit(&run, position, "2") };
    let position = store.commit(second).await.unwrap();
    let third = Commit { parts: Vec::new(), ..entry_commit(&run, position, "3") };
    store.commit(third).await.unwrap();
    let read = store.document(&run).await.unwrap().unwrap();
    assert_eq!((read.protocol.as_str(), read.revision), ("steps", Revision(3)));
    assert_eq!(read.parts, [part("a", "1"), part("b", "2")]);
}

pub(crate) async fn runs_are_independent<B: Backend>(backend: B) {
    let store = backend.store();
    let (left, right) = (run("left"), run("right"));
    let mut positions = [Position::absent(); 2];
    for n in 1..=3 {
        for (run, position) in [&left, &right].into_iter().zip(&mut positions) {
            let parts = vec![part("document", &format!("{run} {n}"))];
            *position = store.commit(Commit { parts, ..entry_commit(run, *position, "{}") }).await.unwrap();
        }
    }
    assert_eq!(positions.map(|position| position.revision), [Revision(3); 2]);
    assert_ne!(positions[0].token, positions[1].token);
    let listed = store.runs().await.unwrap();
    assert_eq!(
        listed.iter().map(|row| (&row.run, row.revision, row.protocol.as_str())).collect::<Vec<_>>(),
        [(&left, Revision(3), "steps"), (&right, Revision(3), "steps")]
    );
    assert_eq!(store.parts_at(&right, Revision(2)).await.unwrap(), [part("document", "right 2")]);
}

pub(crate) async fn parts_at_returns_the_newest_part_that_is_not_newer<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("history"));
    let changes = [
        vec![part("a", "a1"), part("b", "b1")],
        vec![part("b", "b2")],
        vec![],
        vec![part("a", "a4"), part("c", "c4")],
    ];
    let mut position = Position::absent();
    for parts in changes {
        position = store.commit(Commit { parts, ..entry_commit(&run, position, "{}") }).await.unwrap();
    }
    let expected = [
        (0, vec![]),
        (1, vec![part("a", "a1"), part("b", "b1")]),
        (2, vec![part("a", "a1"), part("b", "b2")]),
        (3, vec![part("a", "a1"), part("b", "b2")]),
        (4, vec![part("a", "a4"), part("b", "b2"), part("c", "c4")]),
        (u64::MAX, vec![part("a", "a4"), part("b", "b2"), part("c", "c4")]),
    ];
    for (revision, parts) in expected {
        assert_eq!(store.parts_at(&run, Revision(revision)).await.unwrap(), parts, "at {revision}");
    }
}

pub(crate) async fn a_load_begins_at_the_newest_snapshot<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("snapshots"));
    let mut position = Position::absent();
    for n in 1..=7 {
        let snapshot = (n % 3 == 0).then(|| format!("after {n}"));
        position =
            store.commit(Commit { snapshot, ..entry_commit(&run, position, &n.to_string()) }).await.unwrap();
    }
    let loaded = store.load(&run).await.unwrap().unwrap();
    let snapshot = loaded.snapshot.unwrap();
    assert_eq!((snapshot.revision, snapshot.body.as_str()), (Revision(6), "after 6"));
    assert_eq!(bodies(&loaded.tail), [(7, "7")]);
    assert_eq!(bodies(&store.entries(&run, Revision(5)).await.unwrap()), [(6, "6"), (7, "7")]);
    assert_eq!(store.entries(&run, Revision(0)).await.unwrap().len(), 7);
}

pub(crate) async fn a_client_catches_up_with_the_entries_since_its_position<B: Backend>(backend: B) {
    let (store, other, run) = (backend.store(), backend.store(), run("later"));
    assert_eq!(store.catch_up(&run, Position::absent()).await.unwrap(), None, "the run does not exist");
    let mut positions = vec![Position::absent()];
    for n in 1..=12 {
        let commit = entry_commit(&run, positions[n - 1], &n.to_string());
        positions.push(store.commit(commit).await.unwrap());
    }
    for (after, position) in positions.iter().enumerate().skip(1) {
        let caught_up = other.catch_up(&run, *position).await.unwrap();
        assert_eq!(caught_up.is_some(), B::ENTRIES_DESCRIBE_EVERY_CHANGE);
        let Some(caught_up) = caught_up else { continue };
        assert_eq!(caught_up.position, positions[12]);
        let entries: Vec<_> = caught_up.entries.iter().map(|entry| entry.revision.0).collect();
        assert_eq!(entries, (after as u64 + 1..=12).collect::<Vec<_>>());
        assert!(caught_up.entries.iter().all(|entry| entry.body == entry.revision.to_string()));
    }
    // A client that has caught up can commit.
    let last = entry_commit(&run, positions[12], "last");
    assert_eq!(other.commit(last).await.unwrap().revision, Revision(13));
}

pub(crate) async fn an_earlier_revision_is_read_from_the_snapshot_before_it<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("past"));
    let mut position = Position::absent();
    for n in 1..=7 {
        let snapshot = (n % 3 == 0).then(|| format!("after {n}"));
        position =
            store.commit(Commit { snapshot, ..entry_commit(&run, position, &n.to_string()) }).await.unwrap();
    }
    for (revision, newest) in
        [(0, None), (2, None), (3, Some(3)), (5, Some(3)), (6, Some(6)), (u64::MAX, Some(6))]
    {
        let snapshot = store.snapshot_at(&run, Revision(revision)).await.unwrap();
        assert_eq!(snapshot.map(|snapshot| snapshot.revision.0), newest, "at {revision}");
    }
    let between = async |after, last| {
        bodies(&store.entries_between(&run, Revision(after), Revision(last)).await.unwrap())
            .into_iter()
            .map(|(revision, _)| revision)
            .collect::<Vec<_>>()
    };
    assert_eq!(between(3, 5).await, [4, 5]);
    assert_eq!(between(6, u64::MAX).await, [7]);
    assert!(between(5, 5).await.is_empty() && between(7, 9).await.is_empty());
    assert_eq!(store.snapshot_at(&super::run("other"), Revision(9)).await.unwrap(), None);
}

pub(crate) async fn acknowledged_items_leave_the_outbox<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("outbox"));
    let outbox = vec![item("z", "1"), item("a", "2"), item("m", "3")];
    let first = store.commit(Commit { outbox, ..entry_commit(&run, Position::absent(), "") }).await.unwrap();
    let second = Commit {
        acknowledged: vec!["a".to_owned(), "never there".to_owned(), "m".to_owned()],
        outbox: vec![item("b", "4"), item("m", "again")],
        ..entry_commit(&run, first, "")
    };
    store.commit(second).await.unwrap();
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!(loaded.outbox, [item("z", "1"), item("b", "4"), item("m", "again")]);
}

pub(crate) async fn a_write_id_resolves_to_its_position<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("resolved"));
    let commit = entry_commit(&run, Position::absent(), "");
    let landed = commit.write_id;
    assert_eq!(store.resolve_unknown_write(&run, landed).await.unwrap(), None);
    let position = store.commit(commit).await.unwrap();
    let refused = entry_commit(&run, Position::absent(), "");
    let lost = refused.write_id;
    store.commit(refused).await.unwrap_err();
    store.commit(entry_commit(&run, position, "")).await.unwrap();
    assert_eq!(store.resolve_unknown_write(&run, landed).await.unwrap(), Some(position));
    assert_eq!(store.resolve_unknown_write(&run, lost).await.unwrap(), None);
    assert_eq!(store.resolve_unknown_write(&super::run("other"), landed).await.unwrap(), None);
}

pub(crate) async fn a_commit_at_the_limit_lands_and_one_byte_more_is_refused<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("large"));
    let sized = |size: usize| {
        let mut commit = Commit {
            parts: vec![part("document", "{}")],
            outbox: vec![item("id", "{}")],
            acknowledged: vec!["id".to_owned()],
            views: vec![view_mark("view", 1)],
            snapshot: Some("{}".to_owned()),
            ..entry_commit(&run, Position::absent(), "")
        };
        commit.entry = "x".repeat(size - commit.size());
        commit
    };
    let error = store.commit(sized(B::LIMIT + 1)).await.unwrap_err();
    let CommitError::TooLarge { size, limit } = error else { panic!("{error}") };
    assert_eq!((size, limit), (B::LIMIT + 1, B::LIMIT));
    assert_eq!(store.load(&run).await.unwrap(), None);
    let commit = sized(B::LIMIT);
    let entry = commit.entry.clone();
    store.commit(commit).await.unwrap();
    assert!(store.entries(&run, Revision(0)).await.unwrap()[0].body == entry);
}

pub(crate) async fn blobs_come_back_by_their_digest<B: Backend>(backend: B) {
    let store = backend.store();
    let blobs = vec![b"one".to_vec(), vec![], vec![0, 255, 10, 13], b"one".to_vec()];
    let digests = store.put_blobs(blobs.clone()).await.unwrap();
    assert_eq!(digests, blobs.iter().map(Digest::of).collect::<Vec<_>>());
    assert_eq!(store.put_blobs(blobs.clone()).await.unwrap(), digests);
    for (digest, blob) in digests.iter().zip(blobs) {
        assert_eq!(backend.store().blob(digest).await.unwrap(), Some(blob));
    }
    assert_eq!(store.blob(&Digest::of("never put")).await.unwrap(), None);
}

pub(crate) async fn written_views_come_back<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("views"));
    let early = store.record_view_marks(&run, vec![view_mark("a.json", 1)]).await;
    assert!(matches!(early, Err(WriteError::NoSuchRun { .. })));
    let views = vec![view_mark("a.json", 1), view_mark("b.json", 1)];
    store.commit(Commit { views, ..entry_commit(&run, Position::absent(), "") }).await.unwrap();
    let changed = ViewMark { digest: Digest::of("new content"), ..view_mark("b.json", 2) };
    store.record_view_marks(&run, vec![changed.clone(), view_mark("c.json", 2)]).await.unwrap();
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!(loaded.views, [view_mark("a.json", 1), changed, view_mark("c.json", 2)]);
    assert_eq!(loaded.position.revision, Revision(1), "recording view marks is not a commit");
    // The process that has loaded the run knows its view marks; the next snapshot has those that it records, too.
    store.record_view_marks(&run, vec![view_mark("d.json", 2)]).await.unwrap();
    let snapshot = Some("state".to_owned());
    store.commit(Commit { snapshot, ..entry_commit(&run, loaded.position, "") }).await.unwrap();
    let views = backend.store().load(&run).await.unwrap().unwrap().views;
    assert_eq!(views[..3], loaded.views);
    assert_eq!(views[3..], [view_mark("d.json", 2)]);
}

pub(crate) async fn runs_are_found_by_prefix<B: Backend>(backend: B) {
    let store = backend.store();
    for name in ["fix", "fix-1", "fix.2", "fiy", "Fix", "fi", "fiw-zz"] {
        store.commit(entry_commit(&run(name), Position::absent(), "")).await.unwrap();
    }
    let found = async |prefix, at_most| {
        let found = store.runs_with_prefix(prefix, at_most).await.unwrap();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(found("fix", 9).await, ["fix", "fix-1", "fix.2"], "the exact name comes first");
    assert_eq!(found("fix", 2).await, ["fix", "fix-1"]);
    assert_eq!(found("fix-", 9).await, ["fix-1"]);
    assert_eq!(found("absent", 9).await, [""; 0]);
    assert_eq!(found("", 9).await.len(), 7);
}

pub(crate) async fn a_replaced_engine_is_fenced<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("fenced"));
    let from = |epoch: Epoch, position| Commit { epoch: Some(epoch), ..entry_commit(&run, position, "") };
    // The creator may lock the run before its first commit.
    let first = store.lock_engine(&run).await.unwrap().epoch();
    let created = store.commit(from(first, Position::absent())).await.unwrap();
    let second = store.lock_engine(&run).await.unwrap().epoch();
    assert!(second > first);
    assert_eq!(store.load(&run).await.unwrap().unwrap().epoch, second);
    // Whether its position is current or stale, the old engine must stop instead of reloading.
    for position in [created, Position::absent()] {
        let error = store.commit(from(first, position)).await.unwrap_err();
        let CommitError::Fenced { held, by } = error else { panic!("{error}") };
        assert_eq!((held, by), (first, second));
    }
    let next = store.commit(from(second, created)).await.unwrap();
    store.commit(entry_commit(&run, next, "from a person's command")).await.unwrap();
}

pub(crate) async fn an_engine_lock_is_released_when_it_is_dropped<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("locked"));
    let lock = store.lock_engine(&run).await.unwrap();
    assert_eq!(lock.run(), &run);
    let refused = backend.store().lock_engine(&run).await.unwrap_err();
    let EngineLockError::Held { pid, .. } = refused else { panic!("{refused}") };
    assert_eq!(pid, std::process::id());
    store.lock_engine(&super::run("another")).await.unwrap();
    let epoch = lock.epoch();
    drop(lock);
    assert_eq!(
        store.lock_engine(&run).await.unwrap().epoch(),
        epoch.next(),
        "a refused engine takes no epoch"
    );
}

pub(crate) async fn every_client_sees_the_engine<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("r"));
    assert_eq!(store.engine_holder(&run).await.unwrap(), None);
    let lock = store.lock_engine(&run).await.unwrap();
    assert_eq!(
        backend.store().engine_holder(&run).await.unwrap().map(|holder| holder.pid),
        Some(std::process::id())
    );
    assert_eq!(
        backend.store().peek_engine_holder(&run).await.unwrap(),
        store.engine_holder(&run).await.unwrap()
    );
    drop(lock);
    assert_eq!(store.engine_holder(&run).await.unwrap(), None);
    assert_eq!(store.peek_engine_holder(&run).await.unwrap(), None);
    assert_eq!(store.lock_engine(&run).await.unwrap().epoch().0, 2, "reading the holder takes no epoch");
}

pub(crate) async fn an_engine_waits_for_a_command_that_holds_the_lock_for_one_request<B: Backend>(
    backend: B,
) {
    let (store, run) = (backend.store(), run("r"));
    let one_shot = store.lock_engine_for(&run, LockPurpose::OneShot).await.unwrap();
    let (another, name) = (backend.store(), run.clone());
    let waiting = tokio::spawn(async move { another.lock_engine(&name).await.map(|lock| lock.epoch()) });
    assert_eq!(
        store.engine_holder(&run).await.unwrap().map(|holder| holder.purpose),
        Some(LockPurpose::OneShot)
    );
    drop(one_shot);
    assert_eq!(waiting.await.unwrap().unwrap().0, 2);
}

pub(crate) async fn a_removed_run_is_gone_and_its_name_is_free<B: Backend>(backend: B) {
    let (store, run, other) = (backend.store(), run("removed"), run("other"));
    let digest = store.put_blobs(vec![b"shared".to_vec()]).await.unwrap().remove(0);
    let whole = |run, position, entry| Commit {
        parts: vec![part("document", entry)],
        outbox: vec![item("pending", "{}")],
        views: vec![view_mark("run_state.json", 1)],
        snapshot: Some("state".to_owned()),
        ..entry_commit(run, position, entry)
    };
    let stale = store.commit(whole(&run, Position::absent(), "first")).await.unwrap();
    store.commit(whole(&other, Position::absent(), "other")).await.unwrap();
    let newest = store.commit(entry_commit(&run, stale, "second")).await.unwrap();
    let lock = store.lock_engine(&run).await.unwrap();
    let conflict = store.remove_run(&lock, stale).await.unwrap_err();
    assert!(matches!(conflict, CommitError::Conflict { .. }), "{conflict}");
    assert_eq!(store.newest_revision(&run).await.unwrap(), Some(Revision(2)), "nothing was removed");

    store.remove_run(&lock, newest).await.unwrap();
    let epoch = lock.epoch();
    lock.release().await;
    for store in [&store, &backend.store()] {
        assert_eq!(store.load(&run).await.unwrap(), None);
        assert_eq!(store.entries(&run, Revision(0)).await.unwrap(), []);
        assert_eq!(store.parts_at(&run, Revision(9)).await.unwrap(), []);
        let runs = store.runs().await.unwrap();
        assert_eq!(runs.iter().map(|row| &row.run).collect::<Vec<_>>(), [&other]);
        assert_eq!(store.blob(&digest).await.unwrap().as_deref(), Some(&b"shared"[..]));
    }
    let late = store.commit(entry_commit(&run, newest, "late")).await.unwrap_err();
    assert!(matches!(late, CommitError::Conflict { .. }), "{late}");
    let again = store.commit(entry_commit(&run, Position::absent(), "again")).await.unwrap();
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), [(1, "again")]);
    assert_eq!(store.load(&run).await.unwrap().unwrap().outbox, []);
    assert!(store.lock_engine(&run).await.unwrap().epoch() > epoch, "an engine of the removed run is fenced");
    store.commit(entry_commit(&run, again, "more")).await.unwrap();
    backend.verify();
}

pub(crate) async fn a_watch_continues_a_dropped_one<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("resumed"));
    let mut watch = backend.store().watch(&run, Revision(0)).await.unwrap();
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    assert_eq!(bodies(&watch.next().await.unwrap()), [(1, "1")]);
    let after = watch.after();
    drop(watch);
    let second = store.commit(entry_commit(&run, first, "2")).await.unwrap();
    store.commit(entry_commit(&run, second, "3")).await.unwrap();
    let mut watch = store.watch(&run, after).await.unwrap();
    assert_eq!(bodies(&watch.next().await.unwrap()), [(2, "2"), (3, "3")]);
}

pub(crate) async fn a_cancelled_wait_loses_nothing<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("dropped"));
    let mut watch = store.watch(&run, Revision(0)).await.unwrap();
    let mut position = Position::absent();
    for n in 1..=20 {
        // Each wait is cancelled at another time: before it reads, while it reads, while it waits.
        let cancelled = tokio::time::timeout(Duration::from_micros(n * 20), watch.next()).await;
        assert!(cancelled.is_err(), "nothing was committed");
        position = store.commit(entry_commit(&run, position, &n.to_string())).await.unwrap();
        assert_eq!(bodies(&watch.next().await.unwrap()), [(n, n.to_string().as_str())]);
    }
    // A commit to another run wakes the watcher, which waits again.
    let other = super::run("other");
    let mut waiting = std::pin::pin!(watch.next());
    let nothing = tokio::select! { biased;
        entries = &mut waiting => Some(entries),
        done = store.commit(entry_commit(&other, Position::absent(), "")) => { done.unwrap(); None }
    };
    assert!(nothing.is_none());
    store.commit(entry_commit(&run, position, "last")).await.unwrap();
    assert_eq!(bodies(&waiting.await.unwrap()), [(21, "last")]);
    assert_eq!(store.resolve_unknown_write(&run, WriteId::new()).await.unwrap(), None);
}
