//! Marks of view files, by host. A mark is the digest of what was last written to a view's path. Each host has its own
//! files, so on a shared store a mark's path is prefixed with the host. Otherwise one host would quarantine its own
//! file after another host has written.

use store::WrittenView;

/// Returns the marks of this host's files, with their local paths. `host` is `None` on a store that is not shared.
pub fn marks_of_host(marks: &[WrittenView], host: Option<&str>) -> Vec<WrittenView> {
    let Some(host) = host else { return marks.to_vec() };
    let path = |mark: &WrittenView| Some(mark.path.strip_prefix(host)?.strip_prefix(':')?.to_owned());
    marks.iter().filter_map(|mark| Some(WrittenView { path: path(mark)?, ..mark.clone() })).collect()
}

/// Returns the marks with the paths under which the store keeps them.
pub(crate) fn marks_for_store(marks: Vec<WrittenView>, host: Option<&str>) -> Vec<WrittenView> {
    let Some(host) = host else { return marks };
    marks.into_iter().map(|mark| WrittenView { path: format!("{host}:{}", mark.path), ..mark }).collect()
}

/// Adds marks, replacing those of the same paths.
pub(crate) fn merge_marks(marks: &mut Vec<WrittenView>, newer: Vec<WrittenView>) {
    marks.retain(|mark| newer.iter().all(|new| new.path != mark.path));
    marks.extend(newer);
}

#[cfg(test)]
mod tests {
    use protocol::Revision;
    use store::Digest;

    use super::*;

    #[test]
    fn each_host_has_its_own_marks() {
        let mark =
            WrittenView { path: "/repo/view".to_owned(), revision: Revision(1), digest: Digest::of("") };
        let stored = marks_for_store(vec![mark.clone()], Some("a"));
        assert_eq!(stored[0].path, "a:/repo/view");
        assert_eq!(marks_of_host(&stored, Some("a")), std::slice::from_ref(&mark));
        assert_eq!(marks_of_host(&stored, Some("b")), []);
        assert_eq!(marks_of_host(&stored, Some("")), []);
        assert_eq!(marks_of_host(&marks_for_store(vec![mark.clone()], None), None), [mark]);
    }
}
