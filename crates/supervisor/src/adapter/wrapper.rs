//! A program that takes the six flags of the wrapper contract in `docs/agents.md`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::assignment::Assignment;

/// A wrapper program and the arguments that follow the six flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapper {
    /// An absolute path, or a name to be found in `PATH`.
    pub program: String,
    pub args: Vec<String>,
}

/// The interpreter of a Python script that is not executable.
const PYTHON: &str = "python3";

impl Wrapper {
    /// Returns the program that is started: the wrapper, or its interpreter.
    pub(super) fn executable(&self) -> &str {
        if needs_python(&self.program) { PYTHON } else { &self.program }
    }

    pub fn argv(&self, assignment: &Assignment) -> Vec<String> {
        let flags = [
            ("--run-id", assignment.run.as_str()),
            ("--step-id", assignment.step()),
            ("--agent", &assignment.agent),
            ("--prompt", &assignment.prompt_path),
            ("--repo", &assignment.repo),
            ("--report", &assignment.report_path),
        ];
        let interpreter = needs_python(&self.program).then(|| PYTHON.to_owned());
        let program = interpreter.into_iter().chain([self.program.clone()]);
        let flags = flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_owned()]);
        program.chain(flags).chain(self.args.iter().cloned()).collect()
    }
}

/// Whether the program is a Python script that is not executable. Checked for each attempt, because the file's mode may change.
fn needs_python(program: &str) -> bool {
    let executable = |data: fs::Metadata| data.permissions().mode() & 0o111 != 0;
    Path::new(program).extension().is_some_and(|extension| extension == "py")
        && fs::metadata(program).is_ok_and(|data| data.is_file() && !executable(data))
}

#[cfg(test)]
mod tests {
    use super::super::assignment::example;
    use super::*;

    #[test]
    fn a_wrapper_gets_the_six_flags_and_then_its_own_arguments() {
        let wrapper = Wrapper {
            program: "/opt/wrap.sh".to_owned(),
            args: vec!["--model".to_owned(), "x y".to_owned()],
        };
        #[rustfmt::skip]
        assert_eq!(
            wrapper.argv(&example()),
            ["/opt/wrap.sh", "--run-id", "f8c1", "--step-id", "code-review", "--agent", "re \"viewer\"",
             "--prompt", "/tmp/a b/prompt.md", "--repo", "/home/me/it's mine", "--report", "/tmp/a b/report.json",
             "--model", "x y"]
        );
    }

    #[test]
    fn a_python_script_that_is_not_executable_is_started_with_python() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wrap.py");
        fs::write(&path, "").unwrap();
        let program = path.to_str().unwrap().to_owned();
        let argv = || Wrapper { program: program.clone(), args: Vec::new() }.argv(&example());
        assert_eq!(argv()[..2], ["python3".to_owned(), program.clone()]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(argv()[0], program);
        fs::remove_file(&path).unwrap();
        assert_eq!(argv()[0], program, "starting a missing script reports the error");
    }
}
