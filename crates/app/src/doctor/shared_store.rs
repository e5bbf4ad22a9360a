//! A store on NATS: whether its servers answer, what they are, and what of their settings is not as it should be.

use std::collections::BTreeMap;
use std::time::Duration;

use store::{AnyStore, LaggingReplica, NatsSettings, NatsWarning, ReplicaStatus, Unavailable};

use super::runs::Runs;
use super::{Finding, Ground, store_check};
use crate::failure::{Code, Failure};
use crate::output::{self, shell_word};

const CHECK: &str = "store";

/// The findings, and the store for whoever wants to read in it.
pub(super) async fn check(ground: &Ground, settings: &NatsSettings) -> (Vec<Finding>, Option<AnyStore>) {
    let place = format!("{} ({})", settings.server(), ground.chosen_by);
    let beside = match &ground.location {
        Ok(location) => location,
        Err(failure) => return (vec![Finding::failure(CHECK, failure)], None),
    };
    let looked = async {
        let store = AnyStore::connect(settings.clone(), beside, output::waiting).await?;
        let notes = store.warnings().await?.to_vec();
        let (is_new, lagging) = match &store {
            AnyStore::Nats(nats, _) => (nats.is_new().await?, nats.lagging_replicas().await?),
            AnyStore::Embedded(_) => (false, Vec::new()),
        };
        Ok::<_, Unavailable>((store, is_new, notes, lagging))
    };
    match looked.await {
        Ok((store, is_new, notes, lagging)) => {
            let answers = Finding::fine(CHECK, format!("{place}: answers")).detail(format!(
                "what this machine needs for it is in {}",
                store.local_dir().root().display()
            ));
            let open = store_check::permissions(store.local_dir().root());
            let made =
                is_new.then(|| Finding::note(CHECK, "a new store was made there just now: it had none"));
            let answers = std::iter::once(answers).chain(made);
            let findings = answers.chain(lagging.iter().map(missed)).chain(replicas(&notes));
            let findings =
                findings.chain(notes.iter().filter_map(|note| told(ground, note))).chain(open).collect();
            (findings, Some(store))
        }
        Err(error) => {
            let is_gone = matches!(error, Unavailable::NoStream { .. });
            let finding = Finding::failure(CHECK, &Failure::from(error));
            let finding = finding.detail(format!("looked for at {place}"));
            let recover = is_gone.then(|| format!("callboard recover --dry-run{}", ground.flags));
            (vec![recover.into_iter().fold(finding, Finding::remedy)], None)
        }
    }
}

/// Another store that these servers had before, as far as this machine knows. Whoever finds none of the runs that were
/// there has most likely a server that was started without its directory.
pub(super) fn former(ground: &Ground, store: &AnyStore, runs: &Runs) -> Option<Finding> {
    let server = ground.nats.as_ref()?.server();
    let former = store.local_dir().of_former_shared(&server)?;
    let former = shell_word(&former);
    let finding = match runs.all.is_empty() {
        true => Finding::act(
            CHECK,
            format!("there are no runs at {server}, and there was another store before"),
        )
        .detail(
            "was the server started without its directory? stop it, and start it with the one it had (`-sd`)",
        ),
        false => Finding::note(CHECK, format!("there was another store at {server} before")),
    };
    let finding = finding.detail(format!("what its attempts left is in {former}"));
    Some(finding.detail(format!("if it was given up on purpose, `rm -r {former}` ends this")))
}

/// A server of the cluster that is down, or has not caught up.
fn missed(LaggingReplica { server, status, streams }: &LaggingReplica) -> Finding {
    let names: Vec<_> = streams.iter().map(|stream| format!("`{stream}`")).collect();
    let names = names.join(", ");
    match status {
        ReplicaStatus::Unreachable(length) => {
            let heard = length
                .map(|length| format!("; the others last heard of it {} ago", output::duration(length)));
            Finding::act(CHECK, format!("server `{server}` is down{}", heard.unwrap_or_default()))
                .detail(format!(
                    "it keeps a copy of {names}; until it is back the loss of another one stops all runs"
                ))
                .detail("start it again on its machine, with the directory it had; it catches up by itself")
                .remedy(format!("nats stream info {}", streams[0]))
        }
        ReplicaStatus::Behind(messages) => {
            let messages = match usize::try_from(*messages) {
                Ok(0) | Err(_) => String::new(),
                Ok(messages) => format!(" by {}", output::count(messages, "message", "messages")),
            };
            Finding::note(
                CHECK,
                format!("server `{server}` is behind the others{messages}, and catches up by itself"),
            )
            .detail(format!("in {names}"))
        }
    }
}

/// The streams that have fewer replicas than they should, those together that have as many: they were made together.
fn replicas(notes: &[NatsWarning]) -> Vec<Finding> {
    let fewer = notes.iter().filter_map(|note| match note {
        NatsWarning::FewerReplicas { stream, wanted, found, single_server } => {
            Some((stream, *wanted, *found, *single_server))
        }
        NatsWarning::OldServer { .. }
        | NatsWarning::LeaseDiffers { .. }
        | NatsWarning::ConfigDiffers { .. }
        | NatsWarning::StreamDeleted { .. } => None,
    });
    let mut alike: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (stream, wanted, found, single_server) in fewer {
        alike.entry((found, wanted, single_server)).or_default().push(stream);
    }
    alike
        .into_iter()
        .map(|((found, wanted, single_server), streams)| too_few(&streams, wanted, found, single_server))
        .collect()
}

fn too_few(streams: &[&String], wanted: usize, found: usize, single_server: bool) -> Finding {
    let have = output::count(streams.len(), "stream has", "streams have");
    let (they, loss) =
        (if streams.len() == 1 { "it holds" } else { "they hold" }, NatsWarning::failure_tolerance(found));
    let finding = Finding::note(CHECK, format!("{have} {found} of {wanted} replicas: what {they} {loss}"));
    let finding = streams.iter().fold(finding, |finding, stream| finding.detail(format!("`{stream}`")));
    if single_server {
        finding
            .detail(format!(
                "this server is in no cluster; {wanted} replicas need {wanted} servers (docs/nats.md)"
            ))
            .detail("if it is to stay alone, `replicas = 1` in `[store]` of callboard.toml ends this note")
    } else {
        let edit = |stream: &String| format!("nats stream edit {stream} --replicas {wanted}");
        streams.iter().fold(finding, |finding, stream| finding.remedy(edit(stream)))
    }
}

fn told(ground: &Ground, note: &NatsWarning) -> Option<Finding> {
    let finding = Finding::note(CHECK, note.to_string());
    match note {
        NatsWarning::StreamDeleted { .. } => {
            let finding = Finding::act(CHECK, note.to_string()).code(Code::NoStream);
            Some(finding.remedy(format!("callboard recover{}", ground.flags)))
        }
        NatsWarning::FewerReplicas { .. } => None,
        NatsWarning::LeaseDiffers { stream, wanted, found } => {
            let (wanted, found) = (length(*wanted), length(*found));
            Some(
                finding
                    .detail(format!("{found} is in force, for every host; `lease = \"{found}\"` in `[store]` agrees with it"))
                    .detail("whoever wants the other one changes the stream; engines at work keep theirs until they end")
                    .remedy(format!("nats stream edit {stream} --max-age {wanted}")),
            )
        }
        NatsWarning::OldServer { .. } | NatsWarning::ConfigDiffers { .. } => Some(finding),
    }
}

/// A length of time as configurations and tools of NATS read it.
fn length(length: Duration) -> String {
    match length.subsec_millis() {
        0 => format!("{}s", length.as_secs()),
        _ => format!("{}ms", length.as_millis()),
    }
}
