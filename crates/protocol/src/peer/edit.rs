//! What agents and people write into the document themselves.

use super::change::ChangeError;
use super::document::{Document, Phase, Second};
use crate::edit::{Hand, Patch, Uneditable};

pub(super) fn edit(
    _based_on: &Document,
    _current: &Document,
    _hand: &Hand<Phase>,
    _patch: &Patch,
) -> Result<Option<json_patch::Patch>, Uneditable> {
    Err(Uneditable::EngineOnly)
}

pub(super) fn apply(
    document: &Document,
    _edit: &json_patch::Patch,
    _by: String,
    _at: Second,
) -> Result<Document, ChangeError> {
    Ok(document.clone())
}
