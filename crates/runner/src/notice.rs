//! What an engine tells whoever watches it. Nothing depends on anybody listening.

use std::path::PathBuf;
use std::time::Duration;

use crate::external::Settled;
use crate::restore::Restored;
use protocol::entry::Entry;
use protocol::{AttemptId, Protocol, Revision};

/// Something worth showing.
#[derive(Debug)]
pub enum Notice<'a, P: Protocol> {
    /// This engine leads the run now: `adopted` attempts were found at work, `open` ones only in the journal. Those have
    /// ended, were lost, or never began; what became of each is told when it is known.
    Leads { adopted: &'a [AttemptId], open: &'a [AttemptId] },
    /// These attempts are on other hosts, where they may be at work: nothing is done about them here.
    Remote { attempts: &'a [(AttemptId, String)] },
    /// An entry was committed.
    Committed { revision: Revision, entry: &'a Entry<P> },
    /// An attempt's process runs; its output grows in this file.
    Output { attempt: &'a AttemptId, stdout: PathBuf },
    /// A stranger's bytes were found in a view's place and set aside.
    SetAside { view: PathBuf, kept: PathBuf },
    /// A view could not be written; it is tried again.
    ViewFailed { view: PathBuf, error: &'a std::io::Error },
    /// The document was not what had been written, and was put back.
    Restored(&'a Restored),
    /// Another client had written in the place of the document.
    Settled(&'a Settled),
    /// An attempt has reported and does not exit; it is ended after this long.
    Lingers { attempt: &'a AttemptId, grace: Duration },
}

/// Whoever watches an engine.
pub trait Observer<P: Protocol> {
    fn notice(&mut self, notice: Notice<'_, P>);
}

/// Nobody watches.
impl<P: Protocol> Observer<P> for () {
    fn notice(&mut self, _: Notice<'_, P>) {}
}
