//! Finding a program as the kernel and the shell would, before an attempt depends on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Where a program is, `None` if starting it would fail: a path counts from `cwd`, a bare name is searched in `path`.
pub fn find_program(program: &str, path: &OsStr, cwd: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(cwd.join(program)).filter(|file| can_run(file));
    }
    // An empty entry means the current directory, as in every shell.
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
    fn a_program_is_a_file_with_its_run_bit_on_the_path_or_where_it_is_said_to_be() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str, mode| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let agent = place("bin/agent", 0o755);
        place("first/agent", 0o644);
        fs::create_dir_all(root.path().join("first/folder")).unwrap();
        let path = OsStr::new("first:bin");
        let find = |program: &str| find_program(program, path, root.path());
        assert_eq!(find("agent"), Some(agent.clone()));
        assert_eq!(find("bin/agent"), Some(agent.clone()));
        assert_eq!(find(agent.to_str().unwrap()), Some(agent));
        for missing in ["folder", "first/agent", "nobody", "bin/nobody"] {
            assert_eq!(find(missing), None, "{missing}");
        }
    }
}
