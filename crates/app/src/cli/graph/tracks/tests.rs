//! What the drawing must never claim, over many graphs made at random.

use protocol::steps::{StepSpec, Workflow};

use super::super::arrange::{Area, Arranged, Cell, Flow, Kind, Line, arrange};
use super::super::picture::Picture;
use protocol::StepId;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

fn name(place: usize) -> StepId {
    StepId::new(format!("s{place}")).unwrap()
}

/// Up to thirty steps, each with up to three needs among the last few, some with a way back to one of them.
fn picture(seed: u64) -> Picture {
    let mut dice = Dice(seed);
    let count = 2 + dice.below(29);
    let steps = (0..count).map(|place| {
        let mut step = StepSpec::new(name(place), "a", "p.md");
        let mut needs: Vec<_> =
            (0..dice.below(4).min(place)).map(|_| place - 1 - dice.below(place.min(6))).collect();
        needs.sort_unstable();
        needs.dedup();
        step.loop_back_to = needs.first().filter(|_| dice.below(5) == 0).map(|place| name(*place));
        step.needs = needs.into_iter().map(name).collect();
        step
    });
    let steps = steps.collect();
    let workflow = Workflow {
        name: "random".to_owned(),
        description: String::new(),
        metadata: Default::default(),
        steps,
    };
    Picture::of_workflow(&workflow)
}

fn arranged(seed: u64, flow: Flow) -> Arranged {
    let picture = picture(seed);
    let sizes: Vec<_> = picture.steps.iter().map(|step| (step.id.len() + 4, 4)).collect();
    arrange(&picture, &sizes, flow)
}

fn each(mut check: impl FnMut(u64, &Arranged)) {
    for seed in 0..100 {
        for flow in [Flow::Down, Flow::Right] {
            check(seed, &arranged(seed, flow));
        }
    }
}

/// The cells between the two points of each leg, with whether it runs across.
fn stretches(line: &Line) -> Vec<(Cell, bool)> {
    let mut cells = Vec::new();
    for leg in line.points.windows(2) {
        let ((x0, y0), (x1, y1)) = (leg[0], leg[1]);
        for x in x0.min(x1)..=x0.max(x1) {
            for y in y0.min(y1)..=y0.max(y1) {
                cells.push(((x, y), y0 == y1));
            }
        }
    }
    cells
}

fn on(area: &Area, (x, y): Cell) -> bool {
    (area.x..area.x + area.width).contains(&x) && (area.y..area.y + area.height).contains(&y)
}

#[test]
fn every_leg_is_straight_and_every_line_joins_its_two_boxes() {
    each(|seed, arranged| {
        for line in &arranged.lines {
            assert!(
                line.points.windows(2).all(|leg| leg[0].0 == leg[1].0 || leg[0].1 == leg[1].1),
                "{seed}: {line:?}"
            );
            assert!(on(&arranged.areas[line.from], line.points[0]), "{seed}: {line:?}");
            assert!(on(&arranged.areas[line.to], *line.points.last().unwrap()), "{seed}: {line:?}");
        }
    });
}

#[test]
fn boxes_do_not_overlap() {
    each(|seed, arranged| {
        for (place, one) in arranged.areas.iter().enumerate() {
            for other in &arranged.areas[..place] {
                let apart = one.x + one.width <= other.x
                    || other.x + other.width <= one.x
                    || one.y + one.height <= other.y
                    || other.y + other.height <= one.y;
                assert!(apart, "{seed}: {one:?} {other:?}");
            }
        }
    });
}

/// Ways back are not held to this: several that end on one box may share a stretch beside it.
#[test]
fn needs_that_share_no_end_share_no_stretch() {
    each(|seed, arranged| {
        let lines: Vec<_> = arranged.lines.iter().filter(|line| line.kind == Kind::Needs).collect();
        for (place, one) in lines.iter().enumerate() {
            let own = stretches(one);
            for other in lines[..place].iter().filter(|other| other.from != one.from && other.to != one.to) {
                let shared = stretches(other).into_iter().find(|cell| own.contains(cell));
                assert_eq!(shared, None, "{seed}: {}→{} and {}→{}", one.from, one.to, other.from, other.to);
            }
        }
    });
}

#[test]
fn no_line_runs_through_a_box() {
    each(|seed, arranged| {
        for line in &arranged.lines {
            let ends = [line.points[0], *line.points.last().unwrap()];
            for (cell, _) in stretches(line).into_iter().filter(|(cell, _)| !ends.contains(cell)) {
                let hit = arranged.areas.iter().any(|area| on(area, cell));
                assert!(!hit, "{seed}: {line:?} at {cell:?}");
            }
        }
    });
}
