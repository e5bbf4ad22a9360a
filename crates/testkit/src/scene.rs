//! A place to run in: a git repository, a home of its own, and the scripted agent.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::RunId;
use rustix::fs::{CWD, Mode};
use serde_json::Value;
use store::Store as _;
use tempfile::TempDir;

use crate::backing::Backing;
use crate::command::Callboard;
use crate::harness;
use crate::ledger::Ledger;
use crate::nats::Server;

const AGENT: &str = include_str!("agent.sh");

/// A temporary git repository in which the real binary runs with an environment of its own.
#[derive(Debug)]
pub struct Scene {
    /// Removed with the scene.
    _directory: TempDir,
    repo: PathBuf,
    program: PathBuf,
    backing: Backing,
    store: PathBuf,
}

impl Scene {
    /// `program` is the built `callboard`. Its runs are in the store that the tests run on.
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self::named(program, "repo")
    }

    /// The same, with the repository in a directory of this name.
    pub fn named(program: impl AsRef<Path>, name: &str) -> Self {
        Self::backed(program, name, Backing::chosen())
    }

    /// One whose runs are on this server, whatever the tests run on.
    pub fn on(server: Server, program: impl AsRef<Path>) -> Self {
        Self::backed(program, "repo", server.into())
    }

    fn backed(program: impl AsRef<Path>, name: &str, backing: Backing) -> Self {
        let directory =
            tempfile::Builder::new().prefix("callboard-").tempdir().expect("a temporary directory");
        // Paths in the output are the real ones.
        let root = directory.path().canonicalize().expect("it was just made");
        let repo = root.join(name);
        let mut scene = Self {
            store: repo.join(".git/callboard"),
            repo,
            _directory: directory,
            program: program.as_ref().to_owned(),
            backing,
        };
        for made in [scene.repo(), &scene.home(), &scene.kit()] {
            fs::create_dir_all(made).expect("a directory can be made");
        }
        scene.write_program(scene.agent(), AGENT);
        symlink(&scene.program, scene.kit().join("callboard")).expect("a link can be made");
        mkfifo(&scene.kit().join("never"));
        scene.git(&["init", "--quiet", "--initial-branch=main"]);
        scene.write("task.md", "Do what the step says.\n");
        scene.git(&["add", "."]);
        scene.git(&["commit", "--quiet", "--message=begin"]);
        if let Backing::Nats { .. } = scene.backing {
            // Its servers are one, and it is asked where what it needs on this machine will be.
            scene.write("../home/.config/callboard/config.toml", "[store]\nreplicas = 1\n");
            // Of somebody who has no runtime, for whoever asks us may have one.
            let asked = std::thread::scope(|scope| scope.spawn(|| scene.open_store()).join());
            scene.store = asked.expect("the server answers").local_dir().root().to_owned();
        }
        scene
    }

    pub fn repo(&self) -> &Path {
        &self.repo
    }

    /// What the agent and tests share, outside the repository.
    pub fn kit(&self) -> PathBuf {
        self.repo.with_file_name("kit")
    }

    pub fn home(&self) -> PathBuf {
        self.repo.with_file_name("home")
    }

    /// The directory of the store, with the attempts; of one on NATS, what is of it on this machine.
    pub fn store(&self) -> PathBuf {
        self.store.clone()
    }

    pub fn backing(&self) -> &Backing {
        &self.backing
    }

    /// The scripted agent, which takes the flags of the wrapper contract and ignores them.
    pub fn agent(&self) -> PathBuf {
        self.kit().join("agent.sh")
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.kit().join("ledger"))
    }

    /// The directory of an attempt, such as `plan` and `1.1`.
    pub fn attempt(&self, run: &str, step: &str, number: &str) -> PathBuf {
        self.store().join("attempts").join(run).join(step).join(number)
    }

    pub fn view(&self, run: &str) -> PathBuf {
        self.repo.join(".agents/runs").join(run).join("run_state.json")
    }

    /// The document as a reader of the view sees it now.
    #[track_caller]
    pub fn document(&self, run: &str) -> Value {
        let text = fs::read_to_string(self.view(run)).expect("the view is there");
        serde_json::from_str(&text).expect("a view is always whole")
    }

    /// Waits until the view shows something.
    #[track_caller]
    pub fn wait_for_view(&self, run: &str, what: &str, look: impl Fn(&Value) -> bool) -> Value {
        let view = self.view(run);
        fs::create_dir_all(view.parent().expect("a view lies in a directory")).expect("it can be made");
        crate::until(view.parent().expect("as above"), what, || {
            let text = fs::read_to_string(&view).ok()?;
            let document = serde_json::from_str(&text).expect("a view is always whole");
            look(&document).then_some(document)
        })
    }

    /// Waits until a run's engine, which nobody here started, has ended.
    #[track_caller]
    pub fn wait_for_engine(&self, run: &str) {
        if let Some(engine) = self.engine(run).and_then(crate::Held::of) {
            engine.wait();
        }
    }

    /// The process that leads a run, or did.
    #[track_caller]
    pub fn engine(&self, run: &str) -> Option<i32> {
        match self.backing {
            Backing::Embedded => {
                let signature = fs::read_to_string(self.store.join("engines").join(format!("{run}.lock")));
                let signature = signature.expect("an engine has signed its lock");
                let pid = signature.split(' ').next().and_then(|pid| pid.parse().ok());
                Some(pid.expect("it begins with its pid"))
            }
            Backing::Nats { .. } => {
                let run = RunId::new(run).expect("a name");
                let holder =
                    harness::wait(self.open_store().engine_holder(&run)).expect("the server answers");
                holder.map(|holder| i32::try_from(holder.pid).expect("a pid is small"))
            }
        }
    }

    /// Writes a file of the repository.
    pub fn write(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.repo.join(name);
        fs::create_dir_all(path.parent().expect("a file lies in a directory")).expect("it can be made");
        fs::write(&path, text).expect("the file can be written");
        path
    }

    /// Writes a program, into the repository unless its path says otherwise.
    pub fn write_program(&self, path: impl AsRef<Path>, script: &str) -> PathBuf {
        let path = self.write(path, script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        path
    }

    /// Writes `wf.yaml` with steps given as `id: need need`, all played by agent `profile` with the prompt `task.md`.
    pub fn workflow(&self, steps: &[&str]) -> PathBuf {
        let mut text = "name: trial\nsteps:\n".to_owned();
        for step in steps {
            let (id, needs) = step.split_once(':').unwrap_or((step, ""));
            let needs: Vec<_> = needs.split_whitespace().collect();
            text.push_str(&format!("  - id: {id}\n    agent: profile\n    prompt: task.md\n"));
            if !needs.is_empty() {
                text.push_str(&format!("    needs: [{}]\n", needs.join(", ")));
            }
        }
        self.write("wf.yaml", &text)
    }

    /// The same with more keys, steps given as in YAML: `id: review, needs: [code], loop_back_to: code`.
    pub fn workflow_of(&self, steps: &[&str]) -> PathBuf {
        let steps = steps.iter().map(|step| format!("  - {{agent: profile, prompt: task.md, {step}}}\n"));
        self.write("wf.yaml", &format!("name: trial\nsteps:\n{}", steps.collect::<String>()))
    }

    /// Tells the agent how to behave; see `agent.sh` for the words.
    pub fn plan(&self, lines: &[&str]) {
        fs::write(self.kit().join("plan"), lines.join("\n") + "\n").expect("the plan can be written");
    }

    /// A gate for the behaviour `wait NAME`.
    pub fn gate(&self, name: &str) -> Gate {
        let path = self.kit().join(name);
        mkfifo(&path);
        Gate { path, held: None }
    }

    /// Waits for a file that an agent leaves beside the ledger, and tells what is in it.
    #[track_caller]
    pub fn wait_for_note(&self, name: &str) -> String {
        let path = self.kit().join(name);
        crate::until(&self.kit(), name, || path.exists().then_some(()));
        fs::read_to_string(path).expect("a note is text")
    }

    /// The binary, ready to be given arguments.
    pub fn callboard(&self, arguments: &[&str]) -> Callboard<'_> {
        Callboard::new(self, arguments)
    }

    /// The same with `--wrapper AGENT` at the end: whatever it plays, the scripted agent plays.
    pub fn played(&self, arguments: &[&str]) -> Callboard<'_> {
        self.played_with(arguments, &[])
    }

    /// `callboard run wf.yaml --run-id RUN --wrapper AGENT`.
    pub fn run_named(&self, run: &str) -> Callboard<'_> {
        self.played(&["run", "wf.yaml", "--run-id", run])
    }

    /// `callboard run wf.yaml --run-id trial --wrapper AGENT`, and more arguments.
    pub fn run(&self, more: &[&str]) -> Callboard<'_> {
        self.played_with(&["run", "wf.yaml", "--run-id", "trial"], more)
    }

    fn played_with(&self, arguments: &[&str], more: &[&str]) -> Callboard<'_> {
        let agent = self.agent();
        let agent = agent.to_str().expect("our paths are UTF-8");
        self.callboard(&[arguments, &["--wrapper", agent], more].concat())
    }

    /// The journal of a run, oldest entry first.
    #[track_caller]
    pub fn journal(&self, run: &str) -> Vec<Value> {
        let log = self.callboard(&["log", run, "--json"]).run();
        assert_eq!(log.code, 0, "{}", log.stderr);
        log.events()
    }

    /// Fails if anything of an attempt is alive.
    #[track_caller]
    pub fn expect_no_orphans(&self) {
        crate::expect_no_orphans(&self.store());
    }

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Tester", "-c", "user.email=tester@example.com"])
            .args(arguments)
            .current_dir(&self.repo)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .expect("git can be run");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Takes off what differs from run to run: see [`crate::redact()`].
    pub(crate) fn redact(&self, text: &str) -> String {
        let root = self.repo.parent().expect("the repository lies in the scene's directory");
        // A store on NATS is named by its server or by its directory, whichever is meant; never by who was let in.
        let text = match self.backing {
            Backing::Embedded => text.to_owned(),
            Backing::Nats { .. } => {
                text.replace(&format!("nats://{}", self.backing.server().address()), "[STORE]")
            }
        };
        let places = [
            (self.store(), "[STORE]"),
            (self.kit(), "[KIT]"),
            (self.repo.clone(), "[REPO]"),
            (root.to_owned(), "[DIR]"),
        ];
        let text = places
            .iter()
            .fold(text, |text, (path, name)| text.replace(path.to_str().expect("our paths are UTF-8"), name));
        crate::redact::redact(&text)
    }
}

impl Drop for Scene {
    /// A failed test may leave agents that wait for ever: they are ours, and marked, so they can be ended.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for orphan in crate::orphans(&self.store()) {
                orphan.kill();
            }
        }
    }
}

/// A place where agents wait until a test lets them go.
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
    held: Option<File>,
}

impl Gate {
    /// Lets everybody through who waits, and everybody who comes later.
    pub fn open(&mut self) {
        // Opened for both, so that it does not block; held, so that the lines stay in the pipe.
        let mut pipe = OpenOptions::new().read(true).write(true).open(&self.path).expect("the gate is there");
        // Whoever passes takes one line.
        pipe.write_all(&[b'\n'; 1000]).expect("a pipe holds more than this");
        self.held = Some(pipe);
    }
}

fn mkfifo(path: &Path) {
    rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a pipe can be made");
}

/// The status of a step in a view.
pub fn status<'d>(document: &'d Value, step: &str) -> &'d str {
    document["steps"][step]["status"].as_str().unwrap_or("no such step")
}

/// What happened last to a step, in a view.
pub fn last_error<'d>(document: &'d Value, step: &str) -> &'d str {
    document["steps"][step]["last_error"].as_str().unwrap_or_default()
}
