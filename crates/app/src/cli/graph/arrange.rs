//! Where everything goes: a layered layout by `ascii-dag`, in cells of a terminal. The SVG uses the same.

use ascii_dag::{
    CustomNode, Direction, EdgePath, FlowAxis, Graph, LayoutConfig, LayoutEdge, PhysicalSide, PortAttachment,
    PortSide, QUALITY,
};

use super::picture::Picture;
use super::tracks;

/// A cell: column and row.
pub(super) type Cell = (usize, usize);

/// Which way the steps follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Down,
    Right,
}

/// The picture with places.
#[derive(Debug)]
pub(super) struct Arranged {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Where each step is, in the order of the steps.
    pub(super) areas: Vec<Area>,
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Area {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

/// A line from one step to another. Its first and last point lie on the edges of their areas, and of two neighbouring
/// points one coordinate is the same.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: Kind,
    pub(super) points: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The one is needed by the other.
    Needs,
    /// A gate's way back.
    Back,
}

/// Arranges steps of these sizes.
pub(super) fn arrange(picture: &Picture, sizes: &[(usize, usize)], flow: Flow) -> Arranged {
    let backs = picture.steps.iter().filter(|step| step.back_to.is_some()).count();
    let mut sides = vec![(PortSide::Counterclockwise, PortSide::Counterclockwise); backs];
    let (mut arranged, refused) = lay(picture, sizes, flow, &sides);
    // Ways back run beside the boxes. Where there was no room on the one side, there may be on the other.
    if refused.iter().any(|(start, end)| *start || *end) {
        for (side, refused) in sides.iter_mut().zip(refused) {
            let turn = |side, refused| if refused { PortSide::Clockwise } else { side };
            *side = (turn(side.0, refused.0), turn(side.1, refused.1));
        }
        (arranged, _) = lay(picture, sizes, flow, &sides);
    }
    tracks::spread(&mut arranged, flow);
    arranged
}

/// One layout, with the sides on which ways back are to leave and arrive, and which of them were not granted.
fn lay(
    picture: &Picture,
    sizes: &[(usize, usize)],
    flow: Flow,
    sides: &[(PortSide, PortSide)],
) -> (Arranged, Vec<(bool, bool)>) {
    let mut graph = Graph::new();
    for (place, (width, height)) in sizes.iter().enumerate() {
        let room = CustomNode { label: "", width: *width, height: *height, painter: None, payload: "" };
        graph.add_node(place, room);
    }
    let mut kinds = Vec::new();
    for (place, step) in picture.steps.iter().enumerate() {
        for need in &step.needs {
            graph.add_edge(*need, place, None);
            kinds.push(Kind::Needs);
        }
    }
    let backs = picture.steps.iter().enumerate().filter_map(|(gate, step)| Some((gate, step.back_to?)));
    for ((gate, target), (start, end)) in backs.zip(sides) {
        // Laid the other way round: so there is no cycle whose breaking could turn one of the needs about.
        graph.add_edge(target, gate, None).from_port(*start).to_port(*end);
        kinds.push(Kind::Back);
    }
    graph.set_crossing_pipeline(QUALITY);
    let mut config = LayoutConfig::standard();
    config.direction = match flow {
        Flow::Down => Direction::TopDown,
        Flow::Right => Direction::LeftRight,
    };
    if flow == Flow::Right {
        config.node_spacing = 1;
    }
    let layout = graph.compute_layout_with_config(&config);
    let mut areas = vec![Area::default(); sizes.len()];
    for node in layout.nodes() {
        if let Some(area) = areas.get_mut(node.id) {
            *area = Area { x: node.x, y: node.y, width: node.width, height: node.height };
        }
    }
    let mut lines = Vec::new();
    let mut refused = vec![(false, false); sides.len()];
    for edge in layout.edges() {
        let kind = kinds[edge.edge_index];
        if kind == Kind::Back {
            let beside = |port: PortAttachment| match flow {
                Flow::Down => matches!(port.side, PhysicalSide::East | PhysicalSide::West),
                Flow::Right => matches!(port.side, PhysicalSide::North | PhysicalSide::South),
            };
            let place = edge.edge_index - (kinds.len() - sides.len());
            refused[place] = (!beside(edge.from_port), !beside(edge.to_port));
        }
        lines.push(line(edge, kind));
    }
    (Arranged { width: layout.width(), height: layout.height(), areas, lines }, refused)
}

fn line(edge: &LayoutEdge<'_>, kind: Kind) -> Line {
    let mut points = points(edge);
    points.dedup();
    match kind {
        Kind::Needs => Line { from: edge.from_id, to: edge.to_id, kind, points },
        Kind::Back => {
            points.reverse();
            Line { from: edge.to_id, to: edge.from_id, kind, points }
        }
    }
}

/// The corners of an edge. The layout states some of its turns and leaves others to whoever draws; here all are stated.
fn points(edge: &LayoutEdge<'_>) -> Vec<Cell> {
    let (from, to) = ((edge.from_x, edge.from_y), (edge.to_x, edge.to_y));
    // Along the flow, across it: turns are made across.
    let turned = edge.flow_axis == FlowAxis::X;
    let role = |(x, y): Cell| if turned { (x, y) } else { (y, x) };
    let cell = |(along, across): (usize, usize)| if turned { (along, across) } else { (across, along) };
    let (start, end) = (role(from), role(to));
    let within = match &edge.path {
        EdgePath::Corner { bend_at } => vec![(*bend_at, start.1), (*bend_at, end.1)],
        EdgePath::SideChannel { channel_at, span_start, span_end } => vec![
            (*span_start, start.1),
            (*span_start, *channel_at),
            (*span_end, *channel_at),
            (*span_end, end.1),
        ],
        EdgePath::MultiSegment { waypoints, start_offset } => {
            let mut turns = Vec::new();
            let (mut workspace, mut offset) = (start, *start_offset);
            for next in waypoints.iter().map(|point| role(*point)).chain([end]) {
                if workspace.1 != next.1 {
                    let turn = workspace.0 + 1 + offset;
                    turns.extend([(turn, workspace.1), (turn, next.1)]);
                }
                (workspace, offset) = (next, 0);
            }
            turns
        }
        EdgePath::Orthogonal { bends } => bends.iter().map(|bend| role(*bend)).collect(),
        // A straight one. Splines and what later versions may bring are not made for graphs like ours.
        _ => Vec::new(),
    };
    std::iter::once(from).chain(within.into_iter().map(cell)).chain([to]).collect()
}
