//! Checks over all steps of a draft: ids are safe and unique, references are known, and no step waits for itself. A draft is a
//! workflow file whose keys and types are checked, and whose ids and references are still text.

use std::collections::{BTreeMap, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

use crate::closest;
use crate::ids::{InvalidId, StepId};
use crate::located::{Located, Problems, Rule, SourcePos};

use super::draft::StepDraft;

/// A guess at what was meant costs a pass over all ids. After this many unknown references, none is made.
const MAX_GUESSES: usize = 20;
/// Longer cycles are shortened in messages.
const MAX_CYCLE_SHOWN: usize = 10;

/// The references of one step, as indices into the list of steps.
#[derive(Debug, Default)]
pub(super) struct Edges {
    pub(super) needs: Vec<Located<usize>>,
    /// Whether some needs were reported as problems and are missing from `needs`.
    pub(super) needs_incomplete: bool,
    pub(super) next_on_success: Vec<Located<usize>>,
    pub(super) loop_back_to: Option<Located<usize>>,
    /// The step that a data loop names in `items_from_step` or `with`.
    pub(super) loop_source: Option<Located<usize>>,
    /// For each test in `when`, the step that it names, if it names one.
    pub(super) when: Vec<Option<Located<usize>>>,
}

/// Checks the ids and returns one for each step: `None` if it is missing or was reported as a problem.
pub(super) fn check_ids(steps: &[StepDraft], problems: &mut Problems) -> Vec<Option<StepId>> {
    let mut first: BTreeMap<&str, SourcePos> = BTreeMap::new();
    let ids = steps.iter().map(|step| {
        let Located { value: id, pos } = step.id.as_ref()?;
        if let Some(first) = first.get(id.as_str()) {
            let message = format!("two steps have the id `{id}`; the first is on line {}", first.line);
            problems.add(*pos, Rule::DuplicateId, message, "give one of them another id");
            return None;
        }
        first.insert(id, *pos);
        let unsafe_id = |error: InvalidId| {
            let message = format!("`{id}` cannot be an id: {error}");
            let hint = "the id names files and variables; choose something like `code_review-2`";
            problems.add(*pos, Rule::UnsafeId, message, hint);
        };
        StepId::new(id).map_err(unsafe_id).ok()
    });
    ids.collect()
}

/// Resolves all references. Unknown references and self-dependencies are problems, repeated references are warnings.
pub(super) fn resolve(steps: &[StepDraft], problems: &mut Problems, warnings: &mut Problems) -> Vec<Edges> {
    let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        if let Some(id) = &step.id {
            indices.entry(&id.value).or_insert(index);
        }
    }
    let mut resolver = Resolver { indices, guesses: 0, problems, warnings };
    let resolved = steps.iter().enumerate().map(|(index, step)| {
        let before = resolver.problems.count();
        let mut needs = resolver.resolve_all("needs", &step.needs);
        let needs_incomplete = step.needs_incomplete || resolver.problems.count() > before;
        needs.retain(|need| {
            if need.value == index {
                let message = format!("step `{}` needs itself", name(steps, index));
                let hint = "remove it from its own `needs`";
                resolver.problems.add(need.pos, Rule::SelfDependency, message, hint);
            }
            need.value != index
        });
        let next_on_success = resolver.resolve_all("next_on_success", &step.next_on_success);
        let loop_back_to = resolver.resolve_all("loop_back_to", step.loop_back_to.as_slice()).pop();
        let source = step.data_loop.as_ref().and_then(|data_loop| data_loop.step());
        let loop_source =
            source.and_then(|(key, step)| resolver.resolve_all(key, std::slice::from_ref(step)).pop());
        let when = step
            .when
            .iter()
            .map(|when| resolver.resolve_all("when", when.step().map_or(&[], std::slice::from_ref)).pop());
        let when = when.collect();
        Edges { needs, needs_incomplete, next_on_success, loop_back_to, loop_source, when }
    });
    resolved.collect()
}

struct Resolver<'a> {
    indices: BTreeMap<&'a str, usize>,
    guesses: usize,
    problems: &'a mut Problems,
    warnings: &'a mut Problems,
}

impl Resolver<'_> {
    fn resolve_all(&mut self, key: &str, references: &[Located<String>]) -> Vec<Located<usize>> {
        let mut seen = BTreeMap::new();
        let mut found = vec![];
        for Located { value: id, pos } in references {
            let Some(index) = self.indices.get(id.as_str()).copied() else {
                self.unknown(key, id, *pos);
                continue;
            };
            if seen.insert(index, ()).is_some() {
                let message = format!("`{key}` names `{id}` twice");
                self.warnings.add(*pos, Rule::RepeatedReference, message, "once is enough");
            } else {
                found.push(Located { value: index, pos: *pos });
            }
        }
        found
    }

    fn unknown(&mut self, key: &str, id: &str, pos: SourcePos) {
        self.guesses += 1;
        let meant =
            (self.guesses <= MAX_GUESSES).then(|| closest(id, self.indices.keys().copied())).flatten();
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("name a step of this file, or add one with `id: {id}`"),
        };
        let message = format!("`{key}` names `{id}`, but no step has this id");
        self.problems.add(pos, Rule::UnknownStep, message, hint);
    }
}

/// Warns about `next_on_success` references to steps that do not need this one.
pub(super) fn check_successors(steps: &[StepDraft], edges: &[Edges], warnings: &mut Problems) {
    for (index, step_edges) in edges.iter().enumerate() {
        for next in &step_edges.next_on_success {
            if edges[next.value].needs.iter().any(|need| need.value == index) {
                continue;
            }
            let (this, next_name) = (name(steps, index), name(steps, next.value));
            let message = format!("`{next_name}` is named as next after `{this}`, but does not need it");
            let hint =
                format!("only `needs` makes a step wait: add `{this}` to the `needs` of `{next_name}`");
            warnings.add(next.pos, Rule::SuccessorDoesNotNeed, message, hint);
        }
    }
}

/// Checks that gates loop back to a step they depend on, directly or not. Any other step would not lead to the gate again.
pub(super) fn check_loop_backs(steps: &[StepDraft], edges: &[Edges], problems: &mut Problems) {
    for (index, step_edges) in edges.iter().enumerate() {
        let Some(Located { value: target, pos }) = &step_edges.loop_back_to else { continue };
        if is_ancestor(*target, index, edges) {
            continue;
        }
        let (gate, target) = (name(steps, index), name(steps, *target));
        let message = if gate == target {
            format!("step `{gate}` loops back to itself")
        } else {
            format!("step `{gate}` loops back to `{target}`, which it does not need, directly or not")
        };
        let hint = format!("name a step that comes before `{gate}`: one of its `needs`, or of theirs");
        problems.add(*pos, Rule::NotAnAncestor, message, hint);
    }
}

/// Returns whether a step is an ancestor of another, or may be one: a need that could not be read has its own problem.
pub(super) fn is_ancestor(ancestor: usize, of: usize, edges: &[Edges]) -> bool {
    let mut seen = vec![false; edges.len()];
    let mut to_visit = vec![of];
    while let Some(index) = to_visit.pop() {
        if edges[index].needs_incomplete {
            return true;
        }
        for need in edges[index].needs.iter().map(|need| need.value) {
            if need == ancestor {
                return true;
            }
            if !std::mem::replace(&mut seen[need], true) {
                to_visit.push(need);
            }
        }
    }
    false
}

/// Reports one cycle, the shortest through its first step, for each group of steps that wait for each other.
pub(super) fn check_cycles(steps: &[StepDraft], edges: &[Edges], problems: &mut Problems) {
    let groups = groups(edges);
    let mut reported = vec![false; edges.len()];
    for index in 0..edges.len() {
        if std::mem::replace(&mut reported[groups[index]], true) {
            continue;
        }
        // Steps are visited in order, so this is the first step of its group.
        let Some(cycle) = shortest_cycle(index, edges, &groups) else { continue };
        let first_need =
            edges[index].needs.iter().find(|need| Some(&need.value) == cycle.get(1).or(cycle.first()));
        let pos = first_need.map_or(SourcePos::START, |need| need.pos);
        let names = describe(steps, &cycle);
        let message = format!("these steps wait for each other and none could ever start: {names}");
        let hint = "read `→` as \"needs\"; remove one of these needs";
        problems.add(pos, Rule::Cycle, message, hint);
    }
}

/// Renders `a → b → a`, shortened in the middle if it is long.
fn describe(steps: &[StepDraft], cycle: &[usize]) -> String {
    let mut names: Vec<&str> = cycle.iter().map(|index| name(steps, *index)).collect();
    if names.len() > MAX_CYCLE_SHOWN {
        names.splice(MAX_CYCLE_SHOWN - 1..names.len() - 1, ["…"]);
    }
    names.extend(cycle.first().map(|first| name(steps, *first)));
    names.join(" → ")
}

/// Returns the shortest cycle through `start` inside its group, without the repeated end, by breadth-first search.
fn shortest_cycle(start: usize, edges: &[Edges], groups: &[usize]) -> Option<Vec<usize>> {
    let mut previous = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(index) = queue.pop_front() {
        for need in edges[index].needs.iter().map(|need| need.value) {
            if need == start {
                let mut cycle = vec![index];
                while let Some(before) = previous.get(cycle.last()?) {
                    cycle.push(*before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if groups[need] == groups[start] && !previous.contains_key(&need) {
                previous.insert(need, index);
                queue.push_back(need);
            }
        }
    }
    None
}

/// Numbers the strongly connected components. Two steps have the same number exactly if each waits for the other, directly
/// or not. petgraph's `tarjan_scc` recurses, so that a chain of 10,000 steps could overflow the stack; `kosaraju_scc` does not.
fn groups(edges: &[Edges]) -> Vec<usize> {
    let mut graph = DiGraph::<(), (), usize>::default();
    let nodes: Vec<_> = edges.iter().map(|_| graph.add_node(())).collect();
    for (step_edges, node) in edges.iter().zip(&nodes) {
        for need in &step_edges.needs {
            graph.add_edge(*node, nodes[need.value], ());
        }
    }
    let mut groups = vec![0; edges.len()];
    for (number, members) in kosaraju_scc(&graph).into_iter().enumerate() {
        for member in members {
            groups[member.index()] = number;
        }
    }
    groups
}

pub(super) fn name(steps: &[StepDraft], index: usize) -> &str {
    steps[index].id.as_ref().map_or("?", |id| &id.value)
}
