//! Whose view files a mark speaks of. Each host has files of its own, so where several share a store the marks are kept by
//! host: else the file that one of them wrote would be a stranger's to the next.

use store::ViewMark;

/// The marks of this host's files, with their paths as they are here. `None` is the only host there is.
pub fn marks_here(marks: &[ViewMark], host: Option<&str>) -> Vec<ViewMark> {
    let Some(host) = host else { return marks.to_vec() };
    let path = |mark: &ViewMark| Some(mark.path.strip_prefix(host)?.strip_prefix(':')?.to_owned());
    marks.iter().filter_map(|mark| Some(ViewMark { path: path(mark)?, ..mark.clone() })).collect()
}

/// The same marks as the store is to keep them.
pub(crate) fn marks_kept(marks: Vec<ViewMark>, host: Option<&str>) -> Vec<ViewMark> {
    let Some(host) = host else { return marks };
    marks.into_iter().map(|mark| ViewMark { path: format!("{host}:{}", mark.path), ..mark }).collect()
}

#[cfg(test)]
mod tests {
    use protocol::Revision;
    use store::Digest;

    use super::*;

    #[test]
    fn each_host_has_its_own_marks_and_a_lone_one_has_them_plain() {
        let mark = ViewMark { path: "/repo/view".to_owned(), revision: Revision(1), digest: Digest::of("") };
        let kept = marks_kept(vec![mark.clone()], Some("a"));
        assert_eq!(kept[0].path, "a:/repo/view");
        assert_eq!(marks_here(&kept, Some("a")), std::slice::from_ref(&mark));
        assert_eq!(marks_here(&kept, Some("b")), []);
        assert_eq!(marks_here(&kept, Some("")), []);
        assert_eq!(marks_here(&marks_kept(vec![mark.clone()], None), None), [mark]);
    }
}
