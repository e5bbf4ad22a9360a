//! A run of `issue`, tortured until its pull request is there: effects on git and on a tracker, and one build that fails.

use std::fs;
use std::path::PathBuf;

use fastrand::Rng;

use super::chaos::{Chaos, server_was_down};
use super::run_history::RunHistory;
use super::{Tally, Torture};
use crate::test_env::{Running, TestEnv};

/// The script of the agents. The check fails after the writer's first change and passes after its second.
const AGENTS: [&str; 5] = [
    r#"triage * do extra_fields=', "triage": {"should_proceed": true}'; write_report COMPLETED triaged"#,
    r#"analyst * do extra_fields=', "analysis": {"issue_type": "BUG_FIX", "brief": "b", "test_requirement": {"required": false}}'; sleep 0.02; write_report COMPLETED analysed"#,
    r#"writer * do case $STEP_ITERATION in 1) echo dim ;; *) echo on ;; esac >light; extra_fields=', "writer": {"summary": "The light is on."}'; sleep 0.02; write_report COMPLETED wrote"#,
    r#"reviewer * do extra_fields=', "review": {"verdict": "APPROVED"}'; write_report COMPLETED reviewed"#,
    "* * work 0.02",
];

pub(super) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let test_env = TestEnv::new(&torture.program);
    test_env.script_agent(&AGENTS);
    let tracker = set_up(&test_env);
    let mut trial =
        Trial { chaos: Chaos::new(&test_env, Rng::with_seed(seed), kills), tracker, seed, resumes: 0 };
    trial.run_to_success();
    let run_history = RunHistory::read(&test_env.journal("trial"));
    for (step, history) in &run_history.steps {
        history.check_attempts(&format!("seed {seed}, step {step}, {history:?}"));
    }
    test_env.agent_log().started_once(format_args!("seed {seed}"));
    trial.check_effects();
    test_env.expect_no_orphans();
    tally.add(&trial.chaos);
    tally.add_history(&run_history);
    tally.issue_runs += 1;
    tally.resumes += trial.resumes;
}

/// Makes a remote, a check and the file of an issue. Returns the directory of that file, to which comments and pull
/// requests are written as well.
fn set_up(test_env: &TestEnv) -> PathBuf {
    test_env.write("callboard.toml", "[checks]\ntest = ['grep', '-q', 'on', 'light']\n");
    test_env.git(&["add", "--all"]);
    test_env.git(&["commit", "--quiet", "-m", "set up"]);
    let remote = test_env.agent_dir().join("remote.git").display().to_string();
    test_env.git(&["init", "--quiet", "--bare", &remote]);
    test_env.git(&["remote", "add", "origin", &remote]);
    let tracker = test_env.agent_dir().join("tracker");
    fs::create_dir_all(&tracker).expect("the shared directory is writable");
    let issue = r#"{"number": 42, "title": "The light is off", "body": "", "labels": [], "url": ""}"#;
    fs::write(tracker.join("issue.json"), issue).expect("the shared directory is writable");
    tracker
}

struct Trial<'s> {
    chaos: Chaos<'s>,
    tracker: PathBuf,
    seed: u64,
    resumes: u32,
}

impl<'s> Trial<'s> {
    fn start(&self) -> Running<'s> {
        let test_env: &'s TestEnv = self.chaos.test_env;
        let file = self.tracker.join("issue.json").display().to_string();
        test_env.with_agent(&["issue", &file, "--run-id", "trial", "--close", "--continue"]).start()
    }

    /// Starts and kills engines until one exits by itself and the run has succeeded.
    fn run_to_success(&mut self) {
        let (test_env, seed): (&'s TestEnv, _) = (self.chaos.test_env, self.seed);
        let mut engine = self.start();
        loop {
            let is_killed = self.chaos.disturb(&engine);
            if is_killed {
                self.chaos.wait_killed(engine, seed);
            } else {
                let session = engine.wait();
                // A refusal means that the run has ended: the engine before was killed after its last commit.
                let ended =
                    session.code == 3 && self.chaos.newest_status(seed).as_deref() == Some("succeeded");
                if session.code == 0 || ended {
                    return;
                }
                assert!(server_was_down(&session), "seed {seed}: failed:\n{}", session.transcript());
            }
            self.resumes += 1;
            let is_opened = !self.chaos.runs(seed).is_empty();
            engine = if is_opened { test_env.callboard(&["resume", "trial"]).start() } else { self.start() };
        }
    }

    /// Fails unless each effect was performed exactly once.
    fn check_effects(&self) {
        let (test_env, seed) = (self.chaos.test_env, self.seed);
        let commits = test_env.git(&["rev-list", "main..agent/issue-42"]);
        assert_eq!(commits.lines().count(), 1, "seed {seed}: commits: {commits}");
        let remote = self.tracker.with_file_name("remote.git").display().to_string();
        let pushed = test_env.git(&["--git-dir", &remote, "rev-parse", "agent/issue-42"]);
        assert_eq!(pushed, commits, "seed {seed}: the remote has another commit");
        let files = fs::read_dir(&self.tracker).expect("the tracker is there").flatten();
        let mut names: Vec<_> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        let expected = ["closed-1.json", "comment-1.json", "issue.json", "pull-request-1.json"];
        assert_eq!(names, expected, "seed {seed}: an effect is missing or repeated");
    }
}
