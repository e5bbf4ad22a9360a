//! Reads real files in a temporary folder, and compares exact positions and messages.

use std::fs;

use supervisor::adapter::ReportRule;

use super::error::ErrorLocation;
use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> Option<PathBuf> {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        Some(path)
    }

    /// Loads `text` as the project's file and returns the errors without the path of the file.
    fn errors(&self, text: &str) -> String {
        let project_file = self.file(PROJECT_FILE, text);
        let errors = Config::load(Sources { project_file, ..Sources::default() }).expect_err(text);
        let shown: Vec<String> = errors
            .0
            .iter()
            .map(|error| {
                let ErrorLocation::File { line, column, .. } = &error.location else { panic!("{error:?}") };
                let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                format!("{line}:{column} {}{hint}", error.message)
            })
            .collect();
        shown.join("\n")
    }

    fn config(&self, text: &str) -> Config {
        let project_file = self.file(PROJECT_FILE, text);
        Config::load(Sources { project_file, ..Sources::default() }).unwrap()
    }
}

fn variable(name: &str, value: &str) -> (OsString, OsString) {
    (name.into(), value.into())
}

fn number(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap()
}

#[test]
fn without_any_source_the_defaults_hold() {
    let config = Config::load(Sources::default()).unwrap();
    assert_eq!(config.jobs().origin, Origin::Default);
    assert_eq!(config.max_attempts, Sourced::new(number(2), Origin::Default));
    assert_eq!(config.store, None);
    assert!(config.adapters.is_empty());
}

#[test]
fn the_strongest_source_wins_and_is_the_origin() {
    let folder = Folder::new();
    let all = "jobs = 1\nmax_attempts = 1\nstore = 'user'\n";
    let user_file = folder.file("config.toml", all);
    let user = Origin::UserFile(user_file.clone().unwrap());
    let mut sources = Sources { user_file, ..Sources::default() };
    assert_eq!(Config::load(sources.clone()).unwrap().jobs(), Sourced::new(number(1), user.clone()));

    sources.project_file = folder.file(PROJECT_FILE, "jobs = 2\nmax_attempts = 2\n");
    let project = Origin::ProjectFile(sources.project_file.clone().unwrap());
    assert_eq!(Config::load(sources.clone()).unwrap().jobs(), Sourced::new(number(2), project.clone()));

    sources.env = vec![variable("CALLBOARD_JOBS", "3"), variable("CALLBOARD_MAX_ATTEMPTS", "")];
    let environment = Origin::Environment("CALLBOARD_JOBS");
    assert_eq!(Config::load(sources.clone()).unwrap().jobs(), Sourced::new(number(3), environment));

    sources.flags.jobs = Some(number(4));
    let config = Config::load(sources).unwrap();
    assert_eq!(config.jobs(), Sourced::new(number(4), Origin::Flag("--jobs")));
    assert_eq!(config.max_attempts, Sourced::new(number(2), project));
    let address = StoreAddress::Directory(folder.0.path().join("user"));
    assert_eq!(config.store, Some(Sourced::new(address, user)));
}

#[test]
fn an_adapter_is_replaced_as_a_whole() {
    let folder = Folder::new();
    let user_file = folder.file(
        "config.toml",
        "[adapters.coder]\ncommand = ['old']\ntimeout = 5\n[adapters.mine]\nshell = 'x | y'\n",
    );
    let project_file = folder.file(PROJECT_FILE, "[adapters.coder]\nwrapper = 'tools/wrap.py'\n");
    let config = Config::load(Sources { user_file, project_file, ..Sources::default() }).unwrap();
    let coder = &config.adapters["coder"].value;
    let program = folder.0.path().join("tools/wrap.py");
    assert_eq!(coder.launch, Launch::Wrapper { program, args: vec![] });
    assert_eq!((coder.report, coder.timeout), (ReportRule::Required, None));
    let mine = &config.adapters["mine"].value;
    assert_eq!(mine.launch, Launch::Shell("x | y".to_owned()));
    assert_eq!(mine.report, ReportRule::ExitCode);
}

#[test]
fn rows_show_every_value_and_its_origin_but_no_secret() {
    let folder = Folder::new();
    let config = folder.config(
        "store = '/var/lib/board'\n\
         [adapters.codex]\n\
         command = ['codex', 'exec', 'a \"b\"']\n\
         report = 'required'\n\
         env = { API_KEY = 'hunter2' }\n\
         pass_env = ['SSH_AUTH_SOCK']\n\
         timeout = '1h30m'\n\
         grace = '500ms'\n\
         [adapters.'my agent']\n\
         wrapper = '/bin/wrap'\n\
         args = ['-v']\n",
    );
    let rows = config.rows(Path::new("/unused"), Path::new("/unused"), None);
    let shown: Vec<_> = rows.iter().skip(1).map(|row| format!("{} = {}", row.key, row.value)).collect();
    assert_eq!(
        shown,
        [
            r#"max_attempts = 2"#,
            r#"backoff = "2s""#,
            r#"store = "/var/lib/board""#,
            r#"worktree.setup = []"#,
            r#"worktree.merge = "merge""#,
            r#"adapters.codex.command = ["codex", "exec", 'a "b"']"#,
            r#"adapters.codex.report = "required""#,
            r#"adapters.codex.timeout = "5400s""#,
            r#"adapters.codex.grace = "500ms""#,
            r#"adapters.codex.env.API_KEY = ***"#,
            r#"adapters.codex.pass_env = ["SSH_AUTH_SOCK"]"#,
            r#"adapters."my agent".wrapper = "/bin/wrap""#,
            r#"adapters."my agent".args = ["-v"]"#,
            r#"adapters."my agent".report = "required""#,
        ]
    );
    let project = folder.0.path().join(PROJECT_FILE);
    assert_eq!(rows[0].origin.to_string(), "default");
    assert_eq!(rows[3].origin.to_string(), project.to_string_lossy());
}

#[test]
fn rows_show_worktree_settings_and_unknown_adapters_of_roles_are_found() {
    let folder = Folder::new();
    let config = folder.config(
        "[worktree]\nmerge = 'rebase'\n[adapters.codex]\ncommand = ['codex']\n\
         [roles.review]\nadapter = 'codex'\n[roles.steps.code]\nadapter = 'codx'\n",
    );
    let rows = config.rows(Path::new("/unused"), Path::new("/unused"), Some(Path::new("/home/trees")));
    let worktree_rows = rows.iter().filter(|row| row.key.starts_with("worktree."));
    let worktree_rows: Vec<_> = worktree_rows.map(|row| format!("{} = {}", row.key, row.value)).collect();
    assert_eq!(
        worktree_rows,
        [r#"worktree.dir = "/home/trees""#, "worktree.setup = []", r#"worktree.merge = "rebase""#]
    );
    let project = Origin::ProjectFile(folder.0.path().join(PROJECT_FILE));
    assert_eq!(config.unknown_adapters(), [("roles.steps.code.adapter".to_owned(), "codx", &project)]);
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    let folder = Folder::new();
    assert_eq!(
        folder.errors("job = 3\n\ncolour = 'ä'\n[adapters.x]\ncommand = ['x']\ntimout = 3\n"),
        "1:1 unknown key `job` (did you mean `jobs`?)\n\
         3:1 unknown key `colour` (known keys: jobs, max_attempts, backoff, store, notify, adapters, roles, worktree, checks)\n\
         6:1 unknown key `adapters.x.timout` (did you mean `timeout`?)"
    );
}

#[test]
fn invalid_values_are_refused_with_their_position() {
    let folder = Folder::new();
    for (text, expected) in [
        ("jobs = 0", "1:8 `jobs` is 0; it must be a whole number from 1"),
        ("jobs = -1", "1:8 `jobs` is -1; it must be a whole number from 1"),
        ("jobs = '2'", "1:8 `jobs` is a string where a whole number is expected"),
        ("max_attempts = 1.5", "1:16 `max_attempts` is a number where a whole number is expected"),
        ("store = ''", "1:9 `store` is empty"),
        (
            "store = '~/x'",
            "1:9 `store` begins with `~`, which only a shell expands \
             (write an absolute path, or one relative to this file)",
        ),
        (
            "store = 'nats://u:secret@'",
            "1:9 `store`: the address of server 1 is not a host and port \
             (write `nats://127.0.0.1:4222` or `tls://host:4222`; separate several servers by commas)",
        ),
        (
            "store = 'http://h'",
            "1:9 `store`: the address of server 1 begins with `http://`; use nats:// or tls:// \
             (write `nats://127.0.0.1:4222` or `tls://host:4222`; separate several servers by commas)",
        ),
        ("store = 3", "1:9 `store` is a number where a directory, an address or a table is expected"),
        ("[store]\naddres = 'a'", "2:1 unknown key `store.addres` (did you mean `address`?)"),
        (
            "[store]\nbucket = 'a b.c'",
            "2:10 `store.bucket` is not a valid bucket name: use letters, digits, `-` and `_`",
        ),
        ("[store]\nreplicas = 7", "2:12 `store.replicas` is more than 5, the limit of NATS"),
        ("[store]\ncert = 'c'", "2:8 `store.cert` and `store.key` must both be set; one is missing"),
        ("adapters = 3", "1:12 `adapters` is a number where a table is expected"),
    ] {
        assert_eq!(folder.errors(text), expected, "{text}");
    }
}

#[test]
fn invalid_adapters_are_refused() {
    let folder = Folder::new();
    for (lines, expected) in [
        (
            "",
            "1:11 `adapters.x` has no `command`, `shell` or `wrapper` \
             (set `command = [\"program\", \"argument\"]`, `shell = \"line\"` or `wrapper = \"path\"`)",
        ),
        (
            "command = ['a']\nshell = 'b'",
            "3:9 `adapters.x` has both `command` and `shell` (keep one of them)",
        ),
        (
            "command = 'a b'",
            "2:11 `command` is a string where a list of strings is expected \
             (write a list of program and arguments, or `shell = \"a b\"`)",
        ),
        ("command = []", "2:11 `command` names no program"),
        ("command = ['a', 1]", "2:17 `command` is a number where a string is expected"),
        (
            "command = ['a']\nargs = ['b']",
            "3:8 `args` is allowed with `wrapper` only (move the arguments into `command`)",
        ),
        (
            "wrapper = 'w'\nreport = 'exit-code'",
            "3:10 a wrapper cannot use `exit-code`: its exit code is that of the wrapper, not of the agent \
             (remove `report`, or use `command` in place of `wrapper`)",
        ),
        (
            "shell = 'a'\nreport = 'exit_code'",
            "3:10 `report` cannot be \"exit_code\" (did you mean \"exit-code\"?)",
        ),
        (
            "shell = 'a'\nsilence = 'long'",
            "3:11 invalid `silence`: `long` is not a length of time; write seconds, or `90s`, `10m`, `2h`, `1h30m`",
        ),
        ("shell = 'a'\nenv = { K = 1 }", "3:13 `env.K` must be a string"),
        ("shell = 'a'\nenv = { 'A=B' = 'x' }", "3:9 `A=B` in `env` is not a valid variable name"),
        (
            "shell = 'a'\npass_env = ['CALLBOARD_ATTEMPT']",
            "3:13 `CALLBOARD_ATTEMPT` in `pass_env` cannot be set: `CALLBOARD_` variables mark attempts of the engine",
        ),
    ] {
        assert_eq!(folder.errors(&format!("[adapters.x]\n{lines}\n")), expected, "{lines}");
    }
}

#[test]
fn broken_files_and_variables_are_reported_together() {
    let folder = Folder::new();
    let project_file = folder.file(PROJECT_FILE, "jobs = \n");
    let user_file = folder.file("config.toml", "jobs = 0\n");
    let env = vec![variable("CALLBOARD_JOBS", "many"), variable("CALLBOARD_ATTEMPT", "a#1.1")];
    let errors = Config::load(Sources { project_file, user_file, env, ..Sources::default() }).unwrap_err();
    let shown = errors.to_string().replace(folder.0.path().to_str().unwrap(), "");
    assert_eq!(
        shown,
        "environment variable `CALLBOARD_JOBS`: `many` is not a whole number from 1\n\
         /callboard.toml:1:8: invalid TOML: string values must be quoted, expected literal string\n\
         /config.toml:1:8: `jobs` is 0; it must be a whole number from 1"
    );
}

#[test]
fn a_missing_file_is_ignored_and_an_unreadable_one_is_an_error() {
    let folder = Folder::new();
    let missing = Some(folder.0.path().join("none.toml"));
    assert!(Config::load(Sources { project_file: missing, ..Sources::default() }).is_ok());
    let directory = Some(folder.0.path().to_owned());
    let errors = Config::load(Sources { project_file: directory, ..Sources::default() }).unwrap_err();
    assert_eq!(errors.0[0].location, ErrorLocation::WholeFile(folder.0.path().to_owned()));
}

#[test]
fn options_of_a_nats_store_are_merged_and_its_secrets_are_not_shown() {
    let folder = Folder::new();
    let text = "[store]\naddress = 'nats://one:4222,nats://two:4222'\nreplicas = 1\noutages = '10s'\n\
                user = 'ann'\npassword = 'hush'\nca = 'ca.pem'\n";
    let sources = Sources {
        project_file: folder.file(PROJECT_FILE, text),
        env: vec![variable("NATS_PASSWORD", "louder"), variable("CALLBOARD_STORE", "")],
        ..Sources::default()
    };
    let config = Config::load(sources).unwrap();
    let Some(StoreAddress::Nats(settings)) = config.store() else { panic!("{config:?}") };
    assert_eq!(settings.servers, ["nats://one:4222", "nats://two:4222"]);
    assert_eq!((settings.replicas, settings.timeouts.outage), (1, Duration::from_secs(10)));
    let auth = ::store::NatsAuth::Password { user: "ann".to_owned(), password: "louder".to_owned() };
    assert_eq!(settings.auth, auth);
    assert_eq!(settings.tls.roots, Some(folder.0.path().join("ca.pem")));
    let rows: Vec<_> = config
        .rows(Path::new("/unused"), Path::new("/"), None)
        .into_iter()
        .map(|row| (row.key, row.value))
        .collect();
    assert!(rows.contains(&("store.password".to_owned(), "***".to_owned())), "{rows:?}");
    let shown = format!("{config:?}{rows:?}");
    assert!(!shown.contains("hush") && !shown.contains("louder"), "{shown}");
}

#[test]
fn a_short_outage_timeout_shortens_the_request_timeout() {
    let folder = Folder::new();
    for (outages, request) in [("2s", 1), ("10s", 5)] {
        let text = format!("[store]\naddress = 'nats://one'\noutages = '{outages}'\n");
        let project_file = folder.file(PROJECT_FILE, &text);
        let config = Config::load(Sources { project_file, ..Sources::default() }).unwrap();
        let Some(StoreAddress::Nats(settings)) = config.store() else { panic!("{config:?}") };
        assert_eq!(settings.timeouts.request, Duration::from_secs(request), "{outages}");
    }
}

#[test]
fn a_stronger_address_or_directory_replaces_a_weaker_one() {
    let folder = Folder::new();
    let mut sources = Sources {
        project_file: folder.file(PROJECT_FILE, "store = 'nats://ann:pw@here'\n"),
        env: vec![variable("NATS_TOKEN", "token")],
        ..Sources::default()
    };
    let config = Config::load(sources.clone()).unwrap();
    let Some(StoreAddress::Nats(settings)) = config.store() else { panic!("{config:?}") };
    assert!(matches!(settings.auth, ::store::NatsAuth::Password { .. }), "the user in the address wins");
    sources.flags.store = Some("/other".into());
    let config = Config::load(sources).unwrap();
    assert_eq!(config.store(), Some(&StoreAddress::Directory("/other".into())));
}

#[test]
fn checks_are_read_in_the_order_of_the_file() {
    let folder = Folder::new();
    let text = "[checks]\ntypes = ['tsc']\n[checks.test]\ncommand = ['cargo', 'test']\ntimeout = '10m'\n";
    let config = folder.config(text);
    let checks = config.checks.resolve(folder.0.path());
    let shown: Vec<_> = checks
        .iter()
        .map(|check| format!("{} {:?} {:?}", check.value.name, check.value.command, check.value.timeout))
        .collect();
    assert_eq!(shown, [r#"types ["tsc"] 1800s"#, r#"test ["cargo", "test"] 600s"#]);
}

#[test]
fn checks_are_detected_only_without_a_table_of_checks() {
    let folder = Folder::new();
    folder.file("go.mod", "module x\n");
    let names = |text: &str| {
        let checks = folder.config(text).checks.resolve(folder.0.path());
        checks.into_iter().map(|check| format!("{} {}", check.value.name, check.origin)).collect::<Vec<_>>()
    };
    let (go, toml) = (folder.0.path().join("go.mod"), folder.0.path().join(PROJECT_FILE));
    let (go, toml) = (go.display(), toml.display());
    assert_eq!(names(""), [format!("test detected in {go}"), format!("lint detected in {go}")]);
    assert_eq!(names("[checks]\nfast = ['true']\n"), [format!("fast {toml}")]);
    assert_eq!(names("[checks]\n"), [""; 0]);
}

#[test]
fn a_check_of_the_project_replaces_that_of_the_user() {
    let folder = Folder::new();
    let project_file = folder.file(PROJECT_FILE, "[checks]\ntest = ['ours']\n");
    let user_file = folder.file("user.toml", "[checks]\ntest = ['mine']\nspell = ['typos']\n");
    let config = Config::load(Sources { project_file, user_file, ..Sources::default() }).unwrap();
    let checks = config.checks.resolve(folder.0.path());
    let commands: Vec<_> = checks.iter().map(|check| check.value.command.join(" ")).collect();
    assert_eq!(commands, ["ours", "typos"]);
}

#[test]
fn errors_in_checks_have_a_position() {
    let folder = Folder::new();
    let text = "[checks]\na = 'cargo test'\nb = []\nc = { comand = ['x'] }\nd = ['x', 7]\n\
                e = { command = ['x'], timeout = 'soon' }\n";
    assert_eq!(
        folder.errors(text),
        "2:5 `checks.a` is a string where a list of strings or a table is expected\n\
         3:5 `checks.b` names no program\n\
         4:5 `checks.c` has no `command` (write `command = [\"PROGRAM\", \"ARGUMENT\"]`)\n\
         4:7 unknown key `checks.c.comand` (did you mean `command`?)\n\
         5:11 `checks.d` is a number where a string is expected\n\
         6:34 invalid `checks.e.timeout`: `soon` is not a length of time; write seconds, or `90s`, `10m`, `2h`, `1h30m`"
    );
}
