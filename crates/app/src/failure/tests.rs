//! Conversion of library errors.

use std::io;
use std::path::PathBuf;

use store::Unavailable;

use super::*;

fn open_error(source: io::Error) -> OpenError {
    OpenError::Io { action: "create", path: PathBuf::from("/store"), source }
}

#[test]
fn a_full_disk_sets_the_code_of_every_error_it_causes() {
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let failures = [
        Failure::from(open_error(full())),
        Failure::from(CommitError::from(Unavailable::Io {
            action: "lock",
            path: PathBuf::from("/store/writer.lock"),
            source: full(),
        })),
        Failure::from(runner::EngineError::View { path: PathBuf::from("/view"), source: full() }),
    ];
    for failure in failures {
        assert_eq!(failure.code, Some(Code::DiskFull), "{failure:?}");
        assert!(failure.hints[0].contains("free space"), "{failure:?}");
    }
}

#[test]
fn a_commit_with_an_unknown_result_exits_with_5_and_suggests_to_resume() {
    let (write_id, source) = (store::WriteId::new(), io::Error::other("no answer").into());
    let failure =
        Failure::from(runner::EngineError::Commit(CommitError::OutcomeUnknown { write_id, source }));
    assert_eq!(failure.exit, Exit::Store);
    assert!(failure.hints.iter().any(|hint| hint.contains("`callboard resume`")), "{failure:?}");
}

#[test]
fn too_many_open_files_is_a_resource_limit_and_a_missing_file_is_not() {
    let errno = |errno: rustix::io::Errno| io::Error::from(errno);
    assert_eq!(Failure::from(open_error(errno(rustix::io::Errno::MFILE))).code, Some(Code::ResourceLimit));
    assert_eq!(Failure::from(open_error(errno(rustix::io::Errno::NOENT))).code, None);
}

#[test]
fn too_many_watchers_of_files_are_no_bug_of_callboard() {
    let error = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
    let failure = Failure::from(runner::EngineError::DirWatcher(error));
    assert_eq!((failure.exit, failure.code), (Exit::Store, Some(Code::ResourceLimit)));
}

#[test]
fn a_damaged_store_and_one_of_a_newer_version_have_different_codes() {
    let path = || PathBuf::from("/store/callboard.db");
    let newer = OpenError::Newer { path: path(), found: 9, known: 1 };
    assert_eq!(Failure::from(newer).code, Some(Code::Newer));
    assert_eq!(Failure::from(OpenError::Empty { path: path() }).code, Some(Code::Damaged));
    assert_eq!(Failure::from(OpenError::Missing { path: path() }).code, Some(Code::StoreGone));
    let upgraded = Unavailable::Upgraded { path: path(), found: 9, known: 1 };
    assert_eq!(Failure::from(ReadError::from(upgraded)).code, Some(Code::Newer));
}

/// An unresolved host name and too many open files have the same `io::ErrorKind`; only the latter has an errno.
#[test]
fn an_unresolved_host_name_is_not_a_resource_limit() {
    let server = |source: Box<dyn Error + Send + Sync>| Unavailable::Server {
        server: "nats://nowhere".to_owned(),
        doing: "connect to",
        source,
    };
    let without_errno = io::Error::from(io::Error::from(rustix::io::Errno::MFILE).kind());
    assert_eq!(Failure::from(server(Box::new(without_errno))).code, Some(Code::NoServer));
}

#[test]
fn a_commit_with_an_unknown_result_has_the_code_of_its_cause() {
    let source = Unavailable::Server {
        server: "nats://h".to_owned(),
        doing: "read from",
        source: Box::new(io::Error::from(io::ErrorKind::TimedOut)),
    };
    let unknown = CommitError::OutcomeUnknown { write_id: store::WriteId::new(), source: source.into() };
    assert_eq!(Failure::from(unknown).code, Some(Code::NoServer));
}
