//! Tests of what `callboard graph` prints: a list, Mermaid, SVG and JSON.

use std::time::Duration;

use insta::assert_snapshot;
use protocol::StepId;
use protocol::present::StatusKind;
use protocol::steps::{StepSpec, Workflow};

use super::model::{Graph, Iteration, Progress, Run};
use super::{list, mermaid, svg};

/// Makes the graph of a workflow from step ids and their needs. A step `test` loops back to `fix`.
fn workflow(steps: &[(&str, &[&str])]) -> Graph {
    let id = |name: &&str| StepId::new(*name).unwrap();
    let steps = steps.iter().map(|(name, needs)| {
        let mut step = StepSpec::new(id(name), "coder", "p.md");
        step.needs = needs.iter().map(id).collect();
        step.loop_back_to = (*name == "test").then(|| id(&"fix"));
        step
    });
    Graph::of_workflow(&Workflow {
        name: "trial".to_owned(),
        description: String::new(),
        metadata: Default::default(),
        steps: steps.collect(),
    })
}

/// A run whose gate has failed once.
fn run() -> Graph {
    let mut graph =
        workflow(&[("plan", &[]), ("fix", &["plan"]), ("test", &["fix"]), ("docs", &["test", "plan"])]);
    graph.run = Some(Run { run: "f8c1a491".to_owned(), revision: 12, status: Some("failed") });
    let progress = [
        (StatusKind::Succeeded, "COMPLETED", Some(2), 1, None),
        (StatusKind::Skipped, "SKIPPED", None, 0, None),
        (StatusKind::Waiting, "WAITING_ON_HUMAN", Some(70), 1, Some(Iteration { current: 2, max: 4 })),
        (StatusKind::Failed, "FAILED", Some(1), 2, None),
    ];
    for (step, (kind, document_status, seconds, attempts, iteration)) in graph.steps.iter_mut().zip(progress)
    {
        let last_error = (kind == StatusKind::Failed).then(|| "exit code 1".to_owned());
        let duration = seconds.map(Duration::from_secs);
        step.progress = Some(Progress { kind, document_status, duration, attempts, iteration, last_error });
    }
    graph
}

/// A workflow whose steps have conditions, data loops, checks and an approval.
fn with_details() -> Graph {
    let source = "\
name: trial
steps:
- {id: plan, agent: coder, prompt: p}
- {id: code, agent: coder, prompt: p, needs: [plan], checks: [test, {run: [make], name: build}], loop: {items_from_step: plan, parallel: 2}}
- {id: review, agent: coder, prompt: p, needs: [code], loop: {with: code}, loop_back_to: code}
- {id: ship, agent: coder, prompt: p, needs: [review], gates: [ci, legal], human_in_the_loop: true}
";
    Graph::of_workflow(&protocol::steps::load::load(source).unwrap().workflow)
}

#[test]
fn every_format_shows_conditions_data_loops_checks_and_people() {
    let graph = with_details();
    assert_snapshot!(listed(&graph), @"
    trial  4 steps
    - plan    coder
    - code    coder  needs plan    repeats for the items of plan, 2 at once; checks test, build
    - review  coder  needs code    loops back to code; repeats for the items of code
    - ship    coder  needs review  waits for ci, legal; asks a person
    ");
    assert_snapshot!(mermaid::render(&graph), @r#"
    ---
    title: "trial"
    ---
    flowchart TD
        s0["plan<br>coder"]
        s1["code<br>coder<br>repeats for the items of plan, 2 at once<br>checks test, build"]
        s2["review<br>coder<br>repeats for the items of code"]
        s3["ship<br>coder<br>waits for ci, legal<br>asks a person"]
        s0 --> s1
        s1 --> s2
        s2 --> s3
        s2 -.->|back| s1
    "#);
    let drawn = svg::render(&graph);
    for text in [
        "waits for ci, legal",
        "repeats for the items of plan, 2 at once",
        "checks test, build",
        "asks a person",
    ] {
        assert!(drawn.contains(text), "{text}: {drawn}");
    }
    let json = serde_json::to_value(&graph).unwrap();
    assert_eq!(json["steps"][1]["checks"], serde_json::json!(["test", "build"]));
    assert_eq!(json["steps"][1]["loop"], "the items of plan, 2 at once");
    assert_eq!(json["steps"][3]["conditions"], serde_json::json!(["ci", "legal"]));
    assert_eq!(json["steps"][3]["person"], true);
}

fn listed(graph: &Graph) -> String {
    anstream::adapter::strip_str(&list::render(graph).join("\n")).to_string()
}

#[test]
fn a_workflow_is_listed_in_topological_order() {
    let graph = workflow(&[
        ("docs", &["test", "plan"]),
        ("plan", &[]),
        ("test", &["fix"]),
        ("fix", &["plan"]),
        ("lint", &[]),
    ]);
    assert_snapshot!(listed(&graph), @"
    trial  5 steps
    - plan  coder
    - fix   coder  needs plan
    - test  coder  needs fix         loops back to fix
    - docs  coder  needs test, plan
    - lint  coder
    ");
}

#[test]
fn a_run_is_listed_with_the_status_of_each_step() {
    assert_snapshot!(listed(&run()), @"
    f8c1a491 trial  failed  4 steps  revision 12
    ✓ plan  succeeded 2.0 s
    » fix   skipped                  needs plan
    ? test  waiting 1 min 10 s       needs fix         loops back to fix, iteration 2 of 4
    ✗ docs  failed 1.0 s, attempt 2  needs test, plan
    ");
}

#[test]
fn json_has_the_status_kind_and_the_status_in_the_document() {
    let json = serde_json::to_value(run()).unwrap();
    assert_eq!(json["status"], "failed");
    assert_eq!(json["steps"][0]["status"], "succeeded");
    assert_eq!(json["steps"][0]["document_status"], "COMPLETED");
    assert_eq!(json["steps"][2]["iteration"], 2);
    assert_eq!(json["steps"][2]["max_iterations"], 4);
    assert_eq!(json["steps"][3]["last_error"], "exit code 1");
}

/// Names and agents with characters that mean something in Mermaid or in XML.
fn odd_names() -> Graph {
    let mut graph = workflow(&[("end", &[]), ("a.b-c", &["end"])]);
    graph.title = r#"odd "names" <& more>"#.to_owned();
    graph.steps[0].agent = r#""quoted" <b>"#.to_owned();
    graph.steps[1].agent = "x[#;]`y`".to_owned();
    graph.steps[1].loop_back_index = Some(0);
    graph
}

#[test]
fn mermaid_escapes_odd_names() {
    assert_snapshot!(mermaid::render(&odd_names()), @r#"
    ---
    title: "odd \"names\" <& more>"
    ---
    flowchart TD
        s0["end<br>#34;quoted#34; #60;b#62;"]
        s1["a.b-c<br>x#91;#35;#59;#93;#96;y#96;"]
        s0 --> s1
        s1 -.->|back| s0
    "#);
}

#[test]
fn mermaid_shows_the_status_of_each_step() {
    assert_snapshot!(mermaid::render(&run()), @r#"
    ---
    title: "trial"
    ---
    flowchart TD
        s0["plan<br>✓ succeeded 2.0 s"]
        s1["fix<br>» skipped"]
        s2["test<br>#63; waiting 1 min 10 s<br>iteration 2 of 4"]
        s3["docs<br>✗ failed 1.0 s, attempt 2"]
        s0 --> s1
        s1 --> s2
        s2 --> s3
        s0 --> s3
        s2 -.->|back| s1
        classDef waiting fill:#fff8c5,stroke:#9a6700,color:#7d4e00
        class s2 waiting
        classDef succeeded fill:#dafbe9,stroke:#1a7f64,color:#116149
        class s0 succeeded
        classDef failed fill:#ffebe9,stroke:#cf222e,color:#a40e26
        class s3 failed
        classDef skipped fill:#f6f8fa,stroke:#afb8c1,color:#57606a
        class s1 skipped
    "#);
}

#[test]
fn an_svg_is_well_formed_whatever_the_names() {
    let svg = svg::render(&odd_names());
    expect_well_formed(&svg);
    assert!(svg.contains("&quot;quoted&quot; &lt;b&gt;"), "{svg}");
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert_eq!(svg.matches("stroke-dasharray").count(), 1, "the loop-back");
    expect_well_formed(&svg::render(&run()));
}

/// Asserts that every element is closed, in order, and that every `<` and `&` in a text is escaped.
#[track_caller]
fn expect_well_formed(svg: &str) {
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag has an end");
        assert!(!text.contains('>'), "{text}");
        for entity in [tag, text].into_iter().flat_map(|part| part.split('&').skip(1)) {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|known| entity.starts_with(known)), "{piece}");
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().expect("it has a name"));
        }
    }
    assert_eq!(open, [] as [&str; 0]);
}
