//! What becomes of the libraries' errors.

use std::io;
use std::path::PathBuf;

use store::Unavailable;

use super::*;

fn unavailable(source: io::Error) -> OpenError {
    OpenError::Io { action: "create", path: PathBuf::from("/store"), source }
}

#[test]
fn a_full_disk_is_named_whatever_it_kept_us_from() {
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let failures = [
        Failure::from(unavailable(full())),
        Failure::from(CommitError::from(Unavailable::Io {
            action: "lock",
            path: PathBuf::from("/store/writer.lock"),
            source: full(),
        })),
        Failure::from(runner::EngineError::View { path: PathBuf::from("/view"), source: full() }),
    ];
    for failure in failures {
        assert_eq!(failure.code, Some(Code::DiskFull), "{failure:?}");
        assert!(failure.hints[0].contains("make room"), "{failure:?}");
        assert!(!failure.hints.iter().any(|hint| hint.contains("move it aside")), "{failure:?}");
    }
}

#[test]
fn an_outcome_that_stays_unknown_ends_with_5_and_says_what_to_type() {
    let (write_id, source) = (store::WriteId::new(), io::Error::other("no answer").into());
    let failure = Failure::from(runner::EngineError::Commit(CommitError::Unknown { write_id, source }));
    assert_eq!(failure.exit, Exit::Store);
    assert!(failure.hints.iter().any(|hint| hint.contains("`callboard resume`")), "{failure:?}");
}

#[test]
fn too_many_open_files_is_a_shortage_and_a_missing_file_is_none() {
    let errno = |errno: rustix::io::Errno| io::Error::from(errno);
    assert_eq!(Failure::from(unavailable(errno(rustix::io::Errno::MFILE))).code, Some(Code::Shortage));
    assert_eq!(Failure::from(unavailable(errno(rustix::io::Errno::NOENT))).code, None);
}

#[test]
fn a_damaged_store_is_told_apart_from_one_of_another_version() {
    let path = || PathBuf::from("/store/callboard.db");
    let newer = OpenError::Newer { path: path(), found: 9, known: 1 };
    assert_eq!(Failure::from(newer).code, Some(Code::Newer));
    assert_eq!(Failure::from(OpenError::Empty { path: path() }).code, Some(Code::Damaged));
    assert_eq!(Failure::from(OpenError::Missing { path: path() }).code, Some(Code::Gone));
    let upgraded = Unavailable::Upgraded { path: path(), found: 9, known: 1 };
    assert_eq!(Failure::from(ReadError::from(upgraded)).code, Some(Code::Newer));
}

/// What the resolver of names says has no kind of its own, as little as too many open files has.
#[test]
fn a_server_whose_name_is_not_known_is_no_shortage_of_this_machine() {
    let server = |source: Box<dyn Error + Send + Sync>| Unavailable::Server {
        server: "nats://nowhere".to_owned(),
        doing: "connect to",
        source,
    };
    let kindless = io::Error::from(io::Error::from(rustix::io::Errno::MFILE).kind());
    assert_eq!(Failure::from(server(Box::new(kindless))).code, Some(Code::NoServer));
}

#[test]
fn a_commit_whose_fate_is_not_known_is_explained_by_the_servers_that_do_not_answer() {
    let source = Unavailable::Server {
        server: "nats://h".to_owned(),
        doing: "read from",
        source: Box::new(io::Error::from(io::ErrorKind::TimedOut)),
    };
    let unknown = CommitError::Unknown { write_id: store::WriteId::new(), source: source.into() };
    assert_eq!(Failure::from(unknown).code, Some(Code::NoServer));
}
