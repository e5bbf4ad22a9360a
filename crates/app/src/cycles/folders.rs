//! The folders of specs: `.agent-os/specs/<YYYY-MM-DD>-<name>/`. A cycle knows the name without the date.

use std::fs;
use std::io;
use std::path::Path;

use jiff::civil::Date;
use protocol::peer::SpecName;

/// Where specs have their folders, from the top of a repository.
pub(super) const SPECS: &str = ".agent-os/specs";

/// The specs whose folders have the newest date there is, by name. Whatever else lies there is passed over.
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
        found.extend(entry.file_name().to_str().and_then(dated));
    }
    let newest = found.iter().map(|(date, _)| *date).max();
    let mut names: Vec<_> =
        found.into_iter().filter(|(date, _)| Some(*date) == newest).map(|(_, name)| name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The spec whose folder somebody has typed in the place of its name, if there is such a folder.
pub(super) fn typed(repo: &Path, folder: &str) -> Option<SpecName> {
    let (_, name) = dated(folder)?;
    repo.join(SPECS).join(folder).is_dir().then_some(name)
}

/// The date and the name of a spec's folder.
fn dated(folder: &str) -> Option<(Date, SpecName)> {
    let (date, name) = folder.split_at_checked("2025-08-05".len())?;
    // Strict: no other spelling of a date has this length and these hyphens.
    let date = date.parse().ok().filter(|parsed: &Date| parsed.to_string() == date)?;
    Some((date, SpecName::typed(name.strip_prefix('-')?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_date_wins_and_what_is_no_spec_is_passed_over() {
        let repo = tempfile::tempdir().unwrap();
        let named = |repo: &Path| newest(repo).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(named(repo.path()).is_empty());
        let specs = repo.path().join(SPECS);
        for folder in ["2025-08-05-login", "2025-08-04-zebra", "2025-13-01-x", "9999", "2026-01-01-", "notes"]
        {
            fs::create_dir_all(specs.join(folder)).unwrap();
        }
        fs::write(specs.join("2027-01-01-a-file"), "").unwrap();
        assert_eq!(named(repo.path()), ["login"]);
        fs::create_dir(specs.join("2025-08-05-2024-01-01-odd")).unwrap();
        assert_eq!(named(repo.path()), ["2024-01-01-odd", "login"], "two of one day");
        fs::create_dir(specs.join("2025-08-06-日本")).unwrap();
        assert_eq!(named(repo.path()), ["日本"]);
        let typed = |folder| typed(repo.path(), folder).map(|name| name.to_string());
        assert_eq!(typed("2025-08-05-login").as_deref(), Some("login"));
        assert_eq!((typed("2025-08-07-login"), typed("login"), typed("notes")), (None, None, None));
    }
}
