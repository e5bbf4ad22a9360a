//! What happens after a reboot: nothing, until somebody starts an engine.

use std::path::Path;

use super::particulars::Particulars;
use super::{Finding, Ground};
use crate::output::shell_word;

pub(super) fn check(ground: &Ground) -> Finding {
    Finding::note("reboot", "there is no daemon: after a reboot nothing runs until somebody types this")
        .detail(format!("or let systemd type it: `callboard doctor --unit{}` prints the unit", ground.flags))
        .remedy(format!("callboard resume --all{}", ground.flags))
}

/// A systemd user unit that goes on with the runs of this place when the machine has started.
pub(crate) fn unit(ground: &Ground, program: &Path) -> String {
    let name = ground.repo.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let (repo, path) = (ground.repo.display().to_string(), std::env::var("PATH").unwrap_or_default());
    let particulars = match &ground.nats {
        Some(settings) => Particulars::of_shared(ground, settings, &name),
        None => Particulars::of_embedded(ground.store().filter(|_| ground.is_told())),
    };
    let Particulars { papers, patience, variables, .. } = &particulars;
    format!(
        "# callboard doctor --unit{flags} > ~/.config/systemd/user/callboard-{name}.service
{papers}# systemctl --user enable callboard-{name}.service
# loginctl enable-linger
[Unit]
Description=callboard goes on with the runs of {repo}
{patience}
[Service]
Type=oneshot
# The engines it starts are part of this unit: they live until it is stopped.
RemainAfterExit=yes
WorkingDirectory={repo}
# Else agents would be searched where systemd searches.
Environment=\"PATH={path}\"
{variables}{start}
[Install]
WantedBy=default.target
",
        flags = ground.flags,
        start = particulars.start(&literal(&shell_word(program))),
        repo = literal(&repo),
        path = literal(&path),
    )
}

/// A percent sign has a meaning there.
pub(super) fn literal(text: &str) -> String {
    text.replace('%', "%%")
}
