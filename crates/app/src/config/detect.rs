//! Which checks the files of a project suggest: Cargo, npm, Python, Go, Make.
//!
//! A linter or a type checker is suggested only if the project configures it: its default rules may not be those of the
//! project, and it may not be installed. `go vet` is always suggested: it comes with Go and needs no configuration.

use std::fs;
use std::path::Path;

/// A check that a file of the project suggests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DetectedCheck {
    pub(super) name: String,
    pub(super) command: Vec<String>,
    /// The file that suggests it, relative to the root of the project.
    pub(super) file: &'static str,
}

fn detected_check(name: &str, command: &[&str], file: &'static str) -> DetectedCheck {
    DetectedCheck {
        name: name.to_owned(),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        file,
    }
}

/// Returns the checks of the project. If two languages have a check of the same name, that of the later one gets the
/// language as a prefix. A target of a makefile counts only if no other check has its name.
pub(super) fn detect(root: &Path) -> Vec<DetectedCheck> {
    let project = Project(root);
    let languages = [
        ("cargo", project.cargo()),
        ("npm", project.npm()),
        ("python", project.python()),
        ("go", project.go()),
    ];
    let mut all: Vec<DetectedCheck> = Vec::new();
    for (language, checks) in languages {
        for mut check in checks {
            if all.iter().any(|known| known.name == check.name) {
                check.name = format!("{language}-{}", check.name);
            }
            all.push(check);
        }
    }
    for check in project.make() {
        if all.iter().all(|known| known.name != check.name) {
            all.push(check);
        }
    }
    all
}

/// The files of a project. One that is missing or cannot be read suggests nothing.
struct Project<'a>(&'a Path);

impl Project<'_> {
    fn has(&self, file: &str) -> bool {
        self.0.join(file).is_file()
    }

    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.0.join(file)).ok()
    }

    fn toml(&self, file: &str) -> Option<toml::Table> {
        self.text(file)?.parse().ok()
    }

    /// Returns the first of the files that exists.
    fn first_existing(&self, files: &[&'static str]) -> Option<&'static str> {
        files.iter().copied().find(|file| self.has(file))
    }

    fn cargo(&self) -> Vec<DetectedCheck> {
        const FILE: &str = "Cargo.toml";
        let Some(manifest) = self.toml(FILE) else { return Vec::new() };
        let is_workspace = manifest.contains_key("workspace");
        let command = |words: &[&'static str]| {
            let workspace = is_workspace.then_some("--workspace");
            words.iter().copied().chain(workspace).collect::<Vec<_>>()
        };
        let clippy = self.first_existing(&["clippy.toml", ".clippy.toml"]).or_else(|| {
            let has_lints = |path: &[&str]| has_table(&manifest, path);
            (has_lints(&["lints", "clippy"]) || has_lints(&["workspace", "lints", "clippy"])).then_some(FILE)
        });
        let lint =
            clippy.map(|file| detected_check("lint", &command(&["cargo", "clippy", "--all-targets"]), file));
        [detected_check("test", &command(&["cargo", "test"]), FILE)].into_iter().chain(lint).collect()
    }

    fn npm(&self) -> Vec<DetectedCheck> {
        const FILE: &str = "package.json";
        // The text of the failing `test` script that `npm init` writes.
        const NO_TEST: &str = "no test specified";
        const SCRIPTS: [(&str, &str); 3] = [("test", "test"), ("lint", "lint"), ("types", "typecheck")];
        let Some(text) = self.text(FILE) else { return Vec::new() };
        let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let program = match self.first_existing(&["pnpm-lock.yaml", "yarn.lock"]) {
            Some("pnpm-lock.yaml") => "pnpm",
            Some(_) => "yarn",
            None => "npm",
        };
        let script = |(name, script): (&str, &str)| {
            let line = package["scripts"][script].as_str()?;
            (!line.contains(NO_TEST)).then(|| detected_check(name, &[program, "run", script], FILE))
        };
        SCRIPTS.into_iter().filter_map(script).collect()
    }

    fn python(&self) -> Vec<DetectedCheck> {
        const FILE: &str = "pyproject.toml";
        let settings = self.toml(FILE).unwrap_or_default();
        let in_settings = |tool: &str| has_table(&settings, &["tool", tool]).then_some(FILE);
        let in_setup = |section: &str| {
            let has_section = self.text("setup.cfg")?.lines().any(|line| line.trim() == section);
            has_section.then_some("setup.cfg")
        };
        let pytest = self.first_existing(&["pytest.ini", ".pytest.ini", "conftest.py"]);
        let pytest = pytest.or_else(|| in_settings("pytest")).or_else(|| in_setup("[tool:pytest]"));
        let ruff = self.first_existing(&["ruff.toml", ".ruff.toml"]).or_else(|| in_settings("ruff"));
        let mypy = self.first_existing(&["mypy.ini", ".mypy.ini"]);
        let mypy = mypy.or_else(|| in_settings("mypy")).or_else(|| in_setup("[mypy]"));
        let checks = [
            pytest.map(|file| detected_check("test", &["pytest"], file)),
            ruff.map(|file| detected_check("lint", &["ruff", "check"], file)),
            mypy.map(|file| detected_check("types", &["mypy", "."], file)),
        ];
        checks.into_iter().flatten().collect()
    }

    fn go(&self) -> Vec<DetectedCheck> {
        const FILE: &str = "go.mod";
        match self.has(FILE) {
            true => vec![
                detected_check("test", &["go", "test", "./..."], FILE),
                detected_check("lint", &["go", "vet", "./..."], FILE),
            ],
            false => Vec::new(),
        }
    }

    fn make(&self) -> Vec<DetectedCheck> {
        const TARGETS: [(&str, &str); 4] =
            [("test", "test"), ("lint", "lint"), ("types", "types"), ("types", "typecheck")];
        let Some(file) = self.first_existing(&["GNUmakefile", "makefile", "Makefile"]) else {
            return Vec::new();
        };
        let text = self.text(file).unwrap_or_default();
        // `a b: c` is a rule for `a` and `b`; `a := b` and `a = b:c` are variables.
        let targets: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with([' ', '\t', '#']))
            .filter_map(|line| {
                line.split_once(':').filter(|(targets, rest)| {
                    !targets.contains('=') && !rest.trim_start_matches(':').starts_with('=')
                })
            })
            .flat_map(|(targets, _)| targets.split_whitespace())
            .collect();
        let mut checks: Vec<DetectedCheck> = Vec::new();
        for (name, target) in TARGETS {
            if targets.contains(&target) && checks.iter().all(|known| known.name != name) {
                checks.push(detected_check(name, &["make", target], file));
            }
        }
        checks
    }
}

fn has_table(table: &toml::Table, path: &[&str]) -> bool {
    let [first, rest @ ..] = path else { return true };
    table.get(*first).and_then(toml::Value::as_table).is_some_and(|table| has_table(table, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the checks of a project with these files, one per line.
    fn detected(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(root.path().join(name), text).unwrap();
        }
        let line =
            |check: DetectedCheck| format!("{} = {} ({})", check.name, check.command.join(" "), check.file);
        detect(root.path()).into_iter().map(line).collect()
    }

    #[test]
    fn a_cargo_project_is_tested_and_linted_if_it_configures_clippy() {
        let test = "test = cargo test (Cargo.toml)";
        assert_eq!(detected(&[("Cargo.toml", "[package]\n")]), [test]);
        let lint = "lint = cargo clippy --all-targets (Cargo.toml)";
        assert_eq!(detected(&[("Cargo.toml", "[lints.clippy]\nall = 'warn'\n")]), [test, lint]);
        assert_eq!(
            detected(&[("Cargo.toml", "[workspace]\n"), ("clippy.toml", "")]),
            [
                "test = cargo test --workspace (Cargo.toml)",
                "lint = cargo clippy --all-targets --workspace (clippy.toml)"
            ]
        );
    }

    #[test]
    fn the_scripts_of_a_package_are_run_by_its_package_manager() {
        let package =
            r#"{"scripts": {"typecheck": "tsc", "test": "jest", "lint": "eslint .", "build": "vite"}}"#;
        assert_eq!(
            detected(&[("package.json", package)]),
            [
                "test = npm run test (package.json)",
                "lint = npm run lint (package.json)",
                "types = npm run typecheck (package.json)"
            ]
        );
        let fresh = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1", "lint": "x"}}"#;
        assert_eq!(
            detected(&[("package.json", fresh), ("pnpm-lock.yaml", "")]),
            ["lint = pnpm run lint (package.json)"]
        );
        assert_eq!(detected(&[("package.json", "{")]), [""; 0]);
    }

    #[test]
    fn tools_of_python_count_if_they_are_configured() {
        assert_eq!(detected(&[("pyproject.toml", "[project]\nname = 'x'\n")]), [""; 0]);
        let settings = "[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\n";
        assert_eq!(
            detected(&[("pyproject.toml", settings)]),
            [
                "test = pytest (pyproject.toml)",
                "lint = ruff check (pyproject.toml)",
                "types = mypy . (pyproject.toml)"
            ]
        );
        let old = [("setup.cfg", "[tool:pytest]\n[mypy]\n"), (".ruff.toml", "")];
        assert_eq!(
            detected(&old),
            ["test = pytest (setup.cfg)", "lint = ruff check (.ruff.toml)", "types = mypy . (setup.cfg)"]
        );
    }

    #[test]
    fn rules_of_a_makefile_count_and_its_variables_and_recipes_do_not() {
        let makefile =
            "test := x\ntest = docker run test:v1\nlint types: all\n\techo test: no\n# test: no\nall:\n";
        assert_eq!(
            detected(&[("Makefile", makefile)]),
            ["lint = make lint (Makefile)", "types = make types (Makefile)"]
        );
    }

    #[test]
    fn a_second_language_gets_a_prefix_and_make_fills_what_is_missing() {
        let files = [
            ("Cargo.toml", "[package]\n"),
            ("go.mod", "module x\n"),
            ("Makefile", "test: all\nlint:\ntypecheck:\n"),
        ];
        assert_eq!(
            detected(&files),
            [
                "test = cargo test (Cargo.toml)",
                "go-test = go test ./... (go.mod)",
                "lint = go vet ./... (go.mod)",
                "types = make typecheck (Makefile)"
            ]
        );
    }
}
