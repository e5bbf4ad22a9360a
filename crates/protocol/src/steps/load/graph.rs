//! Draft → steps: ids are safe and unique, references are known, and nobody waits for himself.

use std::collections::{BTreeMap, VecDeque};

use crate::closest;
use crate::ids::{BadName, StepId};

use super::draft::StepDraft;
use super::field::Placed;
use super::problem::{Problems, Rule};
use super::tree::Position;

/// Looking for a near name costs a pass over all ids; beyond this many unknown ones a list of guesses helps nobody.
const MOST_GUESSES: usize = 20;
/// A cycle is named in full up to this many steps.
const LONGEST_CYCLE_NAMED: usize = 10;

/// The references of one step, as places in the list of steps, each with where it was written.
#[derive(Debug, Default)]
pub(super) struct Edges {
    pub(super) needs: Vec<Placed<usize>>,
    /// Some of the needs were reported and are not among the above.
    pub(super) more_needs: bool,
    pub(super) next_on_success: Vec<Placed<usize>>,
    pub(super) loop_back_to: Option<Placed<usize>>,
}

/// Checks the ids and returns them; `None` for those that have been reported.
pub(super) fn check_ids(steps: &[StepDraft], problems: &mut Problems) -> Vec<Option<StepId>> {
    let mut first: BTreeMap<&str, Position> = BTreeMap::new();
    let ids = steps.iter().map(|step| {
        let Placed { value: id, position } = step.id.as_ref()?;
        if let Some(first) = first.get(id.as_str()) {
            let message = format!("two steps are called `{id}`; the first is on line {}", first.line);
            problems.add(*position, Rule::DuplicateId, message, "give one of them another id");
            return None;
        }
        first.insert(id, *position);
        let unsafe_id = |error: BadName| {
            let message = format!("`{id}` cannot be an id: {error}");
            let hint = "the id names files and variables; choose something like `code_review-2`";
            problems.add(*position, Rule::UnsafeId, message, hint);
        };
        StepId::new(id).map_err(unsafe_id).ok()
    });
    ids.collect()
}

/// Resolves all references. Unknown ones and self-dependencies are problems, repeated ones warnings.
pub(super) fn resolve(steps: &[StepDraft], problems: &mut Problems, warnings: &mut Problems) -> Vec<Edges> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, step) in steps.iter().enumerate() {
        if let Some(id) = &step.id {
            places.entry(&id.value).or_insert(place);
        }
    }
    let mut resolver = Resolver { places, guesses: 0, problems, warnings };
    let resolved = steps.iter().enumerate().map(|(place, step)| {
        let before = resolver.problems.count();
        let mut needs = resolver.list("needs", &step.needs);
        let more_needs = step.needs_unread || resolver.problems.count() > before;
        needs.retain(|need| {
            if need.value == place {
                let message = format!("step `{}` needs itself", name(steps, place));
                let hint = "remove it from its own `needs`";
                resolver.problems.add(need.position, Rule::SelfDependency, message, hint);
            }
            need.value != place
        });
        let next_on_success = resolver.list("next_on_success", &step.next_on_success);
        let loop_back_to = resolver.list("loop_back_to", step.loop_back_to.as_slice()).pop();
        Edges { needs, more_needs, next_on_success, loop_back_to }
    });
    resolved.collect()
}

struct Resolver<'a> {
    places: BTreeMap<&'a str, usize>,
    guesses: usize,
    problems: &'a mut Problems,
    warnings: &'a mut Problems,
}

impl Resolver<'_> {
    fn list(&mut self, key: &str, references: &[Placed<String>]) -> Vec<Placed<usize>> {
        let mut seen = BTreeMap::new();
        let mut found = vec![];
        for Placed { value: id, position } in references {
            let Some(place) = self.places.get(id.as_str()).copied() else {
                self.unknown(key, id, *position);
                continue;
            };
            if seen.insert(place, ()).is_some() {
                let message = format!("`{key}` names `{id}` twice");
                self.warnings.add(*position, Rule::RepeatedReference, message, "once is enough");
            } else {
                found.push(Placed { value: place, position: *position });
            }
        }
        found
    }

    fn unknown(&mut self, key: &str, id: &str, position: Position) {
        self.guesses += 1;
        let meant =
            (self.guesses <= MOST_GUESSES).then(|| closest(id, self.places.keys().copied())).flatten();
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("name a step of this file, or add one with `id: {id}`"),
        };
        let message = format!("`{key}` names `{id}`, but no step is called so");
        self.problems.add(position, Rule::UnknownStep, message, hint);
    }
}

/// Warns where `next_on_success` promises an order that `needs` does not give.
pub(super) fn check_successors(steps: &[StepDraft], edges: &[Edges], warnings: &mut Problems) {
    for (place, edge) in edges.iter().enumerate() {
        for next in &edge.next_on_success {
            if edges[next.value].needs.iter().any(|need| need.value == place) {
                continue;
            }
            let (this, next_name) = (name(steps, place), name(steps, next.value));
            let message = format!("`{next_name}` is named as next after `{this}`, but does not need it");
            let hint =
                format!("only `needs` makes a step wait: add `{this}` to the `needs` of `{next_name}`");
            warnings.add(next.position, Rule::SuccessorDoesNotNeed, message, hint);
        }
    }
}

/// A gate goes back to a step it stands on, directly or not; anything else would not do its work again.
pub(super) fn check_ways_back(steps: &[StepDraft], edges: &[Edges], problems: &mut Problems) {
    for (place, edge) in edges.iter().enumerate() {
        let Some(Placed { value: target, position }) = &edge.loop_back_to else { continue };
        if is_ancestor(*target, place, edges) {
            continue;
        }
        let (gate, target) = (name(steps, place), name(steps, *target));
        let message = if gate == target {
            format!("step `{gate}` goes back to itself")
        } else {
            format!("step `{gate}` goes back to `{target}`, which it does not need, directly or not")
        };
        let hint = format!("name a step that comes before `{gate}`: one of its `needs`, or of theirs");
        problems.add(*position, Rule::NotAnAncestor, message, hint);
    }
}

/// Whether it is, or may be: where a need could not be read, its own problem is enough.
fn is_ancestor(ancestor: usize, of: usize, edges: &[Edges]) -> bool {
    let mut seen = vec![false; edges.len()];
    let mut open = vec![of];
    while let Some(place) = open.pop() {
        if edges[place].more_needs {
            return true;
        }
        for need in edges[place].needs.iter().map(|need| need.value) {
            if need == ancestor {
                return true;
            }
            if !std::mem::replace(&mut seen[need], true) {
                open.push(need);
            }
        }
    }
    false
}

/// Reports one cycle, the shortest through its first step, for each group of steps that wait for one another.
pub(super) fn check_cycles(steps: &[StepDraft], edges: &[Edges], problems: &mut Problems) {
    let groups = groups(edges);
    let mut reported = vec![false; edges.len()];
    for place in 0..edges.len() {
        if std::mem::replace(&mut reported[groups[place]], true) {
            continue;
        }
        // Places are visited in order, so this is the first step of its group.
        let Some(cycle) = shortest_cycle(place, edges, &groups) else { continue };
        let first_need =
            edges[place].needs.iter().find(|need| Some(&need.value) == cycle.get(1).or(cycle.first()));
        let position = first_need.map_or(Position::START, |need| need.position);
        let names = describe(steps, &cycle);
        let message = format!("these steps wait for each other and none could ever start: {names}");
        let hint = "read `→` as \"needs\"; remove one of these needs";
        problems.add(position, Rule::Cycle, message, hint);
    }
}

/// `a → b → a`, shortened in the middle when it is long.
fn describe(steps: &[StepDraft], cycle: &[usize]) -> String {
    let mut names: Vec<&str> = cycle.iter().map(|place| name(steps, *place)).collect();
    if names.len() > LONGEST_CYCLE_NAMED {
        names.splice(LONGEST_CYCLE_NAMED - 1..names.len() - 1, ["…"]);
    }
    names.extend(cycle.first().map(|first| name(steps, *first)));
    names.join(" → ")
}

/// The shortest way from `start` back to itself inside its group, without the repeated end; breadth first.
fn shortest_cycle(start: usize, edges: &[Edges], groups: &[usize]) -> Option<Vec<usize>> {
    let mut came_from = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(place) = queue.pop_front() {
        for need in edges[place].needs.iter().map(|need| need.value) {
            if need == start {
                let mut cycle = vec![place];
                while let Some(before) = came_from.get(cycle.last()?) {
                    cycle.push(*before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if groups[need] == groups[start] && !came_from.contains_key(&need) {
                came_from.insert(need, place);
                queue.push_back(need);
            }
        }
    }
    None
}

/// Numbers the strongly connected components (Tarjan's algorithm, with its own stack: a chain of 10,000 steps must not
/// overflow ours). Two steps have the same number exactly if each waits for the other, directly or not.
fn groups(edges: &[Edges]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let count = edges.len();
    let mut order = vec![UNSEEN; count];
    let mut lowest = vec![0; count];
    let mut group = vec![UNSEEN; count];
    let mut waiting = vec![];
    let (mut next_order, mut next_group) = (0, 0);
    for root in 0..count {
        if order[root] != UNSEEN {
            continue;
        }
        // Each entry: a step, and how many of its needs have been looked at.
        let mut path = vec![(root, 0)];
        while let Some((place, looked)) = path.last_mut() {
            let place = *place;
            if *looked == 0 && order[place] == UNSEEN {
                order[place] = next_order;
                lowest[place] = next_order;
                next_order += 1;
                waiting.push(place);
            }
            if let Some(need) = edges[place].needs.get(*looked).map(|need| need.value) {
                *looked += 1;
                if order[need] == UNSEEN {
                    path.push((need, 0));
                } else if group[need] == UNSEEN {
                    lowest[place] = lowest[place].min(order[need]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                lowest[*parent] = lowest[*parent].min(lowest[place]);
            }
            if lowest[place] == order[place] {
                while let Some(member) = waiting.pop() {
                    group[member] = next_group;
                    if member == place {
                        break;
                    }
                }
                next_group += 1;
            }
        }
    }
    group
}

fn name(steps: &[StepDraft], place: usize) -> &str {
    steps[place].id.as_ref().map_or("?", |id| &id.value)
}
