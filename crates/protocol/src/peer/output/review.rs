//! The result of a review: its score, whether the cycle succeeded, and the questions to the user.

use std::fmt;

use serde_json::Value;

/// The score that the reviewer gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// From 0 to 100.
    Number(f64),
    Word(Band),
}

/// The four bands of a score, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Band {
    High,
    Medium,
    Low,
    RequiresAttention,
}

/// What the outputs of `execute` and `review` say about a cycle. [`succeeded`] also considers the reviewer's summary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// `None` if `quality_score` is an unknown word, or if it is missing and so is a part of the score.
    pub score: Option<Score>,
    /// Also true if the execution has no `execution_status`.
    pub execution_succeeded: bool,
}

/// The parts of a score and their weights in percent.
const WEIGHTS: [(&str, f64); 5] = [
    ("completeness", 30.0),
    ("accuracy", 25.0),
    ("clarity", 20.0),
    ("compliance", 15.0),
    ("usability", 10.0),
];

impl Band {
    pub const ALL: [Self; 4] = [Self::High, Self::Medium, Self::Low, Self::RequiresAttention];

    /// The word in a review.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::RequiresAttention => "requires_attention",
        }
    }

    fn of(number: f64) -> Self {
        match number {
            _ if number >= 90.0 => Self::High,
            _ if number >= 70.0 => Self::Medium,
            _ if number >= 50.0 => Self::Low,
            _ => Self::RequiresAttention,
        }
    }
}

impl Score {
    pub fn band(self) -> Band {
        match self {
            Self::Number(number) => Band::of(number),
            Self::Word(band) => band,
        }
    }

    fn read(review: &Value) -> Option<Self> {
        match &review["quality_score"] {
            Value::Number(number) => number.as_f64().map(Self::Number),
            Value::String(word) => Band::ALL.into_iter().find(|band| band.as_str() == word).map(Self::Word),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Self::weigh(review),
        }
    }

    /// The weighted sum of the parts, if all are present.
    fn weigh(review: &Value) -> Option<Self> {
        let parts = WEIGHTS.map(|(name, weight)| review["scores"][name].as_f64().map(|part| part * weight));
        parts.into_iter().sum::<Option<f64>>().map(|sum| Self::Number(sum / 100.0))
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(band) => f.write_str(band.as_str()),
        }
    }
}

impl Judgement {
    /// Whether the outputs are those of a success: the execution succeeded, and the score is 70 or better.
    /// Without a score they are not.
    pub fn success(self) -> bool {
        self.execution_succeeded && self.score.is_some_and(|score| score.band() <= Band::Medium)
    }
}

/// Judges a cycle by the outputs of `execute` and `review`.
pub fn judge(execute: &Value, review: &Value) -> Judgement {
    let execution_succeeded =
        execute.get("execution_status").is_none_or(|status| status == "success" || status.is_null());
    Judgement { score: Score::read(review), execution_succeeded }
}

/// Whether a reviewed cycle succeeded: its outputs say so, and the reviewer's summary does not deny it.
pub fn succeeded(execute: &Value, review: &Value, summary: Option<&Value>) -> bool {
    let denied = summary.is_some_and(|summary| summary["success"] == false);
    judge(execute, review).success() && !denied
}

/// Returns the questions to the user in the review's `insights`.
pub fn questions_for_user(insights: &Value) -> Vec<String> {
    let not_blank = |text: &String| Some(text.clone()).filter(|text| !text.trim().is_empty());
    let question = |value: &Value| match value {
        Value::String(text) => not_blank(text),
        Value::Object(fields) => match fields.get("question") {
            Some(Value::String(text)) => not_blank(text),
            Some(_) | None => Some(value.to_string()),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    let questions = &insights["questions_for_user"];
    match questions.as_array() {
        Some(several) => several.iter().filter_map(question).collect(),
        None => question(questions).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cycle_succeeds_from_a_score_of_70_if_its_execution_did() {
        for (score, band, success) in [
            (json!(100), Band::High, true),
            (json!(90), Band::High, true),
            (json!(89.9), Band::Medium, true),
            (json!(70), Band::Medium, true),
            (json!(69.9), Band::Low, false),
            (json!(50), Band::Low, false),
            (json!(0), Band::RequiresAttention, false),
            (json!("high"), Band::High, true),
            (json!("medium"), Band::Medium, true),
            (json!("low"), Band::Low, false),
            (json!("requires_attention"), Band::RequiresAttention, false),
        ] {
            let review = json!({ "quality_score": score });
            let judged = judge(&json!({"progress": "done"}), &review);
            assert_eq!((judged.score.unwrap().band(), judged.success()), (band, success), "{score}");
            for status in ["cancelled", "error"] {
                assert!(!judge(&json!({ "execution_status": status }), &review).success());
            }
            assert_eq!(judge(&json!({"execution_status": "success"}), &review).success(), success);
        }
    }

    #[test]
    fn the_words_of_the_bands_are_those_of_the_schema() {
        let words = &super::super::OUTPUT_SCHEMAS[3]["properties"]["quality_score"]["anyOf"][1]["enum"];
        assert_eq!(*words, json!(Band::ALL.map(Band::as_str)));
    }

    #[test]
    fn without_a_score_its_parts_are_weighed() {
        let mut review = json!({"scores": {
            "completeness": 100, "accuracy": 80, "clarity": 60, "compliance": 40, "usability": 20,
        }});
        assert_eq!(judge(&json!({}), &review).score, Some(Score::Number(70.0)));
        review["scores"]["usability"] = Value::Null;
        let judged = judge(&json!({}), &review);
        assert_eq!((judged.score, judged.success()), (None, false), "no score is no success");
    }

    #[test]
    fn questions_are_read_in_every_form() {
        for (given, found) in [
            (json!(["Which database?", " "]), vec!["Which database?"]),
            (json!("Which database?"), vec!["Which database?"]),
            (json!([{"question": "Why?", "context": "x"}, {"ask": 1}]), vec!["Why?", "{\"ask\":1}"]),
            (json!([]), vec![]),
            (Value::Null, vec![]),
        ] {
            assert_eq!(questions_for_user(&json!({ "questions_for_user": given })), found);
        }
        assert!(questions_for_user(&Value::Null).is_empty());
    }
}
