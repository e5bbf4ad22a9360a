//! A layered layout for the SVG, in pixels.
//!
//! A step is in the layer below the lowest step that it needs. An edge across several layers has a bend in each layer
//! between, so that it never runs behind a box. The nodes of a layer are ordered by the mean position of their neighbours.
//!
//! The line of a loop-back has a vertical piece right of all boxes, its lane, and a horizontal one in the gap below the gate
//! and in the gap above the target, its tracks.

use super::model::Graph;

pub(super) type Point = (usize, usize);

const COLUMN_GAP: usize = 28;
const LAYER_GAP: usize = 56;
/// Between two lanes, between a lane and the boxes, and between a layer and its first track.
const LANE_GAP: usize = 14;
/// Between two tracks in the same gap.
const TRACK_GAP: usize = 5;
/// How many tracks fit between a layer and the middle of the gap. Further loop-backs share them.
const TRACKS: usize = 4;
const ORDERING_PASSES: usize = 4;

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) height: usize,
    /// In the order of the steps.
    pub(super) boxes: Vec<Rect>,
    /// The line of each edge, from the needed step to the step that needs it.
    pub(super) needs: Vec<Vec<Point>>,
    /// The line of each loop-back, from the gate to its target.
    pub(super) loop_backs: Vec<Vec<Point>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rect {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Rect {
    fn center(&self) -> usize {
        self.x + self.width / 2
    }

    fn bottom(&self) -> usize {
        self.y + self.height
    }
}

/// A step or a bend.
struct Node {
    layer: usize,
    size: (usize, usize),
    above: Vec<usize>,
    below: Vec<usize>,
}

/// Places boxes of the given sizes, one for each step.
pub(super) fn layout(graph: &Graph, sizes: &[(usize, usize)]) -> Layout {
    let (nodes, edges) = nodes(graph, sizes);
    let layers = ordered_layers(&nodes);
    let width_of =
        |layer: &Vec<usize>| layer.iter().map(|node| nodes[*node].size.0 + COLUMN_GAP).sum::<usize>();
    let width = layers.iter().map(width_of).max().unwrap_or(0);
    let mut placed = vec![Rect::default(); nodes.len()];
    let mut bottoms = Vec::new();
    // Loop-backs enter the first layer from above.
    let has_gates = graph.steps.iter().any(|step| step.loop_back_index.is_some());
    let mut y = if has_gates { LANE_GAP + TRACK_GAP * TRACKS } else { 0 };
    for layer in &layers {
        let mut x = (width - width_of(layer) + COLUMN_GAP) / 2;
        for node in layer {
            let (width, height) = nodes[*node].size;
            placed[*node] = Rect { x, y, width, height };
            x += width + COLUMN_GAP;
        }
        let height = layer.iter().map(|node| nodes[*node].size.1).max().unwrap_or(0);
        bottoms.push(y + height);
        y += height + LAYER_GAP;
    }
    let layer_bottom = |node: usize| bottoms[nodes[node].layer];
    let needs = edges.iter().map(|edge| {
        let points = edge.iter().flat_map(|node| {
            let rect = &placed[*node];
            [(rect.center(), rect.y), (rect.center(), rect.bottom()), (rect.center(), layer_bottom(*node))]
        });
        // Of the first box only the bottom is on the line, of the last one only the top.
        let points: Vec<_> = points.skip(1).collect();
        points[..points.len() - 2].to_vec()
    });
    let needs = needs.collect();
    let gates = graph.steps.iter().enumerate().filter_map(|(gate, step)| Some((gate, step.loop_back_index?)));
    // How many loop-backs leave a layer, and how many enter it.
    let (mut leaving, mut entering) = (vec![0; layers.len()], vec![0; layers.len()]);
    let loop_backs: Vec<_> = gates
        .enumerate()
        .map(|(lane, (gate, target))| {
            let x = width + (lane + 1) * LANE_GAP;
            let leave = reserve_track(&mut leaving[nodes[gate].layer]);
            let enter = reserve_track(&mut entering[nodes[target].layer]);
            let (from, to) = (&placed[gate], &placed[target]);
            let (start, end) = (from.x + from.width - LANE_GAP, to.x + to.width - LANE_GAP);
            let (below, above) = (layer_bottom(gate) + leave, to.y - enter);
            vec![(start, from.bottom()), (start, below), (x, below), (x, above), (end, above), (end, to.y)]
        })
        .collect();
    let width = if loop_backs.is_empty() { width } else { width + (loop_backs.len() + 1) * LANE_GAP };
    let lowest_line = loop_backs.iter().flatten().map(|(_, y)| *y).max().unwrap_or(0);
    let height = y.saturating_sub(LAYER_GAP).max(lowest_line);
    placed.truncate(graph.steps.len());
    Layout { width, height, boxes: placed, needs, loop_backs }
}

/// Reserves the next track in a gap, and returns its distance from the layer.
fn reserve_track(used: &mut usize) -> usize {
    let distance = LANE_GAP + *used % TRACKS * TRACK_GAP;
    *used += 1;
    distance
}

/// Returns the nodes, first the steps, then the bends, and for each edge the nodes it passes.
fn nodes(graph: &Graph, sizes: &[(usize, usize)]) -> (Vec<Node>, Vec<Vec<usize>>) {
    let mut nodes: Vec<Node> = Vec::with_capacity(sizes.len());
    for (step, size) in graph.steps.iter().zip(sizes) {
        let layer = step.need_indices.iter().map(|need| nodes[*need].layer + 1).max().unwrap_or(0);
        nodes.push(Node { layer, size: *size, above: Vec::new(), below: Vec::new() });
    }
    let mut edges = Vec::new();
    for (index, step) in graph.steps.iter().enumerate() {
        for need in &step.need_indices {
            let mut edge = vec![*need];
            for layer in nodes[*need].layer + 1..nodes[index].layer {
                edge.push(nodes.len());
                nodes.push(Node { layer, size: (0, 0), above: Vec::new(), below: Vec::new() });
            }
            edge.push(index);
            for pair in edge.windows(2) {
                nodes[pair[0]].below.push(pair[1]);
                nodes[pair[1]].above.push(pair[0]);
            }
            edges.push(edge);
        }
    }
    (nodes, edges)
}

/// Returns the nodes of each layer from left to right, ordered so that few edges cross.
fn ordered_layers(nodes: &[Node]) -> Vec<Vec<usize>> {
    let count = nodes.iter().map(|node| node.layer + 1).max().unwrap_or(0);
    let mut layers = vec![Vec::new(); count];
    for (index, node) in nodes.iter().enumerate() {
        layers[node.layer].push(index);
    }
    let mut position = vec![0.0; nodes.len()];
    for pass in 0..ORDERING_PASSES {
        let downwards = pass % 2 == 0;
        for offset in 0..count {
            let layer = &mut layers[if downwards { offset } else { count - 1 - offset }];
            let mean = |node: usize, position: &[f64]| {
                let neighbours = if downwards { &nodes[node].above } else { &nodes[node].below };
                let sum: f64 = neighbours.iter().map(|neighbour| position[*neighbour]).sum();
                if neighbours.is_empty() { position[node] } else { sum / neighbours.len() as f64 }
            };
            layer.sort_by(|one, other| mean(*one, &position).total_cmp(&mean(*other, &position)));
            for (index, node) in layer.iter().enumerate() {
                // Relative to the middle, because layers are centred.
                position[*node] = index as f64 - (layer.len() - 1) as f64 / 2.0;
            }
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use protocol::StepId;
    use protocol::steps::{StepSpec, Workflow};

    use super::*;

    /// Pseudo-random numbers from a seed.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % limit
        }
    }

    /// Up to thirty steps with up to three needs each; every fifth step with needs is a gate.
    fn random_graph(seed: u64) -> Graph {
        let id = |index: usize| StepId::new(format!("s{index}")).unwrap();
        let mut random = Random(seed);
        let steps = (0..2 + random.below(29)).map(|index| {
            let mut step = StepSpec::new(id(index), "a", "p.md");
            let mut needs: Vec<_> =
                (0..random.below(4).min(index)).map(|_| index - 1 - random.below(index.min(6))).collect();
            needs.sort_unstable();
            needs.dedup();
            step.loop_back_to = needs.first().filter(|_| random.below(5) == 0).map(|need| id(*need));
            step.needs = needs.into_iter().map(id).collect();
            step
        });
        let steps = steps.collect();
        let (name, description, metadata) = ("random".to_owned(), String::new(), Default::default());
        Graph::of_workflow(&Workflow { name, description, metadata, steps })
    }

    fn for_each_layout(check: impl Fn(u64, &Graph, &Layout)) {
        for seed in 0..100 {
            let graph = random_graph(seed);
            let sizes: Vec<_> =
                (0..graph.steps.len()).map(|index| (60 + index % 3 * 20, 40 + index % 2 * 20)).collect();
            check(seed, &graph, &layout(&graph, &sizes));
        }
    }

    fn strictly_inside(rect: &Rect, (x, y): (f64, f64)) -> bool {
        let within = |value: f64, start: usize, length: usize| {
            value > start as f64 + 0.5 && value < (start + length) as f64 - 0.5
        };
        within(x, rect.x, rect.width) && within(y, rect.y, rect.height)
    }

    #[test]
    fn boxes_do_not_overlap() {
        for_each_layout(|seed, _, layout| {
            for (index, one) in layout.boxes.iter().enumerate() {
                for other in &layout.boxes[..index] {
                    let apart = one.x + one.width <= other.x
                        || other.x + other.width <= one.x
                        || one.bottom() <= other.y
                        || other.bottom() <= one.y;
                    assert!(apart, "{seed}: {one:?} {other:?}");
                }
            }
        });
    }

    #[test]
    fn every_edge_joins_its_two_boxes() {
        for_each_layout(|seed, graph, layout| {
            let edges = graph.steps.iter().enumerate();
            let edges =
                edges.flat_map(|(index, step)| step.need_indices.iter().map(move |need| (*need, index)));
            for ((from, to), points) in edges.zip(&layout.needs) {
                let (from, to) = (&layout.boxes[from], &layout.boxes[to]);
                assert_eq!(points.first(), Some(&(from.center(), from.bottom())), "{seed}");
                assert_eq!(points.last(), Some(&(to.center(), to.y)), "{seed}");
            }
        });
    }

    #[test]
    fn loop_backs_of_one_layer_do_not_share_a_line() {
        let step = |name: &str, needs: &[&str], target: Option<&str>| {
            let id = |name: &str| StepId::new(name).unwrap();
            let mut step = StepSpec::new(id(name), "a", "p.md");
            step.needs = needs.iter().map(|need| id(need)).collect();
            step.loop_back_to = target.map(id);
            step
        };
        let steps = vec![step("a", &[], None), step("b", &["a"], Some("a")), step("c", &["a"], Some("a"))];
        let (name, description, metadata) = ("gates".to_owned(), String::new(), Default::default());
        let graph = Graph::of_workflow(&Workflow { name, description, metadata, steps });
        let layout = layout(&graph, &[(60, 40); 3]);
        let [one, other] = layout.loop_backs.as_slice() else { panic!("{layout:?}") };
        for corner in [1, 3] {
            assert_ne!(one[corner].1, other[corner].1, "{layout:?}");
        }
    }

    #[test]
    fn no_line_runs_through_a_box() {
        for_each_layout(|seed, _, layout| {
            for line in layout.needs.iter().chain(&layout.loop_backs) {
                for pair in line.windows(2) {
                    for sample in 0..=40 {
                        let at = |from: usize, to: usize| {
                            from as f64 + (to as f64 - from as f64) * f64::from(sample) / 40.0
                        };
                        let point = (at(pair[0].0, pair[1].0), at(pair[0].1, pair[1].1));
                        let hit = layout.boxes.iter().find(|rect| strictly_inside(rect, point));
                        assert!(hit.is_none(), "{seed}: {line:?} runs through {hit:?}");
                    }
                }
            }
        });
    }
}
