//! The JSON Schema of workflow files, compared with the loader. It accepts everything that the loader accepts, and refuses
//! every unknown or missing key and every wrong type.

use std::fmt::Write as _;
use std::path::Path;

use protocol::steps::load::grammar::{Requirement, STEP, ValueType, WORKFLOW};
use protocol::steps::load::{Rule, load, schema};
use serde_json::Value;

/// Converts YAML to JSON with serde-saphyr and not with the loader.
fn json(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"))
}

/// A workflow whose only step has these further lines.
fn step_with(lines: &str) -> String {
    format!("steps:\n- id: a\n  agent: x\n  prompt: p\n  {lines}\n")
}

/// A value of each kind that YAML has.
const VALUES: [&str; 13] =
    ["a", "''", "' '", "\"1\"", "1", "0", "-1", "1.5", "true", "null", "[a]", "[1]", "{a: 1}"];

/// Workflows of all sorts: every key with every kind of value, and whole files.
fn corpus() -> Vec<String> {
    let mut corpus = Vec::new();
    for value in VALUES {
        corpus.push(format!("{value}\n"));
        corpus.push(format!("steps: {value}\n"));
        corpus.push(format!("steps: [{value}]\n"));
        for key in WORKFLOW.iter().filter(|key| key.value_type != ValueType::Steps) {
            corpus.push(format!("{}: {value}\nsteps: [{{id: a, agent: x, prompt: p}}]\n", key.name));
        }
        for key in &STEP {
            if key.requirement != Requirement::Optional {
                let others = STEP
                    .iter()
                    .filter(|other| other.requirement != Requirement::Optional && other.name != key.name);
                let others: String = others.map(|other| format!(", {}: x", other.name)).collect();
                corpus.push(format!("steps: [{{{}: {value}{others}}}]\n", key.name));
            } else {
                corpus.push(step_with(&format!("{}: {value}", key.name)));
            }
        }
    }
    for time in
        ["90", "1.5", "90s", "10m", "2h", "1h30m", "1h30m5s250ms", "500ms", "'90'", "'1.5'", "'5.'", "'.5'"]
    {
        corpus.push(step_with(&format!("timeout: {time}")));
    }
    for time in ["10x", "30m1h", "1h1h", "soon", "''", "9999h", "31536001", "0s"] {
        corpus.push(step_with(&format!("timeout: {time}")));
    }
    for id in ["a.b-c_d", "_a", "-a", ".a", "a/b", "ä", "a b", &"x".repeat(100), &"x".repeat(101)] {
        corpus.push(format!("steps: [{{id: {id}, agent: x, prompt: p}}]\n"));
    }
    let whole = [
        include_str!("../../../../examples/hello/workflow.yaml"),
        "steps:\n- id: |\n    a\n  agent: |\n    x\n  prompt: |\n    p\n",
        "metadata: {d: &d {agent: x, prompt: p}}\nsteps:\n- {<<: *d, id: a}\n- {<<: *d, id: b, needs: [a]}\n",
        "metadata: {deep: {list: [1, {x: null}], yes: no}}\nsteps: [{id: a, agent: x, prompt: p}]\n",
        "steps: [{id: a, agent: x}]\n",
        "steps: [{id: a, prompt: p}]\n",
        "steps: [{id: a, agent: person}]\n",
        "steps: [{id: a, agent: person, prompt: p}]\n",
        "steps: [{id: a, agent: person, timeout: 90}]\n",
        "steps: [{agent: x, prompt: p}]\n",
        "name: w\n",
        "steps: []\n",
        "nam: w\nsteps: [{id: a, agent: x, prompt: p}]\n",
        "version: 1\nsteps: [{id: a, agent: x, prompt: p}]\n",
        "timeout: 1\nsteps: [{id: a, agent: x, prompt: p}]\n",
        "steps: [{id: a, agent: x, prompt: p, neds: []}]\n",
        "steps: [{id: a, agent: x, prompt: p, gates: [ci]}]\n",
        "steps: [{id: t, agent: x, prompt: p}, {id: a, agent: x, prompt: p, needs: [t], when: {step: t, status: SKIPPED}}]\n",
        "steps: [{id: t, agent: x, prompt: p}, {id: a, agent: x, prompt: p, needs: [t], when: [{step: t, metric: count, is: high}, {artifact: x}]}]\n",
        "steps: [{id: t, agent: x, prompt: p}, {id: a, agent: x, prompt: p, needs: [t], when: {step: t, metric: count, at_least: 1.5}}]\n",
        "steps: [{id: t, agent: x, prompt: p}, {id: a, agent: x, prompt: p, needs: [t], when: {step: t, metric: count, above: high}}]\n",
        "steps: [{id: t, agent: x, prompt: p}, {id: a, agent: x, prompt: p, needs: [t], when: {step: t}}]\n",
        "steps: [{id: t, agent: x, prompt: p}, {id: a, agent: x, prompt: p, needs: [t], when: {step: t, status: FAILED}}]\n",
        "steps: [{id: t, agent: x, prompt: p}, {id: a, agent: x, prompt: p, needs: [t], when: ready}]\n",
        "steps: [{id: t, agent: x, prompt: p}, {id: a, agent: x, prompt: p, needs: [t], when: {artifact: x, step: t}}]\n",
        "steps: [{id: a, agent: x, prompt: p}, {id: b, agent: x, prompt: p, needs: [a], loop_back_to: a}]\n",
        "steps: [{id: a, agent: x, prompt: p, needs: [b]}]\n",
        "steps: [{id: a, agent: x, prompt: p}, {id: a, agent: x, prompt: p}]\n",
    ];
    corpus.extend(whole.map(str::to_owned));
    corpus
}

/// Returns whether a schema can find such a problem: it concerns one key and not the graph.
fn is_structural(rule: Rule) -> bool {
    match rule {
        Rule::NotAMapping
        | Rule::UnknownKey
        | Rule::NotSupportedYet
        | Rule::NoEffect
        | Rule::WrongType
        | Rule::MissingKey
        | Rule::EmptyValue
        | Rule::EmptyFile
        | Rule::NoSteps
        | Rule::UnsafeId
        | Rule::BadLoopLimit
        | Rule::BadMaxAttempts => true,
        // A pattern cannot refuse the times `0s` and `9999h`.
        Rule::BadTimeout
        | Rule::BrokenYaml
        | Rule::TooLarge
        | Rule::DuplicateKey
        | Rule::DuplicateId
        | Rule::UnknownStep
        | Rule::SelfDependency
        | Rule::Cycle
        | Rule::NotAnAncestor
        | Rule::MissingPrompt
        | Rule::UnknownCheck
        | Rule::SuccessorDoesNotNeed
        | Rule::RepeatedReference => false,
    }
}

#[test]
fn the_schema_and_the_loader_agree_on_every_structure() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for yaml in corpus() {
        let valid = validator.is_valid(&json(&yaml));
        match load(&yaml) {
            Ok(_) => {
                assert!(valid, "the loader accepts it, the schema does not:\n{yaml}");
                accepted += 1;
            }
            Err(problems) if problems.iter().any(|problem| is_structural(problem.rule)) => {
                assert!(!valid, "the loader refuses it, the schema does not:\n{yaml}\n{problems:#?}");
                refused += 1;
            }
            Err(_) => {}
        }
    }
    assert!(accepted > 35 && refused > 150, "the corpus needs both: {accepted} accepted, {refused} refused");
}

#[test]
fn the_schema_is_valid_and_every_key_is_described() {
    let schema = schema();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let step = &schema["$defs"]["step"];
    for (mapping, keys) in [(&schema, &WORKFLOW[..]), (step, &STEP[..])] {
        assert_eq!(mapping["additionalProperties"], false);
        let properties = mapping["properties"].as_object().unwrap();
        assert_eq!(properties.len(), keys.len());
        for (name, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 20), "{name}");
        }
    }
}

/// Compares a file of `docs/` with its generated content, or writes it if `UPDATE_DOCS` is set.
fn assert_current(path: &str, current: impl Fn(&str) -> String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(path);
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    let now = current(&before);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, now).unwrap();
    } else {
        assert!(
            before == now,
            "docs/{path} is outdated: run this test with UPDATE_DOCS=1 and review the diff"
        );
    }
}

#[test]
fn the_published_schema_is_current() {
    assert_current("schema/workflow.schema.json", |_| {
        format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap())
    });
}

#[test]
fn the_documentation_describes_every_key() {
    assert_current("workflow.md", |before| {
        let mut text = before.to_owned();
        for (marker, keys) in [("workflow keys", &WORKFLOW[..]), ("step keys", &STEP[..])] {
            let (start, end) = (format!("<!-- {marker} -->\n"), format!("<!-- end of {marker} -->"));
            let (head, rest) = text.split_once(&start).expect("the page has the marker");
            let (_, tail) = rest.split_once(&end).expect("the page has the marker's end");
            let mut table = "| key | value | |\n|---|---|---|\n".to_owned();
            for key in keys {
                let requirement = match key.requirement {
                    Requirement::Always => ", required",
                    Requirement::UnlessPerson => ", required unless the agent is `person`",
                    Requirement::Optional => "",
                };
                writeln!(
                    table,
                    "| `{}` | {}{requirement} | {} |",
                    key.name,
                    key.value_type.name(),
                    key.description
                )
                .unwrap();
            }
            text = format!("{head}{start}{table}{end}{tail}");
        }
        text
    });
}

#[test]
fn the_examples_of_the_documentation_load_without_a_warning() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/workflow.md"))
            .unwrap();
    let examples: Vec<_> =
        page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        assert_eq!(load(example).unwrap().warnings, [], "{example}");
    }
}
