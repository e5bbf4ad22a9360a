//! The model of `cycle` for the explorer: its notation and its rules.

use std::num::NonZeroU32;

use protocol::checks::{CHECKS_FIELD, CheckResult, CheckSpec};
use protocol::cycle::{
    AgentStatus, Change, Completeness, Cycle, DecisionMode, Definition, Document, PlannedTask, Problems,
    Raised, RaisedItem, RaisedKind, Request, Role, Stage, State, Status, Step, Verdict, check,
};
use protocol::protocol_trait::StepStatus;
use protocol::report::{Report, ReportIdentity};
use protocol::run::{Run, RunStatus, TurnStatus};
use protocol::{Answer, Outcome, Protocol as _, RunId, StepId, StepRecordStatus, Timestamp, TypedMachine};
use serde_json::{Map, Value, json};

use super::{Explored, Model, Slots, StepNotation, Transition, Violation};

/// The meaning of the symbols in tables of `cycle`.
pub const LEGEND: &str = "· not done   ✓ done   ✗ failed   @N in iteration N";

/// A cycle of at most two iterations, with this many attempts per step.
pub fn definition(attempts: u32) -> Definition {
    Definition {
        max_iterations: 2,
        max_attempts: NonZeroU32::new(attempts).expect("BUG: there is at least one attempt"),
        ..Definition::new("Add login")
    }
}

/// The check of cycles that have one.
pub fn test_check() -> CheckSpec {
    CheckSpec {
        name: "test".to_owned(),
        command: vec!["./test".to_owned()],
        timeout: std::time::Duration::from_secs(60),
    }
}

/// A model whose documents must keep the rules of `callboard check`.
pub fn model(name: &str, definition: Definition, slots: Slots) -> Model<Cycle> {
    Model::new(name, definition, slots, document_problems)
}

fn document_problems(document: &Document) -> Vec<String> {
    let value = serde_json::to_value(document).expect("BUG: a document is plain data");
    check(&value)
        .into_iter()
        .map(|found| format!("{} {}: {}", found.rule, found.pointer, found.message))
        .collect()
}

/// The tasks of the plan of an iteration: two independent ones if tasks are coded in parallel, otherwise one.
fn tasks(definition: &Definition, iteration: u32) -> Vec<PlannedTask> {
    let names: &[&str] = if definition.parallel > 1 { &["a", "b"] } else { &["a"] };
    let id = |name: &&str| StepId::new(format!("{name}{iteration}")).expect("BUG: the name is safe");
    let task = |id: StepId| PlannedTask { id, depends_on: Vec::new(), conflicts_with: Vec::new() };
    names.iter().map(id).map(task).collect()
}

fn decision(needed_by: Role) -> Vec<Raised> {
    vec![Raised { kind: RaisedKind::Decision, needed_by }]
}

fn blocker(needed_by: Role) -> Vec<Raised> {
    vec![Raised { kind: RaisedKind::Blocker, needed_by }]
}

/// Returns the fields of a report with these decisions and blockers.
fn raised_fields(raised: &[Raised]) -> Map<String, Value> {
    let of_kind = |kind: RaisedKind, entry: &dyn Fn(Role) -> Value| -> Value {
        raised.iter().filter(|raised| raised.kind == kind).map(|raised| entry(raised.needed_by)).collect()
    };
    let decisions = of_kind(
        RaisedKind::Decision,
        &|role| json!({ "description": "Which?", "options": ["this", "that"], "needed_by": role }),
    );
    let blockers =
        of_kind(RaisedKind::Blocker, &|role| json!({ "description": "No access", "needed_by": role }));
    Map::from_iter([("decisions".to_owned(), decisions), ("blockers".to_owned(), blockers)])
}

impl Explored for Cycle {
    fn verdicts(definition: &Definition, state: &State, step: &Step) -> Vec<Verdict> {
        // At most one decision or blocker is raised on a path: more of them multiply the states and show nothing new.
        // For the same reason, none is raised in a cycle of a single iteration that has parallel tasks or lets the
        // engine decide.
        let is_plain = definition.parallel == 1 && definition.decisions == DecisionMode::Ask;
        let may_raise = state.iteration == 1
            && state.decisions + state.blockers == 0
            && (is_plain || definition.max_iterations > 1);
        let each = [Problems::None, Problems::Some];
        match step {
            Step::Phase(Role::Analyst) => {
                let mut verdicts = vec![Verdict::Specified { raised: Vec::new() }];
                if may_raise {
                    verdicts.push(Verdict::Specified { raised: decision(Role::Planner) });
                    verdicts.push(Verdict::Specified { raised: blocker(Role::Analyst) });
                    verdicts.push(Verdict::Blocked { raised: blocker(Role::Analyst) });
                }
                verdicts
            }
            Step::Explore => vec![Verdict::Explored { raised: Vec::new() }],
            Step::Baseline => vec![Verdict::BaselineTested],
            Step::Phase(Role::Planner) => [Completeness::Complete, Completeness::Incomplete]
                .map(|completeness| Verdict::Planned {
                    tasks: tasks(definition, state.iteration),
                    completeness,
                    raised: Vec::new(),
                })
                .to_vec(),
            Step::Phase(Role::Developer) => {
                let coded =
                    |completeness, problems| Verdict::Coded { completeness, problems, raised: Vec::new() };
                vec![
                    coded(Completeness::Complete, Problems::None),
                    coded(Completeness::Complete, Problems::Some),
                    coded(Completeness::Incomplete, Problems::None),
                ]
            }
            Step::Task(_) => {
                let coded =
                    |completeness, raised| Verdict::Coded { completeness, problems: Problems::None, raised };
                let mut verdicts = vec![
                    coded(Completeness::Complete, Vec::new()),
                    coded(Completeness::Incomplete, Vec::new()),
                ];
                if may_raise {
                    verdicts.push(coded(Completeness::Complete, blocker(Role::Developer)));
                }
                verdicts
            }
            Step::Merge(_) => vec![Verdict::Merged, Verdict::Conflict],
            Step::Test => each.map(|problems| Verdict::Tested { problems }).to_vec(),
            Step::Phase(Role::Validator) => {
                let mut verdicts =
                    each.map(|problems| Verdict::Validated { problems, raised: Vec::new() }).to_vec();
                if may_raise {
                    verdicts.push(Verdict::Validated {
                        problems: Problems::None,
                        raised: decision(Role::Analyst),
                    });
                }
                verdicts
            }
            Step::Answer(_) => vec![Verdict::Answered],
            Step::FastForward => vec![Verdict::FastForwarded],
        }
    }

    fn report(_: &Definition, step: &Step, verdict: &Verdict) -> Report {
        let mut fields = Map::new();
        let mut set = |field: &str, value: Value| {
            fields.insert(field.to_owned(), value);
        };
        set("summary", "done".into());
        let raised = match verdict {
            Verdict::Specified { raised } => {
                set("specification", "FR-001".into());
                raised.as_slice()
            }
            Verdict::Explored { raised } | Verdict::Blocked { raised } => raised,
            Verdict::Planned { tasks, completeness, raised } => {
                let task =
                    |task: &PlannedTask| json!({ "id": task.id, "description": "do it", "files": [task.id] });
                set("tasks", tasks.iter().map(task).collect());
                if *completeness == Completeness::Incomplete {
                    set("phase_status", "partial".into());
                }
                raised
            }
            Verdict::Coded { completeness, problems, raised } => {
                match completeness {
                    Completeness::Complete => {
                        set("tasks_completed", json!(["a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"]));
                    }
                    Completeness::Incomplete => set("phase_status", "partial".into()),
                }
                if *problems == Problems::Some {
                    set("issues", json!(["unclear"]));
                }
                set(
                    "changes",
                    json!([{ "file": "src/lib.rs", "action": "modify", "description": "changed" }]),
                );
                raised
            }
            Verdict::Tested { problems } => {
                let exit_code = i32::from(*problems == Problems::Some);
                let result = CheckResult {
                    name: "test".to_owned(),
                    command: vec!["./test".to_owned()],
                    exit_code: Some(exit_code),
                    error: None,
                    duration_ms: 1,
                    tree: None,
                    output_digest: "0".to_owned(),
                    output: format!("3 passed, {exit_code} failed"),
                    log: None,
                };
                set(CHECKS_FIELD, json!([result]));
                &[]
            }
            Verdict::Validated { problems, raised } => {
                if *problems == Problems::Some {
                    set("failed_tests", json!(["login times out"]));
                }
                set("total_tests", 3.into());
                raised
            }
            Verdict::Conflict => {
                set("gate_failure", true.into());
                &[]
            }
            Verdict::BaselineTested | Verdict::Merged | Verdict::Answered | Verdict::FastForwarded => &[],
        };
        fields.extend(raised_fields(raised));
        let expected = ReportIdentity {
            run_id: RunId::new("explored").expect("BUG: the name is safe"),
            step_id: Self::step_id(step),
            agent: step.role().map_or("engine", Role::as_str).to_owned(),
        };
        Report::completed(&expected, Timestamp::from_micros(1_750_000_000_000_000), fields)
    }

    fn answer(_: &Definition, step: &Step, _: &Verdict) -> Answer {
        match step {
            Step::Answer(RaisedItem::Decision(_)) => {
                Answer::Choose { option: "this".to_owned(), reason: None }
            }
            Step::Answer(RaisedItem::Blocker(_))
            | Step::Phase(_)
            | Step::Explore
            | Step::Baseline
            | Step::Test
            | Step::Task(_)
            | Step::Merge(_)
            | Step::FastForward => Answer::Workaround { text: "go around it".to_owned() },
        }
    }

    fn requests(_: &Definition, state: &State) -> Vec<Request> {
        let extend = |max_iterations| Request::Extend { text: "Also add logout".to_owned(), max_iterations };
        // The limit is raised to three at most, so that the states stay few.
        let raise = (state.max_iterations < 3).then(|| extend(Some(3)));
        std::iter::once(extend(None)).chain(raise).collect()
    }

    fn describe_verdict(verdict: &Verdict) -> String {
        let with_raised = |word: &str, raised: &[Raised]| match raised.first() {
            None => word.to_owned(),
            Some(Raised { kind: RaisedKind::Decision, needed_by }) => {
                format!("{word}, decision for {needed_by}")
            }
            Some(Raised { kind: RaisedKind::Blocker, needed_by }) => {
                format!("{word}, blocker of {needed_by}")
            }
        };
        match verdict {
            Verdict::Specified { raised } => with_raised("specified", raised),
            Verdict::Explored { raised } => with_raised("explored", raised),
            Verdict::Blocked { raised } => with_raised("nothing", raised),
            Verdict::BaselineTested => "baseline tested".to_owned(),
            Verdict::Planned { completeness: Completeness::Complete, raised, .. } => {
                with_raised("planned", raised)
            }
            Verdict::Planned { completeness: Completeness::Incomplete, raised, .. } => {
                with_raised("partly planned", raised)
            }
            Verdict::Coded { completeness: Completeness::Incomplete, raised, .. } => {
                with_raised("partly coded", raised)
            }
            Verdict::Coded { problems: Problems::Some, raised, .. } => with_raised("coded, issues", raised),
            Verdict::Coded { problems: Problems::None, raised, .. } => with_raised("coded", raised),
            Verdict::Merged => "merged".to_owned(),
            Verdict::Conflict => "conflict".to_owned(),
            Verdict::Tested { problems: Problems::None } => "pass".to_owned(),
            Verdict::Tested { problems: Problems::Some } => "fail".to_owned(),
            Verdict::Validated { problems: Problems::None, raised } => with_raised("valid", raised),
            Verdict::Validated { problems: Problems::Some, raised } => with_raised("tests fail", raised),
            Verdict::Answered => "answered".to_owned(),
            Verdict::FastForwarded => "fast-forwarded".to_owned(),
        }
    }

    fn describe_step(definition: &Definition, state: &State, step: &Step) -> StepNotation {
        let symbol = match Self::step_status(definition, state, step) {
            StepStatus::Succeeded | StepStatus::Skipped => "✓",
            StepStatus::Failed => "✗",
            StepStatus::Unfinished => "·",
        };
        let is_first = *step == Step::Phase(Role::Analyst);
        StepNotation { symbol, note: if is_first { format!("@{}", state.iteration) } else { String::new() } }
    }

    fn describe_change(change: &Change) -> String {
        match change {
            Change::IterationOpened { number, extension: true, .. } => {
                format!("iteration {number}, extended")
            }
            Change::IterationOpened { number, extension: false, .. } => format!("iteration {number}"),
            Change::LimitRaised { to } => format!("limit {to}"),
            Change::Extended => "extension queued".to_owned(),
            Change::Raised { item, needed_by } => format!("{} for {needed_by}", item.id()),
            Change::Answered { item, .. } => format!("{} answered", item.id()),
            Change::Implemented { item } => format!("{} implemented", item.id()),
            Change::PhaseDone { stage } => format!("→ {stage:?}").to_lowercase(),
            Change::OverlapStepEnded { step } => format!("{step} ended"),
            Change::Repeated { step } => format!("{step} again"),
            Change::TasksPlanned { tasks } => format!("{} tasks", tasks.len()),
            Change::TaskAsked { task } => format!("{task} asked"),
            Change::TaskCoded { task, .. } => format!("{task} coded"),
            Change::TaskMerged { task } => format!("{task} merged"),
            Change::TaskMergeFailed { task } => format!("merge of {task} failed"),
            Change::Tested => "tested".to_owned(),
            Change::Found { finding } => format!("found {finding:?}").to_lowercase(),
            Change::IterationClosed { resolved: true } => "resolved".to_owned(),
            Change::IterationClosed { resolved: false } => "open issues".to_owned(),
            Change::FastForwarding => "fast-forwarding".to_owned(),
            Change::Completed => "completed".to_owned(),
            Change::Failed { step } => format!("{step} failed"),
            Change::Stopped => "stopped".to_owned(),
            Change::Retried => "retried".to_owned(),
        }
    }

    fn document_differences(
        run: &Run,
        TypedMachine { state, document, .. }: &TypedMachine<Self>,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        let mut expect = |what: &str, is_right: bool| {
            if !is_right {
                differences.push(what.to_owned());
            }
        };
        let shown = document.master_file.status;
        let status = match run.status {
            RunStatus::Running if state.iteration == 0 => matches!(shown, Status::Created | Status::Running),
            RunStatus::Running => shown == Status::Running,
            RunStatus::Paused => shown == Status::Paused,
            RunStatus::Stopping(_) | RunStatus::Stopped(_) => {
                matches!(shown, Status::Created | Status::Running | Status::Paused)
            }
            RunStatus::Draining(outcome) | RunStatus::Finishing(outcome) | RunStatus::Finished(outcome) => {
                match outcome {
                    Outcome::Succeeded | Outcome::Incomplete => shown == Status::Completed,
                    Outcome::Failed => shown == Status::Failed,
                }
            }
        };
        expect("the status is not that of the run", status);
        expect("the iteration differs", document.master_file.current_iteration == state.iteration);
        expect("the limit differs", document.master_file.max_iterations == state.max_iterations);
        expect("the queued extensions differ", document.engine.extensions.len() == state.extensions as usize);
        for role in Role::ALL {
            let is_live = run.active_turns.iter().any(|(id, active)| {
                let step = Step::try_from(id.clone()).ok();
                let is_agent = !matches!(step, Some(Step::Merge(_)));
                active.status.has_live_attempt()
                    && is_agent
                    && step.and_then(|step| step.role()) == Some(role)
            });
            let is_running = document.master_file.agents.of(role).status == AgentStatus::Running;
            expect(&format!("`{role}` is shown as running: {is_running}"), is_live == is_running);
        }
        for (id, active) in &run.active_turns {
            let shown = document.engine.steps.get(id).map(|step| step.record.status);
            let expected = match active.status {
                TurnStatus::Running | TurnStatus::Stopping => StepRecordStatus::Running,
                TurnStatus::Waiting => StepRecordStatus::Waiting,
                TurnStatus::Queued | TurnStatus::BackingOff => StepRecordStatus::Pending,
            };
            expect(&format!("`{id}` is shown as {shown:?}"), shown == Some(expected));
        }
        let done = document.master_file.completed_phases.len();
        let expected = match state.stage {
            Stage::Created | Stage::Requirements => 0,
            Stage::Planning => 1,
            Stage::Coding => 2,
            Stage::Test | Stage::Validation => 3,
            Stage::Aggregation | Stage::FastForward | Stage::Complete => 4,
        };
        expect("the completed phases differ", done == expected);
        differences
    }

    fn check_rules(_: &Definition, transition: &Transition<'_, Self>) -> Vec<Violation> {
        let machine = TypedMachine::<Self>::of(&*transition.after.machine).expect("BUG: another protocol");
        let (state, document) = (&machine.state, &machine.document.master_file);
        let mut violations = Vec::new();
        let mut expect = |rule: &'static str, is_kept: bool| {
            if !is_kept {
                violations.push(Violation::new(rule, format!("{state:?}")));
            }
        };
        expect("the iterations stay within the limit", state.iteration <= state.max_iterations);
        expect(
            "every queued extension has an iteration left",
            state.iteration + state.extensions <= state.max_iterations,
        );
        let nothing_is_open = state.findings.is_empty() && state.items.is_empty() && state.extensions == 0;
        if let RunStatus::Finished(outcome) = transition.after.status {
            expect(
                "a cycle that has succeeded leaves nothing open",
                outcome != Outcome::Succeeded || nothing_is_open,
            );
            expect("an incomplete cycle says what is open", {
                let issues = document.iterations.last().map_or(0, |iteration| iteration.issues_found.len());
                outcome != Outcome::Incomplete || issues > 0 || !state.items.is_empty()
            });
        }
        let answered = document
            .coordination
            .pending_decisions
            .iter()
            .filter(|decision| decision.chosen_option.is_some());
        let answers = document
            .coordination
            .feedback_log
            .iter()
            .filter(|entry| entry.source == "user" || entry.source == "auto");
        expect("every answer is in the feedback log", answered.count() <= answers.count());
        violations
    }
}
