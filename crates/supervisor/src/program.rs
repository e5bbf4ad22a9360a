//! Finds a program as the kernel and the shell do, before an attempt depends on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Returns the path of a program, or `None` if it is missing or not executable. A path is relative to `cwd`; a bare
/// name is searched in `path`.
pub fn find_program(program: &str, path: &OsStr, cwd: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(cwd.join(program)).filter(|file| can_run(file));
    }
    // An empty entry means the current directory, as in a shell.
    std::env::split_paths(path).map(|directory| cwd.join(directory).join(program)).find(|file| can_run(file))
}

fn can_run(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_is_an_executable_file_at_its_path_or_in_the_search_path() {
        let root = tempfile::tempdir().unwrap();
        let create = |name: &str, mode| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let agent = create("bin/agent", 0o755);
        create("first/agent", 0o644);
        fs::create_dir_all(root.path().join("first/folder")).unwrap();
        let path = OsStr::new("first:bin");
        let find = |program: &str| find_program(program, path, root.path());
        assert_eq!(find("agent"), Some(agent.clone()));
        assert_eq!(find("bin/agent"), Some(agent.clone()));
        assert_eq!(find(agent.to_str().unwrap()), Some(agent));
        for missing in ["folder", "first/agent", "missing", "bin/missing"] {
            assert_eq!(find(missing), None, "{missing}");
        }
    }
}
