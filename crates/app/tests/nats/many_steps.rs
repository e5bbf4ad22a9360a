//! A run of many steps.

use std::time::{Duration, Instant};

use crate::nats::test_env;

/// Small enough for a debug build. `CALLBOARD_STEPS` sets another number; docs/performance.md has the figure for 5,000.
const STEPS: usize = 300;

/// A busy machine runs about ten steps a second.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);

#[test]
fn a_run_of_many_steps_succeeds() {
    let test_env = test_env();
    let steps = std::env::var("CALLBOARD_STEPS").map_or(STEPS, |steps| steps.parse().unwrap());
    test_env
        .write("callboard.toml", "[adapters.trivial]\ncommand = [\"/bin/true\"]\nreport = \"exit-code\"\n");
    let mut workflow = "name: large\nsteps:\n".to_owned();
    for number in 1..=steps {
        workflow.push_str(&format!("  - {{id: s{number}, agent: trivial, prompt: task.md}}\n"));
    }
    test_env.write("wf.yaml", &workflow);
    let started = Instant::now();
    let running = test_env.callboard(&["run", "wf.yaml", "--run-id", "large", "--jobs", "4"]).start();
    assert!(running.ends_within(RUN_TIMEOUT), "{steps} steps take too long");
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.stderr);
    println!("{steps} steps in {:.1} s", started.elapsed().as_secs_f64());
    let shown = test_env.callboard(&["show", "large", "--json"]).run().json();
    let steps_shown = shown["document"]["steps"].as_object().unwrap();
    assert_eq!(steps_shown.len(), steps);
    assert!(steps_shown.values().all(|step| step["status"] == "COMPLETED" && step["attempts"] == 1));
    // The journal has one start and one end per step.
    let journal = test_env.journal("large");
    let changes: Vec<_> =
        journal.iter().flat_map(|line| line["entry"]["changes"].as_array().unwrap()).collect();
    let count_of = |kind: &str| changes.iter().filter(|change| change["change"] == kind).count();
    assert_eq!((count_of("started"), count_of("ended")), (steps, steps));
    let early = test_env.callboard(&["show", "large", "--at", "2", "--json"]).run();
    assert_eq!(early.code, 0, "{}", early.stderr);
}
