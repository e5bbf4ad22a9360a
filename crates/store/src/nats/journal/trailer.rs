//! The bodies of a delta, which follow the first line of a message unescaped. The first line is JSON and has their lengths.
//!
//! Most bodies are JSON, too. As JSON strings they would be a fifth longer, and escaping them would double our CPU time per
//! commit.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::message::Delta;
use crate::commit::{OutboxItem, Part, ViewMark};

/// A delta as the first line has it, with lengths in place of the bodies. They follow in this order: entry, parts, outbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::nats) struct Trailer {
    /// Lengths are in bytes.
    entry: usize,
    #[serde(default)]
    parts: Vec<(String, usize)>,
    /// Ids of finished actions, which have no body.
    #[serde(default)]
    acknowledged: Vec<String>,
    #[serde(default)]
    outbox: Vec<(String, usize)>,
    #[serde(default)]
    views: Vec<ViewMark>,
    /// What follows the first line; set by the decoder.
    #[serde(skip)]
    pub(in crate::nats) bodies: Bytes,
}

/// A [`Trailer`] to be encoded.
#[derive(Debug, Serialize)]
pub(in crate::nats) struct OutgoingTrailer<'a> {
    entry: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<(&'a str, usize)>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    acknowledged: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outbox: Vec<(&'a str, usize)>,
    #[serde(skip_serializing_if = "<[ViewMark]>::is_empty")]
    views: &'a [ViewMark],
}

impl<'a> OutgoingTrailer<'a> {
    /// Returns `None` for a delta with a checkpoint: they are rare, and have bodies in many fields.
    pub(in crate::nats) fn of(delta: &'a Delta) -> Option<Self> {
        delta.checkpoint.is_none().then(|| Self {
            entry: delta.entry.len(),
            parts: delta.parts.iter().map(|part| (part.path.as_str(), part.body.len())).collect(),
            acknowledged: &delta.acknowledged,
            outbox: delta.outbox.iter().map(|item| (item.id.as_str(), item.body.len())).collect(),
            views: &delta.views,
        })
    }
}

/// Returns the bodies in the order of the trailer.
pub(in crate::nats) fn bodies(delta: &Delta) -> impl Iterator<Item = &str> {
    let parts = delta.parts.iter().map(|part| part.body.as_str());
    let outbox = delta.outbox.iter().map(|item| item.body.as_str());
    [delta.entry.as_str()].into_iter().chain(parts).chain(outbox)
}

impl Trailer {
    /// Returns the delta, or `None` if the lengths do not match the bodies.
    pub(in crate::nats) fn delta(&self) -> Option<Delta> {
        let mut rest = std::str::from_utf8(&self.bodies).ok()?;
        let mut body = |length: usize| {
            let (body, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(body.to_owned())
        };
        let entry = body(self.entry)?;
        let parts = self.parts.iter().map(|(path, length)| {
            let path = path.clone();
            body(*length).map(|body| Part { path, body })
        });
        let parts = parts.collect::<Option<_>>()?;
        let outbox = self.outbox.iter().map(|(id, length)| {
            let id = id.clone();
            body(*length).map(|body| OutboxItem { id, body })
        });
        let outbox = outbox.collect::<Option<_>>()?;
        let (acknowledged, views) = (self.acknowledged.clone(), self.views.clone());
        rest.is_empty().then_some(Delta { entry, parts, acknowledged, outbox, views, checkpoint: None })
    }
}
