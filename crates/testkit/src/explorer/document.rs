//! The document grows with the run, and must be sound in every state.

use std::sync::Arc;

use protocol::entry::Entry;

use super::transition::RunAt;
use super::{Broken, Explored, Scene};

/// Writes the entry into the document, and compares it with the run.
pub(super) fn record<P: Explored>(scene: &Scene<P>, run_at: &mut RunAt<P>, entry: &Entry<P>) -> Vec<Broken> {
    run_at.touched = match P::record(&scene.definition, &mut run_at.document, entry) {
        Ok(touched) => touched,
        Err(error) => return vec![Broken::new("the document keeps its rules", error.to_string())],
    };
    let differs = P::compare(&scene.definition, &run_at.state.run, &run_at.document);
    differs.into_iter().map(|what| Broken::new("the document shows the run", what)).collect()
}

/// Writes the parts that were said to have changed, as a store would.
pub(super) fn keep_parts<P: Explored>(run_at: &mut RunAt<P>) {
    for path in std::mem::take(&mut run_at.touched) {
        let body = P::part(&run_at.document, &path);
        run_at.parts.insert(path.into(), body.into());
    }
}

/// What takes longer, once per state: the document keeps the rules of its seed, the parts a store would hold give the
/// same document, and the entry is read back as it was written.
pub(super) fn survives<P: Explored>(
    scene: &Scene<P>,
    run_at: &mut RunAt<P>,
    entry: &Entry<P>,
) -> Vec<Broken> {
    keep_parts(run_at);
    let wrong = (scene.check)(&run_at.document).into_iter();
    let mut broken: Vec<_> = wrong.map(|what| Broken::new("the document keeps its rules", what)).collect();
    let parts: Vec<_> = run_at.parts.iter().map(|(path, body)| (owned(path), owned(body))).collect();
    if P::assemble(&scene.definition, &parts).as_ref() != Some(&run_at.document) {
        let what = "put together from the parts that were said to have changed, it is another";
        broken.push(Broken::new("parts make the document", what));
    }
    if Entry::<P>::decode(&entry.encode()).ok().as_ref() != Some(entry) {
        broken.push(Broken::new("entries come back as written", "the entry that was read is another"));
    }
    broken
}

fn owned(text: &Arc<str>) -> String {
    text.as_ref().to_owned()
}
