//! A store on NATS: whether its servers answer, and which of their settings differ from the configured ones.

use std::collections::BTreeMap;

use store::{AnyStore, Backend, NatsSettings, NatsWarning, Unavailable};

use super::runs::Runs;
use super::{DoctorContext, Finding, sqlite_store};
use crate::failure::{Code, Failure};
use crate::output::{self, shell_word};

const CHECK: &str = "store";

/// Returns the findings, and the store if other checks can read it.
pub(super) async fn check(
    context: &DoctorContext,
    settings: &NatsSettings,
) -> (Vec<Finding>, Option<AnyStore>) {
    // The server, and the setting that chose it.
    let address = format!("{} ({})", settings.server(), context.store_reason);
    // The local directory of a store on NATS is below the place of the embedded store, which need not exist.
    let embedded = match &context.location {
        Ok(location) => location,
        Err(failure) => return (vec![Finding::failure(CHECK, failure)], None),
    };
    let connected = async {
        let store = AnyStore::connect(settings.clone(), embedded, output::print_nats_notice).await?;
        let warnings = store.warnings().await?.to_vec();
        let is_new = match store.backend() {
            Backend::Nats(nats, _) => nats.is_new().await?,
            Backend::Embedded(_) => false,
        };
        Ok::<_, Unavailable>((store, is_new, warnings))
    };
    match connected.await {
        Ok((store, is_new, warnings)) => {
            let local_dir = store.local_dir().root();
            let mut findings = vec![
                Finding::ok(CHECK, format!("{address}: connected"))
                    .detail(format!("attempts of this machine are in {}", local_dir.display())),
            ];
            if is_new {
                findings.push(Finding::note(CHECK, "the servers had no store; a new one was created now"));
            }
            findings.extend(missing_replicas(&warnings));
            findings.extend(warnings.iter().filter_map(|warning| settings_finding(context, warning)));
            findings.extend(sqlite_store::permissions(local_dir));
            (findings, Some(store))
        }
        Err(error) => {
            let is_stream_deleted = matches!(error, Unavailable::StreamDeleted { .. });
            let finding = Finding::failure(CHECK, &Failure::from(error));
            let finding = finding.detail(format!("store: {address}"));
            let command = is_stream_deleted.then(|| format!("callboard recover --dry-run{}", context.flags));
            (vec![command.into_iter().fold(finding, Finding::command)], None)
        }
    }
}

/// Reports an earlier store at the same address, if attempts of it are left on this machine. If the current store has no runs,
/// the server was probably started with another data directory.
pub(super) fn former_store(context: &DoctorContext, store: &AnyStore, runs: &Runs) -> Option<Finding> {
    let server = context.nats.as_ref()?.server();
    let dir = store.local_dir().former_local_dir(&server)?;
    let dir = shell_word(&dir);
    let finding = match runs.all.is_empty() {
        true => Finding::problem(
            CHECK,
            format!("{server} has no runs, and this machine used another store there before"),
        )
        .detail("if the server was started with another data directory, restart it with the former one (`-sd DIR`)"),
        false => Finding::note(CHECK, format!("this machine used another store at {server} before")),
    };
    let finding = finding.detail(format!("attempts of that store are in {dir}"));
    Some(finding.detail(format!("if you do not need them, `rm -r {dir}` removes them and this finding")))
}

/// Reports streams with too few replicas, in one finding per number of replicas.
fn missing_replicas(warnings: &[NatsWarning]) -> Vec<Finding> {
    let too_few = warnings.iter().filter_map(|warning| match warning {
        NatsWarning::FewerReplicas { stream, wanted, found, single_server } => {
            Some((stream, *wanted, *found, *single_server))
        }
        NatsWarning::OldServer { .. }
        | NatsWarning::LeaseDiffers { .. }
        | NatsWarning::ConfigDiffers { .. }
        | NatsWarning::StreamDeleted { .. } => None,
    });
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (stream, wanted, found, single_server) in too_few {
        groups.entry((found, wanted, single_server)).or_default().push(stream);
    }
    groups
        .into_iter()
        .map(|((found, wanted, single_server), streams)| {
            too_few_replicas(&streams, wanted, found, single_server)
        })
        .collect()
}

fn too_few_replicas(streams: &[&String], wanted: usize, found: usize, single_server: bool) -> Finding {
    let have = output::count(streams.len(), "stream has", "streams have");
    let (they, loss) =
        (if streams.len() == 1 { "it holds" } else { "they hold" }, NatsWarning::failure_tolerance(found));
    let finding = Finding::note(CHECK, format!("{have} {found} of {wanted} replicas: what {they} {loss}"));
    let finding = streams.iter().fold(finding, |finding, stream| finding.detail(format!("`{stream}`")));
    if single_server {
        finding
            .detail(format!(
                "this server is not in a cluster; {wanted} replicas need {wanted} servers (docs/nats.md)"
            ))
            .detail("for a single server, set `replicas = 1` in `[store]` of callboard.toml")
    } else {
        let edit = |stream: &String| format!("nats stream edit {stream} --replicas {wanted}");
        streams.iter().fold(finding, |finding, stream| finding.command(edit(stream)))
    }
}

/// Reports a setting of the servers that differs from the configuration. Replicas have their own findings.
fn settings_finding(context: &DoctorContext, warning: &NatsWarning) -> Option<Finding> {
    let finding = Finding::note(CHECK, warning.to_string());
    match warning {
        NatsWarning::StreamDeleted { .. } => {
            let finding = Finding::problem(CHECK, warning.to_string()).code(Code::NoStream);
            Some(finding.command(format!("callboard recover{}", context.flags)))
        }
        NatsWarning::FewerReplicas { .. } => None,
        NatsWarning::LeaseDiffers { stream, wanted, found } => {
            let (wanted, found) = (output::setting_duration(*wanted), output::setting_duration(*found));
            Some(
                finding
                    .detail(format!(
                        "{found} applies on every host; to keep it, set `lease = \"{found}\"` in `[store]`"
                    ))
                    .detail(format!(
                        "to use {wanted}, edit the stream; running engines keep {found} until they exit"
                    ))
                    .command(format!("nats stream edit {stream} --max-age {wanted}")),
            )
        }
        NatsWarning::ConfigDiffers { stream, .. } => Some(
            finding
                .detail("Callboard uses the stream as it is")
                .command(format!("nats stream edit {stream} --interactive")),
        ),
        NatsWarning::OldServer { .. } => Some(finding),
    }
}
