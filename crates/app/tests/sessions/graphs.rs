//! `callboard graph`: what is drawn, and what is said when nothing can be drawn.

use insta::assert_snapshot;
use testkit::Scene;

use crate::scene;

/// The drawing of `wf.yaml`, without its heading's colours and the call.
fn drawn(scene: &Scene, arguments: &[&str]) -> String {
    let session = scene.callboard(&[&["graph", "wf.yaml"], arguments].concat()).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    session.stdout
}

#[test]
fn a_line() {
    let scene = scene();
    scene.workflow(&["plan", "code: plan", "docs: code"]);
    assert_snapshot!(drawn(&scene, &[]), @"
    trial  3 steps
    ┌─────────┐
    │ plan    │
    │ profile  │
    └─────────┘
         │
         ▾
    ┌─────────┐
    │ code    │
    │ profile  │
    └─────────┘
         │
         ▾
    ┌─────────┐
    │ docs    │
    │ profile  │
    └─────────┘
    ");
}

#[test]
fn a_diamond() {
    let scene = scene();
    scene.workflow(&["plan", "files: plan", "words: plan", "summary: files words"]);
    assert_snapshot!(drawn(&scene, &[]), @"
    trial  4 steps
           ┌─────────┐
           │ plan    │
           │ profile  │
           └─────────┘
         ╭──────┴──────╮
         ▾             ▾
    ┌─────────┐   ┌─────────┐
    │ files   │   │ words   │
    │ profile  │   │ profile  │
    └─────────┘   └─────────┘
         ╰──────┬──────╯
                ▾
           ┌─────────┐
           │ summary │
           │ profile  │
           └─────────┘
    ");
}

#[test]
fn a_gate_has_a_dashed_way_back() {
    let scene = scene();
    gate(&scene);
    assert_snapshot!(drawn(&scene, &[]), @"
    trial  4 steps
    ┌─────────┐
    │ plan    │
    │ profile  │
    └─────────┘
         │
         ▾
    ┌─────────┐
    │ fix     │◂
    │ profile  │┆
    └─────────┘┆
         │     ┆
         ▾     ┆
    ┌─────────┐┆
    │ test    │╯
    │ profile  │
    └─────────┘
         │
         ▾
    ┌─────────┐
    │ docs    │
    │ profile  │
    └─────────┘
    ");
    assert_snapshot!(drawn(&scene, &["--ascii"]), @"
    trial  4 steps
    +---------+
    | plan    |
    | profile  |
    +---------+
         |
         v
    +---------+
    | fix     |<
    | profile  |:
    +---------+:
         |     :
         v     :
    +---------+:
    | test    |+
    | profile  |
    +---------+
         |
         v
    +---------+
    | docs    |
    | profile  |
    +---------+
    ");
}

fn gate(scene: &Scene) {
    scene.workflow_of(&[
        "id: plan",
        "id: fix, needs: [plan]",
        "id: test, needs: [fix], loop_back_to: fix",
        "id: docs, needs: [test]",
    ]);
}

/// Two gates, a long line past several rows, and lines that must cross.
fn twenty(scene: &Scene) {
    scene.workflow_of(&[
        "id: s01",
        "id: s02, needs: [s01]",
        "id: s03, needs: [s01]",
        "id: s04, needs: [s01]",
        "id: s05, needs: [s02, s03]",
        "id: s06, needs: [s03, s04]",
        "id: s07, needs: [s02, s04]",
        "id: s08, needs: [s05]",
        "id: s09, needs: [s05, s06]",
        "id: s10, needs: [s06, s07]",
        "id: s11, needs: [s07, s01]",
        "id: s12, needs: [s08, s09], loop_back_to: s05",
        "id: s13, needs: [s10, s11]",
        "id: s14, needs: [s12, s13], loop_back_to: s01",
        "id: s15, needs: [s14]",
        "id: s16, needs: [s14]",
        "id: s17, needs: [s15, s16]",
        "id: s18, needs: [s17, s02]",
        "id: s19, needs: [s17]",
        "id: s20, needs: [s18, s19]",
    ]);
}

#[test]
fn twenty_steps_whose_lines_join_only_where_they_have_an_end_in_common() {
    let scene = scene();
    twenty(&scene);
    assert_snapshot!(drawn(&scene, &[]), @"
    trial  20 steps
                              ┌─────────┐
                              │ s01     │◂
                              │ profile  │┆
                              └─────────┘┆
               ╭─────────────┬─────┴─────┆─┬─────────╮
               │             │           ╰┄│┄┄┄┄┄┄┄┄┄│┄┄┄┄┄┄┄┄┄┄┄┄╮
               ▾             ▾             ▾         │            ┆
          ┌─────────┐   ┌─────────┐   ┌─────────┐    │            ┆
          │ s02     │   │ s03     │   │ s04     │    │            ┆
          │ profile  │   │ profile  │   │ profile  │    │            ┆
          └─────────┘   └─────────┘   └─────────┘    │            ┆
    ╭──────────┼─────────────│─────────────│──╮      │            ┆
    │          ╰──╮          │  ╭──────────┴──┤      │            ┆
    │             ├──────────┴──┤             │      │            ┆
    │             ▾             ▾             ▾      │            ┆
    │        ┌─────────┐   ┌─────────┐   ┌─────────┐ │            ┆
    │        │ s05     │◂  │ s06     │   │ s07     │ │            ┆
    │        │ profile  │┆  │ profile  │   │ profile  │ │            ┆
    │        └─────────┘┆  └─────────┘   └─────────┘ │            ┆
    │      ╭──────┴─────┆──────╮│            ╭┴──────│─────╮      ┆
    │      │            ┆      ├┴────────────┤       ╰─────┤      ┆
    │      │           ╭╯      │             │             │      ┆
    │      ▾           ┆       ▾             ▾             ▾      ┆
    │ ┌─────────┐      ┆  ┌─────────┐   ┌─────────┐   ┌─────────┐ ┆
    │ │ s08     │      ┆  │ s09     │   │ s10     │   │ s11     │ ┆
    │ │ profile  │      ┆  │ profile  │   │ profile  │   │ profile  │ ┆
    │ └─────────┘      ┆  └─────────┘   └─────────┘   └─────────┘ ┆
    │      ╰───────────┆────┬──╯          ╭──┴─────────────╯      ┆
    │                  ╰┄┄┄┄│┄┄┄┄┄╮       │                       ┆
    │                       ▾     ┆       ▾                       ┆
    │                  ┌─────────┐┆  ┌─────────┐                  ┆
    │                  │ s12     │╯  │ s13     │                  ┆
    │                  │ profile  │   │ profile  │                  ┆
    │                  └─────────┘   └─────────┘                  ┆
    │                       ╰─────────┬───╯                       ┆
    │                                 │     ╭┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄╯
    │                                 ▾     ┆
    │                            ┌─────────┐┆
    │                            │ s14     │╯
    │                            │ profile  │
    │                            └─────────┘
    │                          ╭──────┴──────╮
    │                          ▾             ▾
    │                     ┌─────────┐   ┌─────────┐
    │                     │ s15     │   │ s16     │
    │                     │ profile  │   │ profile  │
    │                     └─────────┘   └─────────┘
    │                          ╰──────┬──────╯
    │                                 ▾
    │                            ┌─────────┐
    │                            │ s17     │
    │                            │ profile  │
    │                            └─────────┘
    ╰───────────────────────╮         │
                            ├─────────┴───╮
                            ▾             ▾
                       ┌─────────┐   ┌─────────┐
                       │ s18     │   │ s19     │
                       │ profile  │   │ profile  │
                       └─────────┘   └─────────┘
                            ╰──────┬──────╯
                                   ▾
                              ┌─────────┐
                              │ s20     │
                              │ profile  │
                              └─────────┘
    ");
}

#[test]
fn what_does_not_fit_is_drawn_smaller_and_at_last_listed() {
    let scene = scene();
    twenty(&scene);
    for width in ["30", "40", "60"] {
        let drawing = drawn(&scene, &["--width", width]);
        let widest = drawing.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width.parse().unwrap()), "{drawing}");
    }
    assert_snapshot!(drawn(&scene, &["--width", "20"]), @"
    trial  20 steps
    s01  profile
    s02  profile  ← s01
    s03  profile  ← s01
    s04  profile  ← s01
    s05  profile  ← s02, s03
    s06  profile  ← s03, s04
    s07  profile  ← s02, s04
    s08  profile  ← s05
    s09  profile  ← s05, s06
    s10  profile  ← s06, s07
    s11  profile  ← s07, s01
    s12  profile  ← s08, s09  ⟲ s05
    s13  profile  ← s10, s11
    s14  profile  ← s12, s13  ⟲ s01
    s15  profile  ← s14
    s16  profile  ← s14
    s17  profile  ← s15, s16
    s18  profile  ← s17, s02
    s19  profile  ← s17
    s20  profile  ← s18, s19
    ");
}

#[test]
fn of_a_run_every_step_says_how_far_it_is() {
    let scene = scene();
    gate(&scene);
    scene.plan(&["test * gate-failure 1", "docs * exit 1"]);
    assert_eq!(scene.run(&[]).run().code, 1);
    assert_snapshot!(scene.callboard(&["graph", "trial"]).run().transcript(), @"
    $ callboard graph trial
    trial trial  failed  revision 12
        ┌───────────────┐
        │ plan          │
        │ ✓ done [TIME]  │
        └───────────────┘
                │
                ▾
        ┌───────────────┐
        │ fix           │◂
        │ ✓ done [TIME]  │┆
        └───────────────┘┆
                │        ╰┄╮
                ▾          ┆
      ┌───────────────────┐┆
      │ test              │┆
      │ ✓ done [TIME]      │╯
      │ iteration 2 of 4  │
      └───────────────────┘
                │
                ▾
    ┌───────────────────────┐
    │ docs                  │
    │ ✗ failed [TIME], try 2 │
    └───────────────────────┘
    [exit 0]
    ");
    assert_snapshot!(scene.callboard(&["graph", "trial", "--at", "3"]).run().transcript(), @"
    $ callboard graph trial --at 3
    trial trial  revision 3
      ┌───────────────┐
      │ plan          │
      │ ✓ done [TIME]  │
      └───────────────┘
              │
              ▾
     ┌─────────────────┐
     │ fix             │◂
     │ ▸ running [TIME] │┆
     └─────────────────┘┆
              │         ╰╮
              ▾          ┆
    ┌───────────────────┐┆
    │ test              │┆
    │ · pending         │╯
    │ iteration 1 of 4  │
    └───────────────────┘
              │
              ▾
        ┌───────────┐
        │ docs      │
        │ · pending │
        └───────────┘
    [exit 0]
    ");
    let json = scene.callboard(&["graph", "tri", "--json"]).run().json();
    assert_eq!(json["steps"][2]["iteration"], 2, "{json}");
    assert_eq!(json["steps"][2]["max_iterations"], 4, "{json}");
    assert_eq!(json["steps"][3]["status"], "FAILED", "{json}");
    assert_eq!(json["phase"], "failed", "{json}");
}

#[test]
fn a_locale_without_unicode_gets_ascii() {
    let scene = scene();
    gate(&scene);
    let session = scene.callboard(&["graph", "wf.yaml"]).env("LC_ALL", "C").run();
    assert!(session.stdout.is_ascii(), "{}", session.stdout);
}

/// Names that mean something in Mermaid or in XML.
fn odd(scene: &Scene) {
    scene.write(
        "wf.yaml",
        r##"
name: 'odd "names" <& more>'
steps:
  - {id: end, agent: '"quoted" <b>', prompt: task.md}
  - {id: a.b-c, agent: 'x[#;]`y`', prompt: task.md, needs: [end], loop_back_to: end}
"##,
    );
}

#[test]
fn mermaid_survives_odd_names() {
    let scene = scene();
    odd(&scene);
    assert_snapshot!(drawn(&scene, &["--format", "mermaid"]), @r#"
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
fn an_svg_is_well_formed_whatever_the_names() {
    let scene = scene();
    odd(&scene);
    let svg = drawn(&scene, &["--format", "svg"]);
    expect_well_formed(&svg);
    assert!(svg.contains("&quot;quoted&quot; &lt;b&gt;"), "{svg}");
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert_eq!(svg.matches("stroke-dasharray").count(), 1, "the way back");
    twenty(&scene);
    expect_well_formed(&drawn(&scene, &["--format", "svg"]));
}

/// Every element is closed, in order; and no `<` or `&` stands for itself.
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

#[test]
fn what_cannot_be_drawn_is_told_as_check_tells_it() {
    let scene = scene();
    scene.write("wf.yaml", "steps:\n  - {id: a, agent: x, prompt: task.md, needs: [b]}\n");
    assert_snapshot!(scene.callboard(&["graph", "wf.yaml"]).run().transcript(), @"
    $ callboard graph wf.yaml
    error[E009]: the workflow `wf.yaml` has 1 problem

    error[unknown-step]: `needs` names `b`, but no step has this id
     --> wf.yaml:2:48
      |
    2 |   - {id: a, agent: x, prompt: task.md, needs: [b]}
      |                                                ^
      |
      = hint: name a step of this file, or add one with `id: b`
    [exit 2]
    ");
    assert_snapshot!(scene.callboard(&["graph", "nothing.yaml"]).run().transcript(), @"
    $ callboard graph nothing.yaml
    error: cannot read the workflow `nothing.yaml`
      caused by: No such file or directory (os error 2)

    hint: give the path of a workflow file, or a run; `callboard ls` lists the runs
    [exit 2]
    ");
    assert_snapshot!(scene.callboard(&["graph", "nobody"]).run().transcript(), @"
    $ callboard graph nobody
    error[E011]: there is no run `nobody` in `[STORE]`

    hint: `callboard ls` lists the runs of this repository
    [exit 2]
    ");
    scene.workflow(&["a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    assert_snapshot!(scene.callboard(&["graph", "trial", "--at", "99"]).run().transcript(), @"
    $ callboard graph trial --at 99
    error: run `trial` has no revision 99

    hint: it has 1 to 3
    [exit 2]
    ");
    assert_snapshot!(scene.callboard(&["graph", "wf.yaml", "--at", "1"]).run().transcript(), @"
    $ callboard graph wf.yaml --at 1
    error: a workflow file has no revisions

    hint: `--at` is for runs
    [exit 2]
    ");
}
