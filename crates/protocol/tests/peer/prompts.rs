//! The prompts of the four phases: their examples are valid outputs, and every variable is substituted once.

use protocol::Timestamp;
use protocol::peer::change::{self, NewCycle};
use protocol::peer::output::{judge, verify, verify_insights, verify_summary};
use protocol::peer::prompts::{prompt, template};
use protocol::peer::{Document, EarlierReview, Mode, Phase, WholeSecond};
use serde_json::{Value, json};

/// The JSON examples of a template.
fn examples(template: &str) -> Vec<Value> {
    let blocks = template.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks
        .map(|block| serde_json::from_str(block).unwrap_or_else(|error| panic!("{block}\n{error}")))
        .collect()
}

#[test]
fn the_example_of_every_template_is_a_valid_output() {
    for phase in Phase::ALL {
        let examples = examples(template(phase));
        assert_eq!(verify(phase, &examples[0]), Ok(()), "{phase}");
        assert_eq!(examples.len(), if phase == Phase::Review { 3 } else { 1 });
    }
    let review = examples(template(Phase::Review));
    assert_eq!(verify_summary(&review[1]), Ok(()));
    assert_eq!(verify_insights(&review[2]), Ok(()));
}

/// An agent may imitate the example.
#[test]
fn the_reviewers_example_adds_up_and_is_a_success() {
    let mut review = examples(template(Phase::Review)).remove(0);
    let execute = examples(template(Phase::Execute)).remove(0);
    let judged = judge(&execute, &review);
    review.as_object_mut().unwrap().remove("quality_score");
    assert_eq!(judge(&execute, &review), judged);
    assert!(judged.success());
}

fn started(requirements: &str) -> Document {
    let new = NewCycle {
        cycle: "peer:spec:password-reset:cycle:3".parse().unwrap(),
        instruction: "create-spec".to_owned(),
        mode: Mode::New,
        instruction_args: String::new(),
        user_requirements: requirements.to_owned(),
        continues: None,
    };
    let at = WholeSecond::from(Timestamp::from_micros(0));
    change::start(&change::initialise(new, at), Phase::Plan, at).unwrap()
}

#[test]
fn a_prompt_carries_the_request_verbatim() {
    let wanted = "Reset by mail. {{earlier}} {{ }} ```json";
    for phase in Phase::ALL {
        let prompt = prompt(phase, &started(wanted), None);
        assert!(prompt.contains(wanted), "{prompt}");
        for expected in ["peer:spec:password-reset:cycle:3", "the spec `password-reset`", "`create-spec`"] {
            assert!(prompt.contains(expected), "{expected}\n{prompt}");
        }
        assert!(prompt.contains("one more field, `output`"), "{prompt}");
        assert!(!prompt.replace(wanted, "").contains("{{"), "{prompt}");
    }
}

#[test]
fn a_prompt_has_the_earlier_outputs_and_the_phases_own_progress() {
    let at = WholeSecond::from(Timestamp::from_micros(0));
    let planning = started("x");
    assert!(prompt(Phase::Plan, &planning, None).contains("Nothing has been done in this cycle before you."));
    let planning = change::progress(&planning, Phase::Plan, json!({"progress": "half of it"}), at).unwrap();
    let text = prompt(Phase::Plan, &planning, None);
    assert!(text.contains("## Your own work so far") && text.contains("half of it"), "{text}");
    let plan = examples(template(Phase::Plan)).remove(0);
    let planned = change::complete(&planning, Phase::Plan, plan, at).unwrap();
    let executing = change::start(&planned, Phase::Execute, at).unwrap();
    let text = prompt(Phase::Execute, &executing, None);
    assert!(text.contains("## Output of `plan`") && text.contains("an expired token is refused"), "{text}");
    assert!(!text.contains("Your own work"), "{text}");
}

#[test]
fn a_prompt_has_the_recommendations_of_an_earlier_review() {
    let cycle = "peer:spec:password-reset:cycle:2".parse().unwrap();
    let review = EarlierReview { cycle, recommendations: json!(["name the error"]) };
    let text = prompt(Phase::Plan, &started("x"), Some(&review));
    assert!(text.contains("the review of `peer:spec:password-reset:cycle:2` recommends"), "{text}");
    assert!(text.contains("name the error"), "{text}");
}
