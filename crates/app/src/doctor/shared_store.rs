//! A store on NATS: whether its servers answer, what they are, and what of their settings is not as it should be.

use store::{AnyStore, NatsSettings, Note};

use super::{Finding, Ground, store_check};
use crate::failure::{Code, Failure};
use crate::render;

const CHECK: &str = "store";

/// The findings, and the store for whoever wants to read in it.
pub(super) async fn check(ground: &Ground, settings: &NatsSettings) -> (Vec<Finding>, Option<AnyStore>) {
    let place = format!("{} ({})", settings.server(), ground.chosen_by);
    let beside = match &ground.location {
        Ok(location) => location,
        Err(failure) => return (vec![Finding::failure(CHECK, failure)], None),
    };
    let looked = async {
        let store = AnyStore::connect(settings.clone(), beside, render::waiting).await?;
        let notes = store.notes().await?.to_vec();
        Ok((store, notes))
    };
    match looked.await {
        Ok((store, notes)) => {
            let answers = Finding::fine(CHECK, format!("{place}: answers")).detail(format!(
                "what this machine needs for it is in {}",
                store.premises().root().display()
            ));
            let open = store_check::permissions(store.premises().root());
            let findings = std::iter::once(answers).chain(notes.iter().map(told)).chain(open).collect();
            (findings, Some(store))
        }
        Err(error) => {
            let error: store::Unavailable = error;
            (
                vec![Finding::failure(CHECK, &Failure::from(error)).detail(format!("looked for at {place}"))],
                None,
            )
        }
    }
}

fn told(note: &Note) -> Finding {
    let finding = Finding::note(CHECK, note.to_string());
    match note {
        Note::Gone { .. } => {
            Finding::act(CHECK, note.to_string()).code(Code::NoStream).remedy("callboard recover")
        }
        Note::FewerReplicas { stream, wanted, .. } => {
            finding.remedy(format!("nats stream edit {stream} --replicas {wanted}"))
        }
        Note::OldServer { .. } | Note::OtherSettings { .. } => finding,
    }
}
