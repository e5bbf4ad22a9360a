//! A delta whose bodies lie behind the first line of the message, as they are.
//!
//! Bodies are mostly JSON texts themselves. As strings within another one they would have each quote escaped, which makes
//! a message a fifth longer and takes as long as all the rest of a commit's work on our side. So the line tells what
//! follows it and how long each is, and nobody has to look into them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::message::Delta;
use crate::commit::{OutboxItem, Part, ViewMark};

/// What follows the line: the entry, the bodies of the parts, those of the outbox, in this order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::nats) struct Trailer {
    /// Lengths are in bytes.
    entry: usize,
    #[serde(default)]
    parts: Vec<(String, usize)>,
    #[serde(default)]
    acknowledged: Vec<String>,
    #[serde(default)]
    outbox: Vec<(String, usize)>,
    #[serde(default)]
    views: Vec<ViewMark>,
    /// Put there by whoever reads the message.
    #[serde(skip)]
    pub(in crate::nats) bodies: Bytes,
}

/// A [`Behind`] on its way.
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
    /// What is to be said in the line. `None` for a delta with a checkpoint: they are rare, and have bodies in many places.
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

/// The bodies in the order in which they follow.
pub(in crate::nats) fn bodies(delta: &Delta) -> impl Iterator<Item = &str> {
    let parts = delta.parts.iter().map(|part| part.body.as_str());
    let outbox = delta.outbox.iter().map(|item| item.body.as_str());
    [delta.entry.as_str()].into_iter().chain(parts).chain(outbox)
}

impl Trailer {
    /// Puts the delta together again. `None` if what follows the line is not what it says.
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
