//! The items of a data loop: where they are read from, and what an attempt is told about its item.

use serde_json::{Value, json};

use crate::StepId;
use crate::prompt::code_block;
use crate::protocol_trait::{Effect, ParsedReport};
use crate::report::Report;
use crate::steps::definition::Definition;
use crate::steps::document::Document;
use crate::steps::step::Verdict;
use crate::steps::workflow::{DataLoop, ItemsSource, StepSpec};

/// The name of the effect that reads the list of items, and of the field with the list in its report. The effect changes nothing.
pub const ITEMS: &str = "items";

/// Returns the effect that reads the items of a step. `None` without a data loop, and if another step reads the items.
pub(in crate::steps) fn effect(document: &Document, step: &StepSpec) -> Option<Effect> {
    let arguments = match &step.data_loop.as_ref()?.source {
        ItemsSource::Items(items) => json!({ "items": items }),
        ItemsSource::Artifact(path) => json!({ "artifact": path }),
        ItemsSource::Step(from) => {
            let artifacts = document.step(from.as_str()).map(|step| step.artifacts.as_slice());
            json!({ "step": from, "artifact": artifacts.and_then(<[String]>::first) })
        }
        ItemsSource::With(_) => return None,
    };
    Some(Effect { name: ITEMS, arguments })
}

/// Reads the report of that effect. The verdict is the number of items.
pub(in crate::steps) fn parse(step: &StepSpec, report: &Report) -> ParsedReport<Verdict> {
    match reported_items(step, report) {
        Some(items) => match u32::try_from(items.len()) {
            Ok(count) => ParsedReport::Verdict(Verdict::Items(count)),
            Err(_) => ParsedReport::Invalid("there are too many items".to_owned()),
        },
        None => ParsedReport::Invalid("the report has no list `items`".to_owned()),
    }
}

/// Returns the items of a report, cut to `max_iterations`.
pub(in crate::steps) fn reported_items(step: &StepSpec, report: &Report) -> Option<Vec<Value>> {
    let items = report.extra_fields.get(ITEMS)?.as_array()?;
    let limit = step.data_loop.as_ref().and_then(|data_loop| data_loop.max_iterations);
    let limit = limit.map_or(usize::MAX, |limit| limit.get() as usize);
    Some(items.iter().take(limit).cloned().collect())
}

/// Returns the data loop, the item, its number (from 1) and the number of items. `None` if the id is not that of an item.
fn item<'a>(
    definition: &'a Definition,
    document: &'a Document,
    id: &StepId,
) -> Option<(&'a DataLoop, &'a Value, u32, usize)> {
    let (step, number) = definition.item_of(id)?;
    let step = definition.step(step);
    // The owner is the step itself, or the step whose items it shares.
    let items = &document.progress.get(definition.items_owner(step)?.id.as_str())?.items;
    let value = items.get(usize::try_from(number - 1).ok()?)?;
    Some((step.data_loop.as_ref()?, value, number, items.len()))
}

/// Returns the prompt of a step. If the id is that of an item, the item follows the prompt.
pub(in crate::steps) fn prompt(definition: &Definition, document: &Document, id: &StepId) -> String {
    let prompt = definition.prompt(id);
    match item(definition, document, id) {
        None => prompt.to_owned(),
        Some((_, value, number, count)) => {
            let value = serde_json::to_string_pretty(value).unwrap_or_default();
            format!("{}\n\n## Item {number} of {count}\n\n{}", prompt.trim_end(), code_block("json", &value))
        }
    }
}

/// Returns the environment variables with the item and its index (from 0). Empty if the id is not that of an item.
pub(in crate::steps) fn variables(
    definition: &Definition,
    document: &Document,
    id: &StepId,
) -> Vec<(String, String)> {
    let Some((data_loop, value, number, _)) = item(definition, document, id) else { return Vec::new() };
    let name = |var: &str| format!("LOOP_{}", var.to_ascii_uppercase());
    vec![
        (name(&data_loop.item_var), value.to_string()),
        (name(&data_loop.index_var), (number - 1).to_string()),
    ]
}
