//! The folders of specs: `.agent-os/specs/<YYYY-MM-DD>-<name>/`. The name of the spec has no date.

use std::fs;
use std::io;
use std::path::Path;

use jiff::civil::Date;
use protocol::peer::SpecName;

/// Where the folders are, relative to the repository.
pub(super) const SPECS: &str = ".agent-os/specs";

/// Returns the specs with the newest date, sorted by name. Other files and folders are ignored.
pub(super) fn newest(repo: &Path) -> io::Result<Vec<SpecName>> {
    let entries = match fs::read_dir(repo.join(SPECS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found: Vec<(Date, SpecName)> = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.path().is_dir() {
            continue;
        }
        found.extend(entry.file_name().to_str().and_then(parse));
    }
    let newest = found.iter().map(|(date, _)| *date).max();
    let mut names: Vec<_> =
        found.into_iter().filter(|(date, _)| Some(*date) == newest).map(|(_, name)| name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the name of the spec in this folder. `None` if there is no such folder, or its name is not that of a spec's folder.
pub(super) fn spec_in(repo: &Path, folder: &str) -> Option<SpecName> {
    let (_, name) = parse(folder)?;
    repo.join(SPECS).join(folder).is_dir().then_some(name)
}

/// Parses the name of a spec's folder. File systems spell the same name in different ways, so it is normalized.
fn parse(folder: &str) -> Option<(Date, SpecName)> {
    let (date, name) = folder.split_at_checked("2025-08-05".len())?;
    // Refuses other spellings of a date.
    let date = date.parse().ok().filter(|parsed: &Date| parsed.to_string() == date)?;
    Some((date, SpecName::normalized(name.strip_prefix('-')?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_date_wins_and_other_entries_are_ignored() {
        let repo = tempfile::tempdir().unwrap();
        let newest = |repo: &Path| newest(repo).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(newest(repo.path()).is_empty());
        let specs = repo.path().join(SPECS);
        for folder in ["2025-08-05-login", "2025-08-04-zebra", "2025-13-01-x", "9999", "2026-01-01-", "notes"]
        {
            fs::create_dir_all(specs.join(folder)).unwrap();
        }
        fs::write(specs.join("2027-01-01-a-file"), "").unwrap();
        assert_eq!(newest(repo.path()), ["login"]);
        fs::create_dir(specs.join("2025-08-05-2024-01-01-odd")).unwrap();
        assert_eq!(newest(repo.path()), ["2024-01-01-odd", "login"], "two on the same day");
        fs::create_dir(specs.join("2025-08-06-日本")).unwrap();
        assert_eq!(newest(repo.path()), ["日本"]);
        let spec_in = |folder| spec_in(repo.path(), folder).map(|name| name.to_string());
        assert_eq!(spec_in("2025-08-05-login").as_deref(), Some("login"));
        assert_eq!((spec_in("2025-08-07-login"), spec_in("login"), spec_in("notes")), (None, None, None));
    }
}
