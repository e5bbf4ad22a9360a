//! Prompt templates of the repository, `.agents/prompts/PROTOCOL/ROLE.md`, which replace the built-in ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use protocol::{ProtocolInfo, closest};

use crate::failure::Failure;
use crate::output;

const DIRECTORY: &str = ".agents/prompts";

/// Reads the templates of a protocol, by role. Fails if one has a placeholder that the protocol does not fill.
pub(crate) fn read(repo: &Path, info: &ProtocolInfo) -> Result<BTreeMap<String, String>, Failure> {
    let directory = Path::new(DIRECTORY).join(info.name);
    let mut prompts = BTreeMap::new();
    for template in info.prompts {
        let file = directory.join(format!("{}.md", template.role));
        let text = match fs::read_to_string(repo.join(&file)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                let what = format!("cannot read the prompt `{}`", file.display());
                return Err(Failure::usage(what).because(Some(&error)));
            }
        };
        if let Err(problem) = template.check(&text) {
            let at = format!("{}:{}:{}", file.display(), problem.line, problem.column);
            return Err(Failure::usage(format!("{at}: {}", problem.message)).hint(problem.hint));
        }
        prompts.insert(template.role.to_owned(), text);
    }
    note_unused(&repo.join(&directory), info);
    Ok(prompts)
}

/// Notes files that replace no prompt: their names may be misspelt.
fn note_unused(directory: &Path, info: &ProtocolInfo) {
    let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.to_str()?.strip_suffix(".md").map(str::to_owned));
    let names: BTreeSet<_> = names.collect();
    let roles = || info.prompts.iter().map(|template| template.role);
    for name in names.iter().filter(|name| !roles().any(|role| role == name.as_str())) {
        let meant = closest(name, roles()).map(|meant| format!("; did you mean `{meant}.md`?"));
        let meant = meant.unwrap_or_default();
        output::note(format_args!("`{DIRECTORY}/{}/{name}.md` is used by no agent{meant}", info.name));
    }
}
