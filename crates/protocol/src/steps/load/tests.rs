//! Every kind of problem, with its exact position and message.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;

use super::*;

/// Renders problems as `line:column [rule] message (hint)`, one per line.
fn shown(problems: &[Problem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let Problem { line, column, rule, message, hint } = problem;
        writeln!(text, "{line}:{column} [{rule}] {message} ({hint})").unwrap();
    }
    text
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    match load(text) {
        Ok(loaded) => panic!("should be refused:\n{text}\nbut was read as {loaded:#?}"),
        Err(problems) => assert_eq!(shown(&problems).trim_end(), expected, "\n{text}"),
    }
}

#[track_caller]
fn accepted(text: &str) -> Loaded {
    load(text).unwrap_or_else(|problems| panic!("should be accepted:\n{text}\n{}", shown(&problems)))
}

/// Returns a workflow whose only step `a` has these additional lines.
fn step_with(lines: &str) -> String {
    format!("steps:\n- id: a\n  agent: x\n  prompt: p\n  {lines}\n")
}

fn ids(names: &[StepId]) -> Vec<&str> {
    names.iter().map(StepId::as_str).collect()
}

#[test]
fn all_keys_of_a_workflow_are_read() {
    let Loaded { workflow, warnings, .. } = accepted(
        "\
name: release
description: plan, then code
metadata: {owner: me, retries: 3, tags: [a, yes, null, 1.5, true], '1': quoted}
steps:
  - id: plan
    agent: planner
    prompt: prompts/plan.md
    next_on_success: [code]
    model: large
    timeout: 1h30m
    max_attempts: 3
  - {id: \"2\", agent: x, prompt: p, timeout: 90}
  - id: code
    agent: coder
    prompt: |
      prompts/code.md
    needs:
      - plan
      - \"2\"
    metadata:
      cost: low
",
    );
    assert_eq!(warnings, []);
    assert_eq!((workflow.name.as_str(), workflow.description.as_str()), ("release", "plan, then code"));
    let metadata = json!({"owner": "me", "retries": 3, "tags": ["a", "yes", null, 1.5, true], "1": "quoted"});
    assert_eq!(serde_json::Value::Object(workflow.metadata), metadata);
    let [plan, two, code] = &workflow.steps[..] else { panic!("three steps") };
    assert_eq!(ids(&[plan.id.clone(), two.id.clone(), code.id.clone()]), ["plan", "2", "code"]);
    assert_eq!((plan.agent.as_str(), plan.prompt.as_str()), ("planner", "prompts/plan.md"));
    assert_eq!((ids(&plan.needs), ids(&plan.next_on_success)), (vec![], vec!["code"]));
    assert_eq!(plan.model.as_deref(), Some("large"));
    assert_eq!(plan.timeout, Some(Duration::from_secs(5400)));
    assert_eq!(plan.max_attempts, NonZeroU32::new(3));
    assert_eq!(two.timeout, Some(Duration::from_secs(90)));
    assert_eq!(ids(&code.needs), ["plan", "2"]);
    assert_eq!(code.metadata["cost"], "low");
}

#[test]
fn the_hello_example_loads_without_a_warning() {
    let loaded = accepted(include_str!("../../../../../examples/hello/workflow.yaml"));
    assert_eq!((loaded.workflow.steps.len(), loaded.warnings), (4, vec![]));
}

#[test]
fn a_workflow_without_a_name_is_called_unnamed() {
    let workflow = accepted("steps: [{id: a, agent: x, prompt: p}]").workflow;
    assert_eq!((workflow.name.as_str(), workflow.description.as_str()), ("unnamed", ""));
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let workflow = accepted(
        "\
metadata: {defaults: &defaults {agent: x, model: small, prompt: p}}
steps:
- {<<: *defaults, id: a, model: large}
- {<<: [*defaults], id: b, needs: &needs [a]}
- {<<: *defaults, id: c, needs: *needs}
",
    )
    .workflow;
    let models: Vec<_> = workflow.steps.iter().map(|step| step.model.as_deref()).collect();
    assert_eq!(models, [Some("large"), Some("small"), Some("small")]);
    assert_eq!(ids(&workflow.steps[2].needs), ["a"]);
}

#[test]
fn a_file_that_is_not_a_workflow_is_refused() {
    let begin = "a workflow begins with `name: …` and `steps:`";
    let empty = "1:1 [empty-file] the file is empty (a workflow has a `name` and a list of `steps`)";
    let step = "a step looks like `- {id: plan, agent: claude, prompt: prompts/plan.md}`";
    for (text, expected) in [
        ("", empty.to_owned()),
        ("# only a comment\n", empty.to_owned()),
        ("---\n", empty.to_owned()),
        ("- a\n", format!("1:1 [not-a-mapping] the file is a list where a mapping is expected ({begin})")),
        (
            "hello\n",
            format!("1:1 [not-a-mapping] the file is a string where a mapping is expected ({begin})"),
        ),
        ("name: w\n", format!("1:1 [missing-key] the workflow has no `steps` ({step})")),
        ("steps: []\n", format!("1:1 [no-steps] `steps` is empty ({step})")),
        ("name: w\nsteps:\n", format!("2:1 [no-steps] `steps` is empty ({step})")),
        (
            "steps: a\n",
            "1:8 [wrong-type] `steps` is a string where a list is expected (begin each step with `- id: …`)"
                .to_owned(),
        ),
        (
            "steps:\n  plan: {agent: x}\n",
            "2:3 [wrong-type] `steps` is a mapping where a list is expected (begin each step with `- id: …`)"
                .to_owned(),
        ),
        (
            "steps:\n- plan\n",
            "2:3 [not-a-mapping] this step is a string where a mapping is expected \
             (a step has at least `id`, `agent` and `prompt`)"
                .to_owned(),
        ),
    ] {
        refused(text, &expected);
    }
}

#[test]
fn broken_yaml_is_refused_where_it_breaks() {
    for (text, expected) in [
        (
            "name: [a\n",
            "1:7 [broken-yaml] this is not valid YAML: unclosed bracket '[' (close it, or quote a string that begins with it)",
        ),
        (
            "name: \"a\nsteps: []\n",
            "2:1 [broken-yaml] this is not valid YAML: invalid indentation in multiline quoted scalar \
             (a quote may not have been closed)",
        ),
        (
            "a: b: c\n",
            "1:5 [broken-yaml] this is not valid YAML: mapping values are not allowed in this context \
             (quote a string that contains `: `, and check the indentation)",
        ),
        (
            "steps:\n\t- id: a\n",
            "2:2 [broken-yaml] this is not valid YAML: tabs disallowed within this context (block indentation) \
             (indent with spaces, not with tabs)",
        ),
        (
            "steps:\n- id: a\n agent: x\n",
            "3:2 [broken-yaml] this is not valid YAML: while parsing a block mapping, did not find expected key \
             (look at the line above, too: is something not closed, or indented more than its neighbours?)",
        ),
        (
            "steps: *nowhere\n",
            "1:8 [broken-yaml] this is not valid YAML: while parsing node, found unknown anchor \
             (a string that begins with `*` must be quoted; an alias needs its `&name` earlier in the file)",
        ),
        (
            "steps: &a [*a]\n",
            "1:12 [broken-yaml] this alias is inside what it names (write out what it stands for)",
        ),
        (
            "name: a\n---\nname: b\n",
            "2:1 [broken-yaml] a second document begins here; a file holds one \
             (move it into a file of its own, or remove the `---`)",
        ),
        (
            "? [a]\n: b\n",
            "1:3 [broken-yaml] a key must be a word, not a list or a mapping (quote a key that contains brackets or braces)",
        ),
        (
            "name: !secret x\nsteps: [{id: a, agent: x, prompt: p}]\n",
            "1:15 [broken-yaml] the tag `!secret` is not supported (remove the tag, or quote the text)",
        ),
        (
            "<<: a\n",
            "1:5 [broken-yaml] `<<` brings in a mapping, and this is none (name one, such as `<<: *defaults`)",
        ),
        (
            "<<: [a]\n",
            "1:5 [broken-yaml] `<<` takes mappings only (name mappings only, such as `<<: [*defaults, *more]`)",
        ),
    ] {
        refused(text, expected);
    }
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    let step = "steps: [{id: a, agent: x, prompt: p}]\n";
    for (line, expected) in [
        ("nam: w", "1:1 [unknown-key] `nam` is not a key of a workflow (did you mean `name`?)"),
        (
            "timeout: 3",
            "1:1 [unknown-key] `timeout` is not a key of a workflow (`timeout` belongs to a step)",
        ),
        ("gates: []", "1:1 [unknown-key] `gates` is not a key of a workflow (`gates` belongs to a step)"),
        (
            "version: 1",
            "1:1 [unknown-key] `version` is not a key of a workflow \
             (a workflow has the keys `name`, `description`, `metadata`, `steps`)",
        ),
    ] {
        refused(&format!("{line}\n{step}"), expected);
    }
    for (line, expected) in [
        ("neds: [a]", "5:3 [unknown-key] `neds` is not a key of a step (did you mean `needs`?)"),
        ("Needs: []", "5:3 [unknown-key] `Needs` is not a key of a step (did you mean `needs`?)"),
        (
            "foo: 1",
            "5:3 [unknown-key] `foo` is not a key of a step (a step has the keys `id`, `agent`, `prompt`, `needs`, \
             `next_on_success`, `loop_back_to`, `metadata`, `model`, `timeout`, `max_attempts`, \
             `human_in_the_loop`, `gates`, `when`, `checks`, `loop`, `worktree`)",
        ),
    ] {
        refused(&step_with(line), expected);
    }
}

#[test]
fn keys_that_are_not_supported_yet_are_refused() {
    for (key, hint) in [
        ("until_condition", "use a gate with `loop_back_to`, which repeats until its report passes"),
        ("merge_conditions", "use `checks`, which judge the step before it is merged, or `gates`"),
    ] {
        let expected = format!(
            "5:3 [not-supported-yet] `{key}` is not supported: the format does not say when it holds ({hint})"
        );
        refused(&step_with(&format!("{key}: x")), &expected);
        // At the top level too, where the hint would otherwise be to move it to a step.
        refused(&format!("{key}: x\n{}", step_with("")), &expected.replacen("5:3", "1:1", 1));
    }
}

#[test]
fn keys_about_attempts_are_refused_for_a_person() {
    for setting in ["model: m", "timeout: 90", "max_attempts: 2", "checks: [tests]", "worktree: true"] {
        for agent in ["person", "|\n    person"] {
            let text = format!("steps:\n- id: a\n  {setting}\n  agent: {agent}\n");
            let key = setting.split(':').next().unwrap();
            refused(
                &text,
                &format!(
                    "3:3 [no-effect] step `a` has `{key}`, which has no effect on a person (remove `{key}`)"
                ),
            );
        }
    }
    assert!(load("steps:\n- id: a\n  agent: |\n    person\n").is_ok(), "it needs no prompt");
}

#[test]
fn conditions_are_names_and_a_mapping_gets_the_hint_to_checks() {
    let gates = |text: &str| load(&step_with(text)).map(|loaded| loaded.workflow.steps[0].gates.clone());
    assert_eq!(gates("gates: []").unwrap(), [""; 0]);
    assert_eq!(gates("gates: [ci.tests, legal, legal]").unwrap(), ["ci.tests", "legal"]);
    for text in ["gates: [{ci.tests: passed}]", "gates: {ci: true}", "gates: ci", "gates: [1]"] {
        let problems = gates(text).unwrap_err();
        assert!(problems[0].hint.contains("goes into `checks`"), "{text}: {problems:?}");
    }
}

#[test]
fn a_person_in_the_loop_is_a_flag_and_a_step_of_a_person_has_none() {
    let asks = |text: &str| load(&step_with(text)).map(|loaded| loaded.workflow.steps[0].human_in_the_loop);
    assert!(asks("human_in_the_loop: true").unwrap());
    assert!(!asks("human_in_the_loop: false").unwrap());
    assert!(asks("human_in_the_loop: 1").is_err());
    let text = "steps:\n- {id: a, agent: person, human_in_the_loop: true}\n";
    assert!(!load(text).unwrap().workflow.steps[0].human_in_the_loop, "it asks at once");
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    for (line, expected) in [
        ("needs: b", "5:10 [wrong-type] `needs` is a string where a list is expected (write `needs: [b]`)"),
        (
            "needs: {b: c}",
            "5:10 [wrong-type] `needs` is a mapping where a list is expected (write `needs: [one, two]`)",
        ),
        (
            "needs: [1, [a], ~]",
            "5:11 [wrong-type] an entry of `needs` is a number where the id of a step is expected (quote it: `\"1\"`)\n\
             5:14 [wrong-type] an entry of `needs` is a list where the id of a step is expected (write `needs: [one, two]`)\n\
             5:19 [wrong-type] an entry of `needs` is nothing where the id of a step is expected (write `needs: [one, two]`)",
        ),
        (
            "needs:",
            "5:3 [empty-value] `needs` has no value where a list is expected (give it a value, or remove the key)",
        ),
        (
            "next_on_success: b",
            "5:20 [wrong-type] `next_on_success` is a string where a list is expected (write `next_on_success: [b]`)",
        ),
        (
            "metadata: [a]",
            "5:13 [wrong-type] `metadata` is a list where a mapping is expected (write `metadata: {name: value}`)",
        ),
        (
            "metadata:",
            "5:3 [empty-value] `metadata` has no value where a mapping is expected (give it a value, or remove the key)",
        ),
        ("model: ''", "5:10 [empty-value] `model` is empty (give it a value, or remove the key)"),
        (
            "max_attempts: 0",
            "5:17 [bad-max-attempts] `max_attempts` is 0; it must be a whole number from 1 (write how many attempts the step has in all, such as `max_attempts: 3`)",
        ),
        (
            "max_attempts: -1",
            "5:17 [bad-max-attempts] `max_attempts` is -1; it must be a whole number from 1 (write how many attempts the step has in all, such as `max_attempts: 3`)",
        ),
        (
            "max_attempts: 1.5",
            "5:17 [bad-max-attempts] `max_attempts` is 1.5; it must be a whole number from 1 (write how many attempts the step has in all, such as `max_attempts: 3`)",
        ),
        (
            "max_attempts: many",
            "5:17 [wrong-type] `max_attempts` is a string where a whole number is expected (write how many attempts the step has in all, such as `max_attempts: 3`)",
        ),
        (
            "max_attempts: \"3\"",
            "5:17 [wrong-type] `max_attempts` is a string where a whole number is expected \
             (remove the quotes: `max_attempts: 3`)",
        ),
        (
            "max_attempts: [3]",
            "5:17 [wrong-type] `max_attempts` is a list where a whole number is expected (write how many attempts the step has in all, such as `max_attempts: 3`)",
        ),
        (
            "timeout: 0",
            "5:12 [bad-timeout] bad `timeout`: it must be longer than zero (write seconds, or a length such as `90s`, `10m`, `2h`, `1h30m`)",
        ),
        (
            "timeout: 10x",
            "5:12 [bad-timeout] `10x` is not a length of time (write seconds, or a length such as `90s`, `10m`, `2h`, `1h30m`)",
        ),
        (
            "timeout: 9999h",
            "5:12 [bad-timeout] bad `timeout`: `9999h` is more than a year (write seconds, or a length such as `90s`, `10m`, `2h`, `1h30m`)",
        ),
        (
            "timeout: [1]",
            "5:12 [wrong-type] `timeout` is a list where a length of time is expected (write seconds, or a length such as `90s`, `10m`, `2h`, `1h30m`)",
        ),
    ] {
        refused(&step_with(line), expected);
    }
}

#[test]
fn words_that_yaml_takes_for_numbers_or_booleans_must_be_quoted() {
    refused(
        "name: 3\nsteps:\n- id: 1\n  agent: yes\n  prompt: true\n  model: 4.5\n",
        "1:7 [wrong-type] `name` is a number where a string is expected (quote it: `name: \"3\"`)\n\
         3:7 [wrong-type] `id` is a number where a string is expected (quote it: `id: \"1\"`)\n\
         4:10 [wrong-type] `agent` is a boolean where a string is expected (quote it: `agent: \"yes\"`)\n\
         5:11 [wrong-type] `prompt` is a boolean where a string is expected (quote it: `prompt: \"true\"`)\n\
         6:10 [wrong-type] `model` is a number where a string is expected (quote it: `model: \"4.5\"`)",
    );
    accepted("steps: [{id: \"1\", agent: 'yes', prompt: !!str true}]");
}

#[test]
fn a_step_without_id_agent_or_prompt_is_refused() {
    refused(
        "steps:\n- {}\n- id: a\n  prompt: p\n- id:\n  agent: ''\n  prompt: [p]\n",
        "2:3 [missing-key] this step has no `agent` (add it, such as `agent: claude`)\n\
         2:3 [missing-key] this step has no `id` (add it, such as `id: plan`)\n\
         2:3 [missing-key] this step has no `prompt` (add it, such as `prompt: prompts/plan.md`)\n\
         3:3 [missing-key] step `a` has no `agent` (add it, such as `agent: claude`)\n\
         5:3 [empty-value] `id` has no value where a string is expected (give it a value)\n\
         6:10 [empty-value] `agent` is empty (give it a value)\n\
         7:11 [wrong-type] `prompt` is a list where a string is expected (write `prompt: …` on one line)",
    );
}

#[test]
fn keys_given_twice_are_refused() {
    refused(
        "name: w\nname: v\nsteps:\n- id: a\n  id: b\n  agent: x\n  prompt: p\n  metadata: {k: 1, k: 2}\n",
        "2:1 [duplicate-key] `name` is given twice; the first is on line 1 (keep one of the two)\n\
         5:3 [duplicate-key] `id` is given twice; the first is on line 4 (keep one of the two)\n\
         8:20 [duplicate-key] `k` is given twice; the first is on line 8 (keep one of the two)",
    );
}

/// Returns a workflow of these steps with their needs.
fn graph(steps: &[(&str, &[&str])]) -> String {
    let mut text = "steps:\n".to_owned();
    for (id, needs) in steps {
        writeln!(text, "- {{id: {id}, needs: [{}], agent: x, prompt: p}}", needs.join(", ")).unwrap();
    }
    text
}

#[test]
fn duplicate_and_unsafe_ids_are_refused() {
    refused(
        &graph(&[("a", &[]), ("../b", &[]), ("a", &["../b"]), ("-c", &[])]),
        "3:8 [unsafe-id] `../b` cannot be an id: it contains `/`; use letters, digits, `.`, `_` and `-` (the id names files and variables; choose something like `code_review-2`)\n\
         4:8 [duplicate-id] two steps have the id `a`; the first is on line 2 (give one of them another id)\n\
         5:8 [unsafe-id] `-c` cannot be an id: it begins with `-`; begin with a letter, a digit or `_` (the id names files and variables; choose something like `code_review-2`)",
    );
}

#[test]
fn columns_count_characters_and_messages_cannot_write_to_the_terminal() {
    refused(
        "steps: [{agent: äö, prompt: p, id: \"a\\e[2J\"}]\n",
        "1:36 [unsafe-id] `a\\u{1b}[2J` cannot be an id: it contains `\\u{1b}`; use letters, digits, `.`, `_` and `-` (the id names files and variables; choose something like `code_review-2`)",
    );
}

#[test]
fn references_to_unknown_steps_are_refused_with_a_suggestion() {
    refused(
        "steps:\n- {id: plan, agent: x, prompt: p}\n- {id: b, agent: x, prompt: p, needs: [paln], next_on_success: [zebra]}\n",
        "3:40 [unknown-step] `needs` names `paln`, but no step has this id (did you mean `plan`?)\n\
         3:65 [unknown-step] `next_on_success` names `zebra`, but no step has this id (name a step of this file, or add one with `id: zebra`)",
    );
}

#[test]
fn steps_that_wait_for_each_other_are_refused() {
    let cycle = |position: &str, steps: &str| {
        format!(
            "{position} [cycle] these steps wait for each other and none could ever start: {steps} \
             (read `→` as \"needs\"; remove one of these needs)"
        )
    };
    refused(
        &graph(&[("a", &["a"])]),
        "2:19 [self-dependency] step `a` needs itself (remove it from its own `needs`)",
    );
    refused(&graph(&[("a", &["b"]), ("b", &["a"])]), &cycle("2:19", "a → b → a"));
    // One problem for each group, with its shortest cycle. `z` waits for a cycle and is in none.
    let two_cycles = graph(&[
        ("z", &["c"]),
        ("a", &["z0", "b"]),
        ("b", &["c", "a"]),
        ("c", &["b", "a", "d"]),
        ("d", &["e"]),
        ("e", &["d"]),
        ("z0", &[]),
    ]);
    refused(&two_cycles, &[cycle("3:23", "a → b → a"), cycle("6:19", "d → e → d")].join("\n"));
}

/// Returns a chain in which every step needs the next one in the file, so that the search goes as deep as possible.
fn chain(length: usize, last_needs: &str) -> String {
    let mut text = "steps:\n".to_owned();
    for step in 0..length {
        let need = if step + 1 < length { format!("s{}", step + 1) } else { last_needs.to_owned() };
        writeln!(text, "- {{id: s{step}, needs: [{need}], agent: x, prompt: p}}").unwrap();
    }
    text
}

#[test]
fn ten_thousand_steps_in_a_chain_or_a_ring_are_checked() {
    assert_eq!(accepted(&chain(10_000, "")).workflow.steps.len(), 10_000);
    refused(
        &chain(10_000, "s0"),
        "2:20 [cycle] these steps wait for each other and none could ever start: \
         s0 → s1 → s2 → s3 → s4 → s5 → s6 → s7 → s8 → … → s9999 → s0 \
         (read `→` as \"needs\"; remove one of these needs)",
    );
}

#[test]
fn a_successor_that_does_not_need_the_step_is_a_warning() {
    let loaded = accepted(
        "steps:\n\
         - {id: a, agent: x, prompt: p, next_on_success: [b, c]}\n\
         - {id: b, agent: x, prompt: p, needs: [a, a]}\n\
         - {id: c, agent: x, prompt: p}\n",
    );
    assert_eq!(
        shown(&loaded.warnings),
        "2:53 [successor-does-not-need] `c` is named as next after `a`, but does not need it \
         (only `needs` makes a step wait: add `a` to the `needs` of `c`)\n\
         3:43 [repeated-reference] `needs` names `a` twice (once is enough)\n"
    );
    assert_eq!(ids(&loaded.workflow.steps[1].needs), ["a"]);
}

#[test]
fn aliases_that_expand_to_gigabytes_are_refused() {
    let mut laughs = "metadata:\n  a0: &a0 [ha, ha]\n".to_owned();
    for level in 1..40 {
        let below = level - 1;
        writeln!(laughs, "  a{level}: &a{level} [*a{below}, *a{below}]").unwrap();
    }
    refused(
        &laughs,
        "19:20 [too-large] the file grows beyond 64 MiB when its aliases are written out (use fewer aliases of aliases)",
    );
    let deep = format!("metadata: {}{}", "[".repeat(100), "]".repeat(100));
    refused(&deep, "1:74 [too-large] this is nested more than 64 levels deep (make it flatter)");
    let mut nested_aliases = "metadata:\n  a0: &a0 [x]\n".to_owned();
    for level in 1..200 {
        writeln!(nested_aliases, "  a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    refused(&nested_aliases, "64:13 [too-large] this is nested more than 64 levels deep (make it flatter)");
    refused(
        &"#".repeat(16 * 1024 * 1024 + 1),
        "1:1 [too-large] the file has 16777217 bytes, the limit is 16777216 (make it shorter, or split it)",
    );
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    refused(
        "\
nme: w
steps:
  - id: plan
    agent: 7
    needs: code
  - id: code
    agent: x
    promt: p
    needs: [plna]
    timeout: soon
",
        "1:1 [unknown-key] `nme` is not a key of a workflow (did you mean `name`?)\n\
         3:5 [missing-key] step `plan` has no `prompt` (add it, such as `prompt: prompts/plan.md`)\n\
         4:12 [wrong-type] `agent` is a number where a string is expected (quote it: `agent: \"7\"`)\n\
         5:12 [wrong-type] `needs` is a string where a list is expected (write `needs: [code]`)\n\
         6:5 [missing-key] step `code` has no `prompt` (add it, such as `prompt: prompts/plan.md`)\n\
         8:5 [unknown-key] `promt` is not a key of a step (did you mean `prompt`?)\n\
         9:13 [unknown-step] `needs` names `plna`, but no step has this id (did you mean `plan`?)\n\
         10:14 [bad-timeout] `soon` is not a length of time (write seconds, or a length such as `90s`, `10m`, `2h`, `1h30m`)",
    );
}

#[test]
fn loop_back_to_must_name_a_step_that_the_gate_needs() {
    let workflow = |target: &str| {
        format!(
            "steps:\n- {{id: a, agent: x, prompt: p}}\n- {{id: b, agent: x, prompt: p, needs: [a]}}\n\
             - {{id: c, agent: x, prompt: p}}\n- id: g\n  agent: x\n  prompt: p\n  needs: [b]\n  loop_back_to: {target}\n"
        )
    };
    for target in ["a", "b"] {
        let loaded = load(&workflow(target)).expect(target);
        assert_eq!(loaded.workflow.steps[3].loop_back_to.as_ref().map(StepId::as_str), Some(target));
    }
    let hint = "(name a step that comes before `g`: one of its `needs`, or of theirs)";
    for (target, expected) in [
        (
            "c",
            format!(
                "9:17 [not-an-ancestor] step `g` loops back to `c`, which it does not need, directly or not {hint}"
            ),
        ),
        ("g", format!("9:17 [not-an-ancestor] step `g` loops back to itself {hint}")),
        ("z", "9:17 [unknown-step] `loop_back_to` names `z`, but no step has this id (name a step of this file, or add one with `id: z`)".to_owned()),
    ] {
        refused(&workflow(target), &expected);
    }
}

/// `needs: plan` is one problem. That `plan` is then not an ancestor must not be reported as a second one.
#[test]
fn loop_back_to_is_not_checked_if_some_needs_could_not_be_read() {
    for (needs, expected) in [
        ("plan", "[wrong-type] `needs` is a string where a list is expected (write `needs: [plan]`)"),
        ("[paln]", "[unknown-step] `needs` names `paln`, but no step has this id (did you mean `plan`?)"),
    ] {
        let text = format!(
            "steps:\n- {{id: plan, agent: x, prompt: p}}\n- id: code\n  agent: x\n  prompt: p\n  needs: {needs}\n\
             - {{id: review, agent: x, prompt: p, needs: [code], loop_back_to: plan}}\n"
        );
        let column = if needs == "plan" { 10 } else { 11 };
        refused(&text, &format!("6:{column} {expected}"));
    }
}

#[test]
fn prompts_of_an_invalid_file_are_returned() {
    let examined = analyze("nam: w\nsteps:\n- {id: a, agent: x, prompt: p.md}\n- {agent: x, prompt: q.md}\n");
    let prompts: Vec<_> = examined
        .prompts
        .iter()
        .map(|found| (&found.prompt, found.step.as_deref(), found.line, found.column))
        .collect();
    let file = |path: &str| Prompt::File(path.to_owned());
    assert_eq!(prompts, [(&file("p.md"), Some("a"), 3, 29), (&file("q.md"), None, 4, 22)]);
    assert_eq!((examined.workflow, examined.problems.len()), (None, 2));
}
