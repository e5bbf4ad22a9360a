//! View marks, by host. A view mark is the digest of what was last written to a view's path, and has nothing to do with
//! the marks of processes. Each host has its own files, so on a shared store the path in a view mark is prefixed with
//! the host. Otherwise one host would quarantine its own file after another host has written.

use store::ViewMark;

/// Returns the marks of this host's files, with their local paths. `host` is `None` on a store that is not shared.
pub fn view_marks_of_host(marks: &[ViewMark], host: Option<&str>) -> Vec<ViewMark> {
    let Some(host) = host else { return marks.to_vec() };
    let path = |mark: &ViewMark| Some(mark.path.strip_prefix(host)?.strip_prefix(':')?.to_owned());
    marks.iter().filter_map(|mark| Some(ViewMark { path: path(mark)?, ..mark.clone() })).collect()
}

/// Returns the marks with the paths under which the store keeps them.
pub(crate) fn view_marks_for_store(marks: Vec<ViewMark>, host: Option<&str>) -> Vec<ViewMark> {
    let Some(host) = host else { return marks };
    marks.into_iter().map(|mark| ViewMark { path: format!("{host}:{}", mark.path), ..mark }).collect()
}

/// Adds marks, replacing those of the same paths.
pub(crate) fn merge_view_marks(marks: &mut Vec<ViewMark>, newer: Vec<ViewMark>) {
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
        let mark = ViewMark { path: "/repo/view".to_owned(), revision: Revision(1), digest: Digest::of("") };
        let stored = view_marks_for_store(vec![mark.clone()], Some("a"));
        assert_eq!(stored[0].path, "a:/repo/view");
        assert_eq!(view_marks_of_host(&stored, Some("a")), std::slice::from_ref(&mark));
        assert_eq!(view_marks_of_host(&stored, Some("b")), []);
        assert_eq!(view_marks_of_host(&stored, Some("")), []);
        assert_eq!(view_marks_of_host(&view_marks_for_store(vec![mark.clone()], None), None), [mark]);
    }
}
