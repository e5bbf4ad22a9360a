//! The contract suite: what every backend guarantees.
//!
//! A backend joins with a fixture that implements [`Backend`] and `contract_suite!(ItsFixture)`. Tests with several
//! processes start this test binary again, with a task from `child_tasks`.

pub(crate) mod basics;
pub(crate) mod child_tasks;
pub(crate) mod processes;

use std::ffi::{OsStr, OsString};

use protocol::RunId;
use store::{OutboxItem, Part, Store};
pub(crate) use testkit::harness::entry_commit;

/// A private store for one test, which its child processes can open, too.
pub(crate) trait Backend: Send + Sync + 'static {
    type Store: Store + Clone;

    /// The size of the largest commit that this backend accepts.
    const LIMIT: usize;

    /// Whether entries describe every change of a run, so that a client can catch up with them. Other programs can
    /// also change a document in a bucket.
    const ENTRIES_DESCRIBE_EVERY_CHANGE: bool = true;

    /// How many commits each of the writers of a contended run makes. The cost of a conflict differs between backends.
    const COMMITS_PER_WRITER: u64 = 100;

    fn fresh() -> Self;

    /// What another process needs to reach this store.
    fn address(&self) -> OsString;

    /// Opens the store by its address, as another process does.
    fn attach(address: &OsStr) -> Self::Store;

    /// Runs the backend's own integrity check.
    fn verify(&self);

    fn store(&self) -> Self::Store {
        Self::attach(&self.address())
    }
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(crate) fn part(path: &str, body: &str) -> Part {
    Part { path: path.to_owned(), body: body.to_owned() }
}

pub(crate) fn item(id: &str, body: &str) -> OutboxItem {
    OutboxItem { id: id.to_owned(), body: body.to_owned() }
}

/// Makes one test function per guarantee.
#[macro_export]
macro_rules! contract_suite {
    ($backend:ty) => {
        contract_suite! { $backend:
            basics::a_commit_is_read_back_whole,
            basics::bodies_come_back_byte_for_byte,
            basics::a_conflict_names_both_revisions,
            basics::a_refused_commit_leaves_nothing_behind,
            basics::a_run_is_created_once,
            basics::the_protocol_of_a_run_is_read_without_loading_it,
            basics::the_newest_revision_of_a_run_is_read_without_loading_it,
            basics::the_document_of_a_run_is_read_at_one_revision,
            basics::runs_are_independent,
            basics::parts_at_returns_the_newest_part_that_is_not_newer,
            basics::a_load_begins_at_the_newest_snapshot,
            basics::a_client_catches_up_with_the_entries_since_its_position,
            basics::an_earlier_revision_is_read_from_the_snapshot_before_it,
            basics::acknowledged_items_leave_the_outbox,
            basics::a_write_id_resolves_to_its_position,
            basics::a_commit_at_the_limit_lands_and_one_byte_more_is_refused,
            basics::blobs_come_back_by_their_digest,
            basics::written_views_come_back,
            basics::runs_are_found_by_prefix,
            basics::a_replaced_engine_is_fenced,
            basics::an_engine_lock_is_released_when_it_is_dropped,
            basics::every_client_sees_the_engine,
            basics::an_engine_waits_for_a_command_that_holds_the_lock_for_one_request,
            basics::a_removed_run_is_gone_and_its_name_is_free,
            basics::a_watch_continues_a_dropped_one,
            basics::a_cancelled_wait_loses_nothing,
            processes::sixteen_writers_lose_and_duplicate_nothing,
            processes::a_second_engine_is_refused_until_the_first_is_killed,
            processes::a_child_of_the_engine_does_not_keep_the_lock,
            processes::a_watcher_sees_every_commit_although_writers_are_killed,
            processes::every_acknowledged_commit_of_a_killed_writer_is_there,
        }

        /// Does nothing unless a test of this suite has started it as a child process.
        #[test]
        fn child_task() {
            contract::child_tasks::run_child_task::<$backend>();
        }
    };
    ($backend:ty: $($module:ident::$test:ident,)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                contract::$module::$test(<$backend as contract::Backend>::fresh()).await;
            }
        )*
    };
}
