//! The document of `peer`: the original's example round-trips, and unknown fields are preserved.

use protocol::peer::{Document, Event, Phase, PhaseStatus};
use serde_json::{Value, json};

const EXAMPLE: &str = include_str!("../fixtures/peer/cycle.json");

/// The example as Callboard renders it, with the fields in the original's order.
fn canonical() -> String {
    format!("{}\n", serde_json::to_string_pretty(&serde_json::from_str::<Value>(EXAMPLE).unwrap()).unwrap())
}

#[test]
fn the_originals_example_round_trips() {
    let document: Document = serde_json::from_str(EXAMPLE).unwrap();
    assert_eq!(document.render(), canonical());
    assert_eq!(document.to_value(), serde_json::from_str::<Value>(EXAMPLE).unwrap());
}

#[test]
fn the_originals_example_is_parsed() {
    let document: Document = serde_json::from_str(EXAMPLE).unwrap();
    assert_eq!(document.cycle_id.to_string(), "peer:spec:feature-name:cycle:1");
    assert_eq!(document.cycle_id.key(), "peer.spec.feature-name.cycle.1");
    assert_eq!(document.metadata.key_prefix, document.cycle_id.scope);
    assert_eq!(document.phases.find(PhaseStatus::InProgress), Some(Phase::Execute));
    assert_eq!(document.phases.plan.sequence_at_complete, Some(15));
    assert_eq!(document.history[2].event, Event::Started);
}

#[test]
fn unknown_fields_are_preserved_in_every_object() {
    let mut value: Value = serde_json::from_str(EXAMPLE).unwrap();
    value["phases"]["execute"]["errors"] =
        json!([{"kind": "timeout", "message": "m", "timestamp": "2025-08-05T10:06:00Z"}]);
    let unknown = json!({"a": [1, null, {"b": -2.5}], "": "é"});
    for pointer in [
        "",
        "/metadata",
        "/context",
        "/phases/plan",
        "/phases/express",
        "/phases/execute/errors/0",
        "/history/0",
    ] {
        value.pointer_mut(pointer).unwrap()["x_unknown"] = unknown.clone();
        value.pointer_mut(pointer).unwrap()["x_null"] = Value::Null;
    }
    value["cycle_summary"] = Value::Null;
    value["phases"]["execute"]["output"] = Value::Null;
    let document: Document = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(document.to_value(), value);
    let again: Document = serde_json::from_str(&document.render()).unwrap();
    assert_eq!(again, document);
}

#[test]
fn a_fifth_phase_is_refused_rather_than_dropped() {
    let mut value: Value = serde_json::from_str(EXAMPLE).unwrap();
    value["phases"]["deploy"] = json!({"status": "pending"});
    assert!(serde_json::from_value::<Document>(value).is_err());
}

#[test]
fn numbers_of_64_bits_round_trip() {
    let mut random = 1_u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = f64::from_bits(random);
        if number.is_finite() {
            let text = json!({ "x": number }).to_string();
            let again: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(again.to_string(), text);
        }
    }
    for text in ["18446744073709551615", "-9223372036854775808", "0.1", "1e300", "-0.0"] {
        // `1e300` is written as `1e+300`.
        assert_eq!(serde_json::from_str::<Value>(text).unwrap().to_string().replace('+', ""), text);
    }
}
