//! What the messages of a run add up to: the outbox, the view marks, and the location of each part.

use std::collections::BTreeMap;

use super::message::{Checkpoint, Delta};
use crate::commit::{OutboxItem, ViewMark};

/// The sum of a run's messages, up to one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::nats) struct RunIndex {
    /// In the order of commits.
    outbox: Vec<OutboxItem>,
    views: BTreeMap<String, ViewMark>,
    /// The sequence of the commit with the newest body of each part.
    parts: BTreeMap<String, u64>,
}

impl RunIndex {
    /// Applies the next commit.
    pub(super) fn apply(&mut self, sequence: u64, delta: &Delta) {
        match &delta.checkpoint {
            Some(checkpoint) => *self = Self::from(checkpoint),
            None => {
                self.outbox.retain(|item| !delta.acknowledged.contains(&item.id));
                self.outbox.retain(|item| !delta.outbox.iter().any(|new| new.id == item.id));
                self.outbox.extend(last_of_each(&delta.outbox));
                self.record_view_marks(&delta.views);
            }
        }
        self.parts.extend(delta.parts.iter().map(|part| (part.path.clone(), sequence)));
    }

    pub(in crate::nats) fn record_view_marks(&mut self, views: &[ViewMark]) {
        self.views.extend(views.iter().map(|view| (view.path.clone(), view.clone())));
    }

    /// Returns the checkpoint for `delta`, which replaces everything before it.
    pub(in crate::nats) fn checkpoint(&self, delta: &Delta, snapshot: String) -> Checkpoint {
        let mut after = self.clone();
        // The parts of `delta` get 0 and are left out: they are in the message that carries the checkpoint.
        after.apply(0, delta);
        after.parts.retain(|_, sequence| *sequence != 0);
        Checkpoint {
            snapshot,
            outbox: after.outbox,
            views: after.views.into_values().collect(),
            parts: after.parts.into_iter().collect(),
        }
    }

    pub(in crate::nats) fn outbox(&self) -> &[OutboxItem] {
        &self.outbox
    }

    pub(in crate::nats) fn views(&self) -> impl Iterator<Item = &ViewMark> {
        self.views.values()
    }

    pub(in crate::nats) fn parts(&self) -> &BTreeMap<String, u64> {
        &self.parts
    }
}

/// If a commit names an item twice, the second one counts.
fn last_of_each(items: &[OutboxItem]) -> impl Iterator<Item = OutboxItem> {
    let is_last = move |position: usize, item: &OutboxItem| {
        !items[position + 1..].iter().any(|later| later.id == item.id)
    };
    items
        .iter()
        .enumerate()
        .filter(move |(position, item)| is_last(*position, item))
        .map(|(_, item)| item.clone())
}

impl From<&Checkpoint> for RunIndex {
    fn from(checkpoint: &Checkpoint) -> Self {
        let views = checkpoint.views.iter().map(|view| (view.path.clone(), view.clone()));
        Self {
            outbox: checkpoint.outbox.clone(),
            views: views.collect(),
            parts: checkpoint.parts.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::Part;

    fn delta(parts: &[&str], acknowledged: &[&str], outbox: &[&str]) -> Delta {
        let text = |text: &&str| (*text).to_owned();
        Delta {
            entry: String::new(),
            parts: parts.iter().map(|path| Part { path: text(path), body: String::new() }).collect(),
            acknowledged: acknowledged.iter().map(text).collect(),
            outbox: outbox.iter().map(|id| OutboxItem { id: text(id), body: String::new() }).collect(),
            views: Vec::new(),
            checkpoint: None,
        }
    }

    #[test]
    fn a_checkpoint_replaces_every_message_before_it() {
        let before = [delta(&["a", "b"], &[], &["x", "y"]), delta(&["b"], &["x"], &["z", "y"])];
        let last = delta(&["a"], &["z"], &["w"]);
        let mut index = RunIndex::default();
        for (delta, sequence) in before.iter().zip(5..) {
            index.apply(sequence, delta);
        }
        let checkpoint = index.checkpoint(&last, "state".to_owned());
        assert_eq!(checkpoint.parts, [("b".to_owned(), 6)]);
        let with_checkpoint = Delta { checkpoint: Some(checkpoint), ..last.clone() };
        let mut from_checkpoint = RunIndex::default();
        from_checkpoint.apply(9, &with_checkpoint);
        index.apply(9, &last);
        assert_eq!(from_checkpoint, index);
        assert_eq!(index.outbox().iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["y", "w"]);
        assert_eq!(
            index.parts().iter().map(|(path, at)| (path.as_str(), *at)).collect::<Vec<_>>(),
            [("a", 9), ("b", 6)]
        );
    }
}
