//! What the four steps are told: the examples will do as outputs, and every blank is filled, once.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use protocol::Stamp;
use protocol::peer::change::{self, Opening};
use protocol::peer::output::{judge, verify, verify_insights, verify_summary};
use protocol::peer::prompts::{prompt, template};
use protocol::peer::{Advice, Document, Mode, Phase, Second};
use serde_json::{Value, json};

/// The JSON examples of a template.
fn examples(template: &str) -> Vec<Value> {
    let blocks = template.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks
        .map(|block| serde_json::from_str(block).unwrap_or_else(|error| panic!("{block}\n{error}")))
        .collect()
}

#[test]
fn the_example_of_every_template_will_do_as_an_output() {
    for phase in Phase::ALL {
        let examples = examples(template(phase));
        assert_eq!(verify(phase, &examples[0]), Ok(()), "{phase}");
        assert_eq!(examples.len(), if phase == Phase::Review { 3 } else { 1 });
    }
    let review = examples(template(Phase::Review));
    assert_eq!(verify_summary(&review[1]), Ok(()));
    assert_eq!(verify_insights(&review[2]), Ok(()));
}

/// Somebody who copies the arithmetic learns it right.
#[test]
fn the_reviewers_example_adds_up_and_is_a_success() {
    let mut review = examples(template(Phase::Review)).remove(0);
    let execute = examples(template(Phase::Execute)).remove(0);
    let said = judge(&execute, &review);
    review.as_object_mut().unwrap().remove("quality_score");
    assert_eq!(judge(&execute, &review), said);
    assert!(said.success());
}

fn started(requirements: &str) -> Document {
    let opening = Opening {
        cycle: "peer:spec:password-reset:cycle:3".parse().unwrap(),
        instruction: "create-spec".to_owned(),
        mode: Mode::New,
        instruction_args: String::new(),
        user_requirements: requirements.to_owned(),
        continues: None,
    };
    let at = Second::from(Stamp::from_micros(0));
    change::start(&change::initialise(opening, at), Phase::Plan, at).unwrap()
}

#[test]
fn a_prompt_carries_the_request_verbatim() {
    let wanted = "Reset by mail. {{earlier}} {{ }} ```json";
    for phase in Phase::ALL {
        let prompt = prompt(phase, &started(wanted), None);
        assert!(prompt.contains(wanted), "{prompt}");
        for told in ["peer:spec:password-reset:cycle:3", "the spec `password-reset`", "`create-spec`"] {
            assert!(prompt.contains(told), "{told}\n{prompt}");
        }
        assert!(prompt.contains("one more field, `output`"), "{prompt}");
        assert!(!prompt.replace(wanted, "").contains("{{"), "{prompt}");
    }
}

#[test]
fn a_prompt_hands_over_what_was_done_before_and_nothing_of_later_phases() {
    let at = Second::from(Stamp::from_micros(0));
    let planning = started("x");
    assert!(prompt(Phase::Plan, &planning, None).contains("Nothing has been done in this cycle before you."));
    let planning = change::progress(&planning, Phase::Plan, json!({"progress": "half of it"}), at).unwrap();
    let told = prompt(Phase::Plan, &planning, None);
    assert!(told.contains("## Your own work so far") && told.contains("half of it"), "{told}");
    let plan = examples(template(Phase::Plan)).remove(0);
    let planned = change::complete(&planning, Phase::Plan, plan, at).unwrap();
    let executing = change::start(&planned, Phase::Execute, at).unwrap();
    let told = prompt(Phase::Execute, &executing, None);
    assert!(told.contains("## Output of `plan`") && told.contains("an expired token is refused"), "{told}");
    assert!(!told.contains("Your own work"), "{told}");
}

#[test]
fn a_prompt_hands_over_what_an_earlier_review_recommends() {
    let cycle = "peer:spec:password-reset:cycle:2".parse().unwrap();
    let advice = Advice { cycle, recommendations: json!(["name the error"]) };
    let told = prompt(Phase::Plan, &started("x"), Some(&advice));
    assert!(told.contains("the review of `peer:spec:password-reset:cycle:2` recommends"), "{told}");
    assert!(told.contains("name the error"), "{told}");
}
