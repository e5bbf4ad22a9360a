//! What a unit needs besides for a store on NATS: who we are, and patience with servers that begin later than we do.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use store::{Access, NatsSettings, Tls};

use super::Ground;
use super::reboot::literal;
use crate::config::{Config, Origin, StoreAddress};
use crate::output::shell_word;

/// What differs from one unit to the next. Of an embedded store it is little.
#[derive(Debug, Default)]
pub(super) struct Particulars {
    /// The store, if no file names it. No secret is in it.
    store: Option<PathBuf>,
    /// What to do before it is enabled, as comments.
    pub(super) papers: String,
    pub(super) patience: &'static str,
    /// Variables that are no secret, and the file of those that are.
    pub(super) variables: String,
    is_shared: bool,
}

impl Particulars {
    pub(super) fn of_embedded(store: Option<PathBuf>) -> Self {
        Self { store, ..Self::default() }
    }

    /// Compares what is set here with what a process finds that has none of our variables.
    pub(super) fn of_shared(ground: &Ground, settings: &NatsSettings, name: &str) -> Self {
        let origin = ground.config.as_ref().ok().and_then(Config::store_origin);
        let is_in_a_file = matches!(origin, Some(Origin::ProjectFile(_) | Origin::UserFile(_)));
        let mut unit = Self {
            store: (!is_in_a_file).then(|| settings.server().into()),
            // A server may take as long as it likes to come up.
            patience: "StartLimitIntervalSec=0\n",
            is_shared: true,
            ..Self::default()
        };
        let (access, tls) = found(&ground.repo, unit.store.clone());
        if let Some(host) = std::env::var_os("CALLBOARD_HOST").filter(|host| !host.is_empty()) {
            unit.variable("CALLBOARD_HOST", &host.to_string_lossy());
        }
        if tls != settings.tls {
            let identity = settings.tls.identity.as_ref();
            let files = [
                ("NATS_CA", settings.tls.roots.as_ref()),
                ("NATS_CERT", identity.map(|(certificate, _)| certificate)),
                ("NATS_KEY", identity.map(|(_, key)| key)),
            ];
            for (variable, file) in files {
                file.into_iter().for_each(|file| unit.path(variable, file));
            }
        }
        if access != settings.access {
            unit.papers_of(&settings.access, name);
        }
        unit
    }

    /// How it starts. Of a store on NATS a question comes first, which ends with 5 as long as no server answers: by then
    /// nothing has begun, so it does no harm to try again.
    pub(super) fn start(&self, program: &str) -> String {
        let store = self.store.as_ref().map(|store| literal(&format!(" --store {}", shell_word(store))));
        let store = store.unwrap_or_default();
        if !self.is_shared {
            return format!("ExecStart={program} resume --all{store}\n");
        }
        format!(
            "# Ends with 5 as long as no server answers, and is tried again: a user's unit cannot wait for the network.
ExecStartPre={program} ls --unfinished{store}
Restart=on-failure
RestartSec=10
# With a minus: one run that cannot go on is told in the log of this unit, and does not end the others.
ExecStart=-{program} resume --all{store}
"
        )
    }

    /// How the unit is let in.
    fn papers_of(&mut self, access: &Access, name: &str) {
        match access {
            Access::Anonymous => {}
            Access::Password { user, .. } => {
                self.file(name, &[format!("NATS_USER={user}"), "NATS_PASSWORD=…".to_owned()]);
            }
            Access::Token(_) => self.file(name, &["NATS_TOKEN=…".to_owned()]),
            Access::Credentials(file) => self.path("NATS_CREDS", file),
            Access::Nkey(file) => self.path("NATS_NKEY", file),
        }
    }

    fn path(&mut self, name: &str, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.variable(name, &path.to_string_lossy());
    }

    fn variable(&mut self, name: &str, value: &str) {
        let value = literal(value).replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(self.variables, "Environment=\"{name}={value}\"");
    }

    /// A secret does not stand in a unit, which others may read.
    fn file(&mut self, name: &str, secrets: &[String]) {
        let directory = Config::user_directory().unwrap_or_else(|| PathBuf::from("/etc/callboard"));
        let file = directory.join(format!("callboard-{name}.env"));
        let word = shell_word(&file);
        self.papers = format!(
            "# install -D -m 600 /dev/null {word}   # and write into it, with your secret:\n{}",
            secrets.iter().map(|line| format!("#   {line}\n")).collect::<String>()
        );
        let _ = writeln!(self.variables, "EnvironmentFile={}", literal(&file.display().to_string()));
    }
}

/// How a process without our variables would come there.
fn found(repo: &Path, store: Option<PathBuf>) -> (Access, Tls) {
    let config = Config::without_environment(repo, store);
    match config.as_ref().ok().and_then(Config::store) {
        Some(StoreAddress::Nats(settings)) => (settings.access.clone(), settings.tls.clone()),
        Some(StoreAddress::Directory(_)) | None => Default::default(),
    }
}
