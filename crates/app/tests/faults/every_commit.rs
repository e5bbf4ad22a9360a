//! The engine of a team is killed before and after every commit, and during every spawn.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex};

use protocol::entry::Entry;
use protocol::run::Refusal;
use protocol::team::{Definition, Limits, ModeChoice, Team};
use protocol::{Outcome, PROTOCOLS, Revision, RunId, Timestamp, protocol_kind};
use runner::{Clock, Engine, EngineConfig, EngineError, EngineExit, EngineRequest, History, RunAtRevision};
use serde_json::Value;
use store::{LockPurpose, Store};
use supervisor::ShimProgram;
use testkit::harness::{self, CommitFault, FaultyStore};
use testkit::{TeamSchemas, TestEnv};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::faults::test_env;

/// What the agents do, by attempt. `pm` is the project manager; its verdict `BAZINGA` says that the work is complete.
/// Each agent appends the number of messages in its prompt to the file `received`.
const AGENTS: &str = r#"
verdict() { extra_fields=", \"verdict\": \"$1\", \"summary\": \"s\", \"feedback\": \"f\"$2"; write_report COMPLETED "$1"; }
echo "$CALLBOARD_ATTEMPT received $(grep -c '"id": "msg_' "$PROMPT_PATH")" >>"$shared/received"
case $CALLBOARD_ATTEMPT in
pm.plan*) verdict PLANNING_COMPLETE ', "mode": "simple", "mode_reasoning": "it is small",
  "all_tasks": [{"id": "T1", "description": "a"}],
  "task_groups": [{"id": "main", "name": "All", "tasks": ["T1"], "files_affected": ["a.txt"]}]' ;;
*.developer*) echo done >a.txt; verdict READY_FOR_QA ;;
*.qa*) verdict PASS ;;
*.tech_lead*) verdict approved ;;
pm.check*) verdict BAZINGA ;;
esac
"#;

/// The attempts of an undisturbed run: plan, developer, QA, tech lead and check.
const ATTEMPTS: usize = 5;

/// The commits before and after which an engine was killed, each as the text of its changes.
#[derive(Debug, Default)]
struct Kills {
    before: BTreeSet<String>,
    after: BTreeSet<String>,
    during_spawns: usize,
}

impl Kills {
    /// Returns whether to kill the engine: before a commit the first time, after the same commit the second time.
    fn choose_kill(&mut self, entry: &Entry) -> Option<CommitFault> {
        let changes = changes_text(entry)?;
        if self.before.insert(changes.clone()) {
            Some(CommitFault::KilledBefore)
        } else {
            self.after.insert(changes).then_some(CommitFault::KilledAfter)
        }
    }
}

/// Returns the changes of an entry as text; `None` if it has none, as the entry of an engine that resumes the run.
fn changes_text(entry: &Entry) -> Option<String> {
    (!entry.changes.is_empty()).then(|| format!("{:?}", entry.changes))
}

/// A run of a team with one group.
struct TeamRun {
    test_env: TestEnv,
    run: RunId,
    /// `None` if no engine is killed.
    kills: Option<Arc<Mutex<Kills>>>,
}

/// What a run whose engines were killed must have in common with an undisturbed one.
#[derive(Debug, PartialEq)]
struct FinishedRun {
    commits: Vec<String>,
    files: Vec<(String, Value)>,
    received: Vec<String>,
    /// Why git refused to fast-forward the user's branch to the work.
    not_merged: Option<String>,
}

impl TeamRun {
    fn open(kills: Option<Arc<Mutex<Kills>>>) -> Self {
        let test_env = test_env();
        test_env.git(&["commit", "--quiet", "--allow-empty", "--message=start"]);
        fs::write(test_env.agent_dir().join("team.sh"), AGENTS).unwrap();
        test_env.script_agent(&[r#"* * do . "$shared/team.sh""#]);
        // Git refuses to fast-forward the user's branch over this untracked file.
        test_env.write("a.txt", "mine\n");
        // The first shim of each attempt is held: it announces itself in `spawned`, upon which its engine is killed, and waits
        // for a line in `release`. `alive` is open while such a shim lives.
        for pipe in ["spawned", "release", "alive"] {
            test_env.barrier(pipe);
        }
        // The directory of an attempt (`$2`) gets the file `held` from its first shim.
        let (shared, program) = (test_env.agent_dir(), test_env.program().display().to_string());
        let shim = format!(
            "#!/bin/sh\nif (set -C; : >\"$2/held\") 2>/dev/null; then\nexec 9>'{shared}/alive'\necho >'{shared}/spawned'\n\
             read -r _ <'{shared}/release'\nfi\nexec '{program}' \"$@\"\n",
            shared = shared.display()
        );
        test_env.write_program("../shared/shim.sh", &shim);
        let team_run = Self { test_env, run: RunId::new("trial").unwrap(), kills };
        harness::block_on(team_run.open_in_store());
        team_run
    }

    async fn open_in_store(&self) {
        let store = harness::open_store(self.test_env.repo(), None).await;
        let definition = Definition {
            request: "Do it".to_owned(),
            mode: ModeChoice::Auto,
            limits: Limits::default(),
            timeout: None,
            prompts: Default::default(),
        };
        let profile = harness::wrapper(&self.test_env.agent_path());
        let mut spec = harness::run_spec(&definition, &self.run, self.test_env.repo(), Some(profile));
        let worktrees = harness::worktrees(&self.test_env, &self.run);
        spec.options.worktrees = Some(supervisor::git::WorktreeOptions { no_merge: false, ..worktrees });
        let kind = protocol_kind::<Team>();
        runner::open(&store, &Clock::system(), kind, harness::test_author(), spec).await.unwrap();
    }

    /// Drives the run until it ends, or its engine is killed. A killed engine leaves its shims and agents.
    fn drive(&self) -> Option<EngineExit> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let exit =
            runtime.block_on(async { tokio::time::timeout(testkit::DEADLINE, self.run_engine()).await });
        runtime.shutdown_background();
        exit.expect("the run ends")
    }

    async fn run_engine(&self) -> Option<EngineExit> {
        let store = harness::open_store(self.test_env.repo(), None).await;
        let mut config = EngineConfig {
            effects: callboard::effects(),
            ..harness::engine_config(&store, self.test_env.program())
        };
        let kills = self.kills.clone();
        if kills.is_some() {
            let program = self.test_env.agent_dir().join("shim.sh");
            config.shim = ShimProgram { program, args: vec!["__shim".into()] };
        }
        let store = FaultyStore::with_fault_for_entry(store, move |entry| {
            kills.as_ref()?.lock().unwrap().choose_kill(entry)
        });
        let mut spawned = pipe::OpenOptions::new()
            .read_write(true)
            .open_receiver(self.test_env.agent_dir().join("spawned"))
            .unwrap();
        let faulty: Arc<dyn Store> = store.clone();
        let mut observer = ();
        let engine =
            Engine::lock(&faulty, config, &self.run, LockPurpose::Engine, &mut observer).await.unwrap();
        let (_keep, interrupts) = mpsc::unbounded_channel();
        tokio::select! {
            biased;
            () = store.killed.notified() => None,
            _ = spawned.read_u8() => {
                self.kills.as_ref().unwrap().lock().unwrap().during_spawns += 1;
                None
            }
            exit = engine.drive(EngineRequest::to_resume(None), interrupts) => match exit {
                // The engine before this one was killed after the commit that ended the run: nothing is left to resume.
                Err(EngineError::Refused(Refusal::Succeeded)) => {
                    Some(EngineExit::Finished(Outcome::Succeeded))
                }
                exit => Some(exit.unwrap()),
            },
        }
    }

    /// Returns how many shims were held so far: one for each engine that was killed during a spawn.
    fn held_shims(&self) -> usize {
        self.kills.as_ref().map_or(0, |kills| kills.lock().unwrap().during_spawns)
    }

    /// Drives the run until it has succeeded.
    fn run_to_success(self) -> FinishedRun {
        let open = |name| {
            let mut options = fs::File::options();
            options.read(true).write(name == "release");
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
            options.open(self.test_env.agent_dir().join(name)).unwrap()
        };
        let (mut release, mut alive) = (open("release"), open("alive"));
        let mut held = 0;
        let exit = loop {
            let released = held;
            held = self.held_shims();
            let exit = self.drive();
            // Release the shims that were held before this engine. They lose the claim: this engine has started others.
            release.write_all(&vec![b'\n'; held - released]).unwrap();
            if let Some(exit) = exit {
                break exit;
            }
        };
        assert_eq!(exit, EngineExit::Finished(Outcome::Succeeded));
        release.write_all(&vec![b'\n'; self.held_shims() - held]).unwrap();
        rustix::fs::fcntl_setfl(&alive, rustix::fs::OFlags::empty()).unwrap();
        alive.read_to_end(&mut Vec::new()).unwrap();
        harness::block_on(self.finished_run())
    }

    async fn finished_run(&self) -> FinishedRun {
        let store = harness::open_store(self.test_env.repo(), None).await;
        let run_at = RunAtRevision::load(store.as_ref(), PROTOCOLS, &self.run, None).await.unwrap().unwrap();
        let views = run_at.machine().document().views();
        assert_eq!(TeamSchemas::new().violations(&views), Vec::<String>::new());
        let entries = store.entries(&self.run, Revision(0)).await.unwrap();
        let received = fs::read_to_string(self.test_env.agent_dir().join("received")).unwrap();
        FinishedRun {
            commits: entries
                .iter()
                .filter_map(|entry| changes_text(&Entry::decode(&entry.body).unwrap()))
                .collect(),
            files: views
                .iter()
                .map(|view| {
                    (relative_path(&view.path), without_times(serde_json::from_str(&view.body).unwrap()))
                })
                .collect(),
            received: received.lines().map(str::to_owned).collect(),
            not_merged: History::read(store.as_ref(), &self.run, run_at.revision).await.unwrap().not_merged,
        }
    }
}

/// Returns the path of a view, relative to the directory `coordination`.
fn relative_path(path: &str) -> String {
    path.rsplit_once("coordination/").unwrap().1.to_owned()
}

/// Replaces or drops what differs between two runs: times, and what is made from times or from commit ids.
fn without_times(value: Value) -> Value {
    match value {
        Value::String(text) if text.parse::<Timestamp>().is_ok() => "TIME".into(),
        Value::String(text) if text.starts_with("v4_") => "SESSION".into(),
        Value::String(text) if text.starts_with("msg_") => text.rsplit('_').next().unwrap().into(),
        Value::Array(items) => items.into_iter().map(without_times).collect(),
        Value::Object(members) => {
            let is_kept = |name: &str| !["duration_minutes", "total_time", "commits"].contains(&name);
            members
                .into_iter()
                .filter(|(name, _)| is_kept(name))
                .map(|(name, value)| (name, without_times(value)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

// On NATS the lease of each killed engine would have to expire.
#[test]
fn embedded_a_team_killed_at_every_commit_and_every_spawn_ends_like_an_undisturbed_one() {
    let undisturbed = TeamRun::open(None).run_to_success();
    assert_eq!(undisturbed.received.len(), ATTEMPTS, "{undisturbed:?}");
    let why = undisturbed.not_merged.as_deref().unwrap_or_default();
    assert!(why.contains("would be overwritten by merge: a.txt"), "{why}");

    let kills = Arc::new(Mutex::new(Kills::default()));
    let disturbed = TeamRun::open(Some(kills.clone())).run_to_success();
    assert_eq!(disturbed, undisturbed);
    let kills = kills.lock().unwrap();
    // The first entry opens the run, before it has an engine.
    let commits: BTreeSet<_> = undisturbed.commits[1..].iter().cloned().collect();
    assert_eq!((&kills.before, &kills.after), (&commits, &commits));
    assert_eq!(kills.during_spawns, ATTEMPTS);
}
