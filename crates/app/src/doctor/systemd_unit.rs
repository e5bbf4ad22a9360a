//! The systemd user unit that resumes the runs of a repository after a reboot.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use store::{NatsAuth, NatsSettings, Tls};

use super::DoctorContext;
use crate::config::{Config, Origin, StoreAddress};
use crate::output::shell_word;

/// Returns the text of the unit.
pub(crate) fn systemd_unit(context: &DoctorContext, program: &Path) -> String {
    let name = context.repo.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let (repo, path) = (context.repo.display().to_string(), std::env::var("PATH").unwrap_or_default());
    let settings = match &context.nats {
        Some(nats) => UnitSettings::for_nats(context, nats, &name),
        None => UnitSettings::for_sqlite(context.store().filter(|_| context.has_configured_store())),
    };
    let UnitSettings { install_steps, start_limit, environment, .. } = &settings;
    format!(
        "# callboard doctor --unit{flags} > ~/.config/systemd/user/callboard-{name}.service
{install_steps}# systemctl --user enable callboard-{name}.service
# loginctl enable-linger
[Unit]
Description=callboard resumes the runs of {repo}
{start_limit}
[Service]
Type=oneshot
# The engines that it starts belong to this unit and run until it is stopped.
RemainAfterExit=yes
WorkingDirectory={repo}
# Agents are found in this PATH; the default PATH of systemd may not contain them.
Environment=\"PATH={path}\"
{environment}{start}
[Install]
WantedBy=default.target
",
        flags = context.flags,
        start = settings.start(&escape_percent(&shell_word(program))),
        repo = escape_percent(&repo),
        path = escape_value(&path),
    )
}

/// The parts of the unit that depend on the store.
#[derive(Debug, Default)]
struct UnitSettings {
    /// The value of `--store`; `None` if the unit finds the store without it. Contains no secret.
    store: Option<PathBuf>,
    /// What the user does before enabling the unit, as comments.
    install_steps: String,
    start_limit: &'static str,
    /// Variables without secrets, and the file with those that are secret.
    environment: String,
    is_nats: bool,
}

impl UnitSettings {
    fn for_sqlite(store: Option<PathBuf>) -> Self {
        Self { store, ..Self::default() }
    }

    /// Returns the parts for a store on NATS, with what this process has in its environment and a unit would not have.
    fn for_nats(context: &DoctorContext, nats: &NatsSettings, name: &str) -> Self {
        let origin = context.config.as_ref().ok().and_then(Config::store_origin);
        let is_in_a_file = matches!(origin, Some(Origin::ProjectFile(_) | Origin::UserFile(_)));
        let mut unit = Self {
            store: (!is_in_a_file).then(|| nats.server().into()),
            // A server may take any time to start: never give up.
            start_limit: "StartLimitIntervalSec=0\n",
            is_nats: true,
            ..Self::default()
        };
        let (auth, tls) = access_without_environment(&context.repo, unit.store.clone());
        if let Some(host) = std::env::var_os("CALLBOARD_HOST").filter(|host| !host.is_empty()) {
            unit.set_variable("CALLBOARD_HOST", &host.to_string_lossy());
        }
        if tls != nats.tls {
            let identity = nats.tls.identity.as_ref();
            let files = [
                ("NATS_CA", nats.tls.roots.as_ref()),
                ("NATS_CERT", identity.map(|(certificate, _)| certificate)),
                ("NATS_KEY", identity.map(|(_, key)| key)),
            ];
            for (variable, file) in files {
                file.into_iter().for_each(|file| unit.set_path(variable, file));
            }
        }
        if auth != nats.auth {
            unit.set_access(&nats.auth, name);
        }
        unit
    }

    /// Returns the commands of the unit. For a store on NATS, `ls` runs first and exits with 5 until a server answers;
    /// nothing has started by then, so systemd may repeat it.
    fn start(&self, program: &str) -> String {
        let store =
            self.store.as_ref().map(|store| escape_percent(&format!(" --store {}", shell_word(store))));
        let store = store.unwrap_or_default();
        if !self.is_nats {
            return format!("ExecStart={program} resume --all{store}\n");
        }
        format!(
            "# Exits with 5 until a server answers, then is repeated: a user unit cannot wait for the network.
ExecStartPre={program} ls --unfinished{store}
Restart=on-failure
RestartSec=10
# The minus sign ignores the exit code: a run that cannot be resumed is logged and does not stop the others.
ExecStart=-{program} resume --all{store}
"
        )
    }

    fn set_access(&mut self, auth: &NatsAuth, name: &str) {
        match auth {
            NatsAuth::Anonymous => {}
            NatsAuth::Password { user, .. } => {
                self.set_secrets(name, &[format!("NATS_USER={user}"), "NATS_PASSWORD=…".to_owned()]);
            }
            NatsAuth::Token(_) => self.set_secrets(name, &["NATS_TOKEN=…".to_owned()]),
            NatsAuth::Credentials(file) => self.set_path("NATS_CREDS", file),
            NatsAuth::Nkey(file) => self.set_path("NATS_NKEY", file),
        }
    }

    fn set_path(&mut self, name: &str, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.set_variable(name, &path.to_string_lossy());
    }

    fn set_variable(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.environment, "Environment=\"{name}={}\"", escape_value(value));
    }

    /// Refers to a file for the secrets, because other users may read a unit.
    fn set_secrets(&mut self, name: &str, lines: &[String]) {
        let directory = Config::user_directory().unwrap_or_else(|| PathBuf::from("/etc/callboard"));
        let file = directory.join(format!("callboard-{name}.env"));
        self.install_steps = format!(
            "# install -D -m 600 /dev/null {}   # then write these lines into it, with your secret:\n{}",
            shell_word(&file),
            lines.iter().map(|line| format!("#   {line}\n")).collect::<String>()
        );
        let _ = writeln!(self.environment, "EnvironmentFile={}", escape_percent(&file.display().to_string()));
    }
}

/// Returns the credentials and TLS settings that a process without our environment would have.
fn access_without_environment(repo: &Path, store: Option<PathBuf>) -> (NatsAuth, Tls) {
    let config = Config::without_environment(repo, store);
    match config.as_ref().ok().and_then(Config::store) {
        Some(StoreAddress::Nats(settings)) => (settings.auth.clone(), settings.tls.clone()),
        Some(StoreAddress::Directory(_)) | None => Default::default(),
    }
}

/// Escapes a value between quotation marks.
fn escape_value(text: &str) -> String {
    escape_percent(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Doubles percent signs, which are specifiers in a unit.
fn escape_percent(text: &str) -> String {
    text.replace('%', "%%")
}
