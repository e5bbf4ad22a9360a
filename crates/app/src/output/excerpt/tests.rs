//! Diagnostics with the excerpt of a file. Each snapshot is what a terminal shows, without colour.

use insta::assert_snapshot;
use protocol::steps::load;

use super::*;

/// Renders a diagnostic at a position of the source, for a terminal of this width.
fn render_at(source: &str, line: usize, column: usize, width: usize) -> String {
    let diagnostic = Diagnostic {
        severity: Severity::Error,
        rule: "some-rule",
        line,
        column,
        message: "this is wrong",
        hint: "put it right",
    };
    anstream::adapter::strip_str(&excerpt_at_width(Path::new("wf.yaml"), source, &diagnostic, width))
        .to_string()
}

/// Renders every problem of a workflow.
fn render_problems(source: &str) -> String {
    let problems = load::load(source).expect_err("the workflow is broken");
    let shown = problems.iter().map(|problem| {
        let diagnostic = Diagnostic {
            severity: Severity::Error,
            rule: problem.rule.name(),
            line: problem.line,
            column: problem.column,
            message: &problem.message,
            hint: &problem.hint,
        };
        anstream::adapter::strip_str(&excerpt_at_width(
            Path::new("wf.yaml"),
            source,
            &diagnostic,
            DEFAULT_WIDTH,
        ))
        .to_string()
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

#[test]
fn unknown_keys_and_wrong_types_are_shown_all_at_once() {
    assert_snapshot!(render_problems("\
nme: release
steps:
  - id: plan
    agent: claude
    prompt: prompts/plan.md
  - id: code
    agent: claude
    prompt: prompts/code.md
    neds: [plan]
    max_attempts: \"3\"
  - id: review
    agent: claude
    prompt: prompts/review.md
    needs: code
"), @r#"
    error[unknown-key]: `nme` is not a key of a workflow
     --> wf.yaml:1:1
      |
    1 | nme: release
      | ^^^
      |
      = hint: did you mean `name`?

    error[unknown-key]: `neds` is not a key of a step
     --> wf.yaml:9:5
      |
    9 |     neds: [plan]
      |     ^^^^
      |
      = hint: did you mean `needs`?

    error[wrong-type]: `max_attempts` is a string where a whole number is expected
      --> wf.yaml:10:19
       |
    10 |     max_attempts: "3"
       |                   ^^^
       |
       = hint: remove the quotes: `max_attempts: 3`

    error[wrong-type]: `needs` is a string where a list is expected
      --> wf.yaml:14:12
       |
    14 |     needs: code
       |            ^^^^
       |
       = hint: write `needs: [code]`
    "#);
}

#[test]
fn a_cycle_is_shown_at_the_need_that_closes_it() {
    assert_snapshot!(render_problems("\
steps:
  - {id: plan, agent: claude, prompt: p.md, needs: [review]}
  - {id: code, agent: claude, prompt: p.md, needs: [plan]}
  - {id: review, agent: claude, prompt: p.md, needs: [code]}
"), @r#"
    error[cycle]: these steps wait for each other and none could ever start: plan → review → code → plan
     --> wf.yaml:2:53
      |
    2 |   - {id: plan, agent: claude, prompt: p.md, needs: [review]}
      |                                                     ^^^^^^
      |
      = hint: read `→` as "needs"; remove one of these needs
    "#);
}

#[test]
fn a_loop_back_to_a_step_that_is_not_an_ancestor_is_refused() {
    assert_snapshot!(render_problems("\
steps:
  - {id: code, agent: claude, prompt: p.md}
  - {id: docs, agent: claude, prompt: p.md}
  - id: review
    agent: claude
    prompt: p.md
    needs: [code]
    loop_back_to: docs
"), @"
    error[not-an-ancestor]: step `review` loops back to `docs`, which it does not need, directly or not
     --> wf.yaml:8:19
      |
    8 |     loop_back_to: docs
      |                   ^^^^
      |
      = hint: name a step that comes before `review`: one of its `needs`, or of theirs
    ");
}

#[test]
fn duplicate_and_unsafe_ids_are_refused() {
    assert_snapshot!(render_problems("\
steps:
  - {id: code, agent: claude, prompt: p.md}
  - {id: code, agent: claude, prompt: p.md}
  - {id: ../../etc, agent: claude, prompt: p.md}
"), @"
    error[duplicate-id]: two steps have the id `code`; the first is on line 2
     --> wf.yaml:3:10
      |
    3 |   - {id: code, agent: claude, prompt: p.md}
      |          ^^^^
      |
      = hint: give one of them another id

    error[unsafe-id]: `../../etc` cannot be an id: it contains `/`; use letters, digits, `.`, `_` and `-`
     --> wf.yaml:4:10
      |
    4 |   - {id: ../../etc, agent: claude, prompt: p.md}
      |          ^^^^^^^^^
      |
      = hint: the id names files and variables; choose something like `code_review-2`
    ");
}

#[test]
fn an_alias_bomb_is_refused_at_the_alias_that_exceeds_the_limit() {
    let mut bomb = "metadata:\n  a0: &a0 [ha, ha]\n".to_owned();
    for level in 1..40 {
        let below = level - 1;
        bomb.push_str(&format!("  a{level}: &a{level} [*a{below}, *a{below}]\n"));
    }
    assert_snapshot!(render_problems(&bomb), @"
    error[too-large]: the file grows beyond 64 MiB when its aliases are written out
      --> wf.yaml:19:20
       |
    19 |   a17: &a17 [*a16, *a16]
       |                    ^^^^
       |
       = hint: use fewer aliases of aliases
    ");
}

#[test]
fn invalid_yaml_is_shown_at_the_error() {
    assert_snapshot!(render_problems("name: plan: code\nsteps: []\n"), @"
    error[broken-yaml]: this is not valid YAML: mapping values are not allowed in this context
     --> wf.yaml:1:11
      |
    1 | name: plan: code
      |           ^
      |
      = hint: quote a string that contains `: `, and check the indentation
    ");
}

#[test]
fn tabs_and_wide_characters_do_not_shift_the_marker() {
    assert_snapshot!(render_at("a: 1\n\t\"日本\": 名前, x: wrong\n", 2, 15, DEFAULT_WIDTH), @r#"
    error[some-rule]: this is wrong
     --> wf.yaml:2:15
      |
    2 |     "日本": 名前, x: wrong
      |                      ^^^^^
      |
      = hint: put it right
    "#);
}

#[test]
fn a_long_line_is_shortened_around_the_position() {
    let source = format!("{} wrong {}", "before ".repeat(1_000), "after ".repeat(1_000));
    assert_snapshot!(render_at(&source, 1, 7_002, 80), @"
    error[some-rule]: this is wrong
     --> wf.yaml:1:7002
      |
    1 | ...re before before before before  wrong after after after after after af...
      |                                    ^^^^^
      |
      = hint: put it right
    ");
}

#[test]
fn control_characters_of_a_file_do_not_reach_the_terminal() {
    assert_snapshot!(render_at("a: \u{1b}[2J\u{9b}2J \u{202e}wrong\r\nb: 2", 1, 4, DEFAULT_WIDTH), @"
    error[some-rule]: this is wrong
     --> wf.yaml:1:4
      |
    1 | a: ?[2J¿2J �wrong
      |    ^^^^^^^
      |
      = hint: put it right
    ");
}

#[test]
fn a_position_after_the_end_is_shown_at_the_end() {
    assert_snapshot!(render_at("a", 7, 3, DEFAULT_WIDTH), @"
    error[some-rule]: this is wrong
     --> wf.yaml:7:1
      |
    7 |
      | ^
      |
      = hint: put it right
    ");
}
