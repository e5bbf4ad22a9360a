//! `callboard explain [CODE]`.

use protocol::closest;
use serde_json::json;

use crate::failure::{Code, Exit, Failure};
use crate::output::{self, BOLD, styled};

/// Explain an error code: what happened, why, and what to do
///
/// CODE is shown in brackets after `error`. Without CODE, all codes are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard explain
  callboard explain E004")]
pub(super) struct Arguments {
    /// The error code, such as E004
    code: Option<String>,

    /// Print JSON with `code`, `title` and `page`
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let chosen = match &arguments.code {
        Some(name) => vec![find(name)?],
        None => Code::ALL.to_vec(),
    };
    if arguments.json {
        let pages: Vec<_> = chosen
            .iter()
            .map(|code| json!({ "code": code.name(), "title": code.title(), "page": code.page() }))
            .collect();
        output::json_pretty(&pages);
    } else if let [one] = chosen.as_slice() {
        output::raw(one.page());
    } else {
        for code in chosen {
            output::data(format_args!("{}  {}", styled(BOLD, code), code.title()));
        }
    }
    Ok(Exit::Success)
}

/// Finds a code by its name, its number or a mixture: `E004`, `e4`, `4`.
fn find(name: &str) -> Result<Code, Failure> {
    let digits = name.strip_prefix(['E', 'e']).unwrap_or(name);
    let code_name = digits.parse::<u32>().map_or_else(|_| name.to_owned(), |number| format!("E{number:03}"));
    if let Some(code) = Code::ALL.into_iter().find(|code| code.name() == code_name) {
        return Ok(code);
    }
    let failure = Failure::usage(format!("there is no error code `{name}`"));
    Err(match closest(&code_name, Code::ALL.into_iter().map(Code::name)) {
        Some(near) => {
            failure.hint(format!("did you mean `{near}`? Run `callboard explain` to list all codes"))
        }
        None => failure.hint("run `callboard explain` to list all codes"),
    })
}

#[cfg(test)]
mod tests;
