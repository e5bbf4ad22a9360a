//! The fields of each output: first those in the original's documentation, then others that the original writes.

use super::shape::{Field, Shape, optional, required};
use crate::peer::document::Phase;

use Shape::{AtMost, Either, Filled, Flag, List, Number, Object, Percent, Text, Word};

/// Returns the shape of a phase's output, which must not be empty.
pub(super) fn of(phase: Phase) -> Shape {
    Filled(match phase {
        Phase::Plan => &PLAN,
        Phase::Execute => &EXECUTE,
        Phase::Express => &EXPRESS,
        Phase::Review => &REVIEW,
    })
}

/// A text, or any object.
const NOTE: Shape = Either(&[Text, Object(&[])]);
const NOTES: Shape = List(&NOTE);
const TEXTS: Shape = List(&Text);
const ANY_OBJECT: Shape = Object(&[]);
/// A duration or a count, with or without its unit.
const AMOUNT: Shape = Either(&[Text, Number]);
/// An assessment in any form.
const ASSESSMENT: Shape = Either(&[Text, Percent, Flag, NOTES, ANY_OBJECT]);

pub(super) const EXECUTION_STATUSES: [&str; 3] = ["success", "cancelled", "error"];
pub(super) const QUALITY_WORDS: [&str; 4] = ["high", "medium", "low", "requires_attention"];

const PLAN: Shape = Object(&[
    required("phases", Filled(&List(&Object(&PLAN_PHASE))), "The phases of the work, in order."),
    required(
        "success_criteria",
        Either(&[Filled(&Text), Filled(&NOTES), Filled(&Object(&CRITERIA))]),
        "How to check that the work is done.",
    ),
    optional("risks", Either(&[Text, List(&RISK), ANY_OBJECT]), "What may go wrong, and what to do then."),
    optional("instruction_type", Text, "`spec-aware` or `spec-agnostic`."),
    optional("instruction", Text, "The instruction of the cycle."),
    optional("type", Text, "The same as `instruction_type`."),
    optional("spec_name", Text, "The spec. It is fixed before planning."),
    optional("estimated_duration", AMOUNT, "How long it may take."),
    optional("dependencies", NOTES, "What the work depends on."),
]);

const PLAN_PHASE: [Field; 3] = [
    required("phase", Filled(&Text), "Its name, such as preparation, execution, validation."),
    optional("steps", NOTES, "What is to be done, in order."),
    optional("description", Text, "What it is for."),
];

const CRITERIA: [Field; 2] = [
    optional("overall", Text, "The goal in one sentence."),
    optional("measurable", NOTES, "What can be checked."),
];

const RISK: Shape = Either(&[
    Text,
    Object(&[
        optional("risk", Text, "What may go wrong."),
        optional("mitigation", Text, "What to do about it."),
        optional("likelihood", AMOUNT, "How likely it is."),
    ]),
]);

const EXECUTE: Shape = Object(&[
    optional("progress", Text, "The progress, in one sentence."),
    optional("files_created", TEXTS, "Paths, relative to the repository."),
    optional("files_modified", TEXTS, "Paths, relative to the repository."),
    optional("user_interactions", NOTES, "Questions to the user, and the answers."),
    optional("instruction_executed", Text, "The instruction that was carried out."),
    optional("execution_status", Word(&EXECUTION_STATUSES), "How it ended."),
    optional("execution_time", AMOUNT, "How long it took."),
    optional(
        "outputs",
        Object(&[
            optional("files_created", TEXTS, "Paths, relative to the repository."),
            optional("files_modified", TEXTS, "Paths, relative to the repository."),
            optional("decisions_made", NOTES, "Decisions, and the reasons."),
            optional("user_interactions", NOTES, "Questions to the user, and the answers."),
            optional("tasks_completed", Either(&[NOTES, Number]), "What is done."),
        ]),
        "The results.",
    ),
    optional("validation_context", Either(&[Text, NOTES, ANY_OBJECT]), "What checks were made."),
    optional("errors", NOTES, "What went wrong."),
    optional("notes", Either(&[Text, NOTES]), "Anything worth knowing."),
    optional("current_step", AMOUNT, "The current step."),
    optional("total_steps", Number, "How many steps there are."),
]);

const EXPRESS: Shape = Object(&[
    optional("summary", Text, "What was accomplished, in one paragraph."),
    optional("key_points", NOTES, "What to remember."),
    optional("deliverables", Either(&[NOTES, ANY_OBJECT]), "What was delivered, or how many of each kind."),
    optional("formatted_output", Text, "The whole report, in Markdown."),
    optional("instruction_type", Text, "`spec-aware` or `spec-agnostic`."),
    optional("has_issues", Flag, "Whether something is open."),
    optional("completion_percentage", Percent, "How much of the plan is done."),
    optional("success", Flag, "Whether the plan's criteria are met."),
    optional("highlights", NOTES, "The best of it."),
    optional("next_action", Text, "What to do next."),
]);

const REVIEW: Shape = Object(&[
    optional("quality_score", Either(&[Word(&QUALITY_WORDS), Percent]), "The score, as a number or a word."),
    optional(
        "scores",
        Object(&[
            optional("completeness", Percent, "Is everything done? Weight 30 %."),
            optional("accuracy", Percent, "Is it right? Weight 25 %."),
            optional("clarity", Percent, "Can it be understood? Weight 20 %."),
            optional("compliance", Percent, "Does it follow the rules? Weight 15 %."),
            optional("usability", Percent, "Can it be used? Weight 10 %."),
        ]),
        "The parts of the score.",
    ),
    optional("completeness", ASSESSMENT, "What is missing."),
    optional("compliance", ASSESSMENT, "Which rules are violated."),
    optional("strengths", NOTES, "What is good."),
    optional("improvements", NOTES, "What should be better."),
    optional("recommendations", NOTES, "What to do about it."),
]);

/// `cycle_summary`, which only the review reports.
pub(super) const SUMMARY: Shape = Filled(&Object(&[
    optional("success", Flag, "Whether the cycle did what was asked."),
    optional("instruction", Text, "The instruction of the cycle."),
    optional("summary", Text, "The cycle in a few sentences."),
    optional("highlights", AtMost(3, &NOTE), "At most three."),
    optional("completion", Either(&[Text, Percent]), "How much is done."),
    optional("next_action", Text, "What to do next."),
]));

/// `insights`, which only the review reports.
pub(super) const INSIGHTS: Shape = Filled(&Object(&[
    optional("learnings", NOTES, "What was learnt."),
    optional("patterns", NOTES, "What occurred more than once."),
    optional("issues_encountered", NOTES, "Which problems occurred."),
    optional("questions_for_user", Either(&[Text, NOTES]), "What only the user can answer."),
    optional(
        "recommendations",
        Either(&[
            NOTES,
            Object(&[
                optional("process", Either(&[Text, NOTES]), "About the process."),
                optional("technical", Either(&[Text, NOTES]), "About the code."),
                optional("efficiency", Either(&[Text, NOTES]), "About time and cost."),
            ]),
        ]),
        "What to do differently.",
    ),
    optional("alternative_approaches", Either(&[Text, NOTES]), "What could have been done instead."),
    optional("rationale", Either(&[Text, NOTES]), "Why it was done this way."),
]));
