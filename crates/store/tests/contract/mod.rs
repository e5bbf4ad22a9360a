//! The contract suite: what every backend promises, whatever it is made of.
//!
//! A backend joins with a fixture that implements [`Backend`] and `contract_suite!(ItsFixture)`. Where a promise is
//! about several processes the suite starts them: this test binary again, playing a role from `roles`.

pub(crate) mod basics;
pub(crate) mod processes;
pub(crate) mod roles;

use std::ffi::{OsStr, OsString};

use protocol::RunId;
use store::{OutboxItem, Part, Store};
pub(crate) use testkit::harness::change;

/// A place for a store that one test has for itself, and that its child processes can find.
pub(crate) trait Backend: Send + Sync + 'static {
    type Store: Store;

    /// The largest commit this backend takes.
    const LIMIT: usize;

    /// Whether nothing but its entries changes a run.
    const ENTRIES_TELL_ALL: bool = true;

    fn fresh() -> Self;

    /// What another process needs to reach this store.
    fn address(&self) -> OsString;

    /// Opens the store as a process that knows only its address.
    fn attach(address: &OsStr) -> Self::Store;

    /// The backend's own check that nothing is broken.
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

/// One test function per promise.
#[macro_export]
macro_rules! contract_suite {
    ($backend:ty) => {
        contract_suite! { $backend:
            basics::a_commit_is_read_back_whole,
            basics::bodies_come_back_byte_for_byte,
            basics::a_conflict_names_both_revisions,
            basics::a_refused_commit_leaves_nothing_behind,
            basics::a_run_is_created_once,
            basics::the_protocol_of_a_run_is_told_without_reading_it,
            basics::the_newest_revision_of_a_run_is_told_without_reading_it,
            basics::the_document_of_a_run_is_read_in_one_look,
            basics::runs_do_not_touch_each_other,
            basics::parts_at_gives_the_newest_part_that_is_not_newer,
            basics::a_load_begins_at_the_newest_snapshot,
            basics::whoever_has_read_a_run_catches_up_by_its_entries,
            basics::the_past_is_read_from_the_snapshot_before_it,
            basics::acknowledged_items_leave_the_outbox,
            basics::a_write_id_settles,
            basics::a_commit_at_the_limit_lands_and_one_byte_more_is_refused,
            basics::blobs_come_back_by_their_digest,
            basics::view_marks_come_back,
            basics::runs_are_found_by_how_they_begin,
            basics::a_deposed_engine_is_told,
            basics::a_lead_ends_when_it_is_dropped,
            basics::whoever_leads_is_known_to_everybody,
            basics::a_leader_on_an_errand_is_waited_for,
            basics::a_watch_resumes_where_another_ended,
            basics::a_dropped_wait_loses_nothing,
            processes::sixteen_writers_lose_and_double_nothing,
            processes::a_second_engine_is_refused_until_the_first_is_killed,
            processes::a_child_of_the_engine_does_not_keep_the_lead,
            processes::a_watcher_sees_every_commit_though_writers_are_killed,
            processes::killed_writers_leave_every_acknowledged_commit,
        }

        /// Does nothing, unless a test of this suite has started it as a child process.
        #[test]
        fn role_for_children() {
            contract::roles::play::<$backend>();
        }
    };
    ($backend:ty: $($module:ident::$promise:ident,)*) => {
        $(
            #[tokio::test]
            async fn $promise() {
                contract::$module::$promise(<$backend as contract::Backend>::fresh()).await;
            }
        )*
    };
}
