//! This machine, its boot and its user.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::sync::OnceLock;

/// Returns the name of this machine among those that share a store: `CALLBOARD_HOST`, or the system's host name.
///
/// It must be unique and stable, because attempts belong to the host with this name. A container that gets a new host
/// name at every start needs the variable.
pub fn host_name() -> String {
    host_name_from(std::env::var_os("CALLBOARD_HOST"))
}

fn host_name_from(variable: Option<OsString>) -> String {
    let configured = variable.map(|name| name.to_string_lossy().trim().to_owned());
    let configured = configured.filter(|name| !name.is_empty() && !name.contains(char::is_control));
    configured.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// Returns the user whose rights this process has.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the boot id, which changes with every boot.
pub fn boot_id() -> io::Result<String> {
    static CACHE: OnceLock<String> = OnceLock::new();
    cached(&CACHE, || Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned()))
}

/// Returns the pid namespace of this process, in which its pids are valid.
pub(crate) fn pid_namespace() -> io::Result<String> {
    static CACHE: OnceLock<String> = OnceLock::new();
    cached(&CACHE, || Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned()))
}

/// Returns a value that does not change while this process runs. It is read once; a failure is not cached.
fn cached(cache: &OnceLock<String>, read: impl FnOnce() -> io::Result<String>) -> io::Result<String> {
    match cache.get() {
        Some(value) => Ok(value.clone()),
        None => read().map(|value| cache.get_or_init(|| value).clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_name_is_the_variable_or_the_name_of_the_system() {
        let system = host_name_from(None);
        assert!(!system.is_empty());
        assert_eq!(host_name_from(Some(" a ".into())), "a");
        for unusable in ["", "  ", "two\nlines"] {
            assert_eq!(host_name_from(Some(unusable.into())), system);
        }
    }
}
