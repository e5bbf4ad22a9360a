//! Who plays: the command line's wrapper or template, or the configuration's adapters.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use runner::{AgentProfile, GRACE, Overrides};
use supervisor::adapter::{Adapter, CommandLine, Pass, ReportRule, Wrapper};

use crate::config;
use crate::failure::Failure;

/// The flags that name a profile for every step.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agents")]
pub(crate) struct AgentFlags {
    /// The program of every agent; it is started with --run-id --step-id --agent --prompt --repo --report
    #[arg(long, value_name = "PROGRAM", conflicts_with = "command_template")]
    pub(crate) wrapper: Option<PathBuf>,

    /// An additional argument for the wrapper (repeatable)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, requires = "wrapper")]
    pub(crate) wrapper_arg: Vec<String>,

    /// The command line of every agent, with placeholders such as {prompt} and {report}
    #[arg(
        long,
        value_name = "COMMAND",
        long_help = "The command line of every agent, with placeholders. It is split into words like a shell command and then \
                     filled in, so values may contain spaces and quotes. No shell is started.\n\nPlaceholders: {run_id} {step_id} \
                     {agent} {prompt} {repo} {report} {attempt} {manual_input}"
    )]
    pub(crate) command_template: Option<String>,

    /// An environment variable for every agent (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,

    /// The working directory of the agents [default: the repository]
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

impl AgentFlags {
    /// The profile that the flags name, if they do. A report is required of it, and it sees our whole environment.
    pub(crate) fn profile(&self) -> Result<Option<AgentProfile>, Failure> {
        let adapter = match (&self.wrapper, &self.command_template) {
            (Some(wrapper), _) => {
                Adapter::Wrapper(Wrapper { program: program(wrapper)?, args: self.wrapper_arg.clone() })
            }
            (None, Some(template)) => Adapter::Command(CommandLine::parse(template).map_err(|error| {
                Failure::usage(format!("cannot use the command template `{template}`")).because(Some(&error))
            })?),
            (None, None) => return Ok(None),
        };
        Ok(Some(AgentProfile {
            adapter,
            report: ReportRule::Required,
            pass: Pass::Everything,
            env: Vec::new(),
            timeout: None,
            silence: None,
            grace: GRACE,
        }))
    }

    /// What these flags say anew about a run that was opened with others.
    pub(crate) fn again(&self) -> Result<Overrides, Failure> {
        let workdir = self.workdir.as_ref().map(|workdir| self.workdir(workdir)).transpose()?;
        Ok(Overrides { profile: self.profile()?, env: self.env.clone(), workdir, ..Overrides::default() })
    }

    /// The same flags for another process.
    pub(crate) fn as_arguments(&self) -> Vec<OsString> {
        let pair = |flag: &str, value: &OsStr| [OsString::from(flag), value.to_owned()];
        let mut arguments = Vec::new();
        arguments.extend(self.wrapper.iter().flat_map(|wrapper| pair("--wrapper", wrapper.as_os_str())));
        arguments
            .extend(self.wrapper_arg.iter().flat_map(|argument| pair("--wrapper-arg", argument.as_ref())));
        let template = self.command_template.iter();
        arguments.extend(template.flat_map(|template| pair("--command-template", template.as_ref())));
        let variables = self.env.iter().map(|(name, value)| format!("{name}={value}"));
        arguments.extend(variables.flat_map(|variable| pair("--env", variable.as_ref())));
        arguments.extend(self.workdir.iter().flat_map(|workdir| pair("--workdir", workdir.as_os_str())));
        arguments
    }

    /// Where agents start.
    pub(crate) fn workdir(&self, repo: &Path) -> Result<PathBuf, Failure> {
        let Some(workdir) = &self.workdir else { return Ok(repo.to_owned()) };
        let path = workdir.canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
            Failure::usage(format!("cannot start agents in `{}`: it is not a directory", workdir.display()))
        })?;
        utf8(&path).map(PathBuf::from)
    }
}

/// A wrapper in the current directory, by an absolute path, or a bare name to be found in PATH.
fn program(wrapper: &Path) -> Result<String, Failure> {
    let bare = wrapper.components().count() == 1;
    let path = if bare && !wrapper.exists() {
        wrapper.to_owned()
    } else {
        std::path::absolute(wrapper)
            .map_err(|error| Failure::usage("cannot tell the current directory").because(Some(&error)))?
    };
    utf8(&path)
}

pub(crate) fn utf8(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("the path `{}` is not UTF-8", path.display())))
}

/// The profile that an adapter of the configuration describes. It sees an allow-list of our environment.
pub(crate) fn configured(name: &str, configured: &config::Adapter) -> Result<AgentProfile, Failure> {
    let command = |argv: Vec<String>| {
        CommandLine::from_argv(argv).map(Adapter::Command).map_err(|error| {
            Failure::usage(format!("cannot use the command of adapter `{name}`")).because(Some(&error))
        })
    };
    let adapter = match &configured.launch {
        config::Launch::Command(argv) => command(argv.clone())?,
        // A shell line has its own braces; it finds everything in variables.
        config::Launch::Shell(line) => {
            let line = line.replace('{', "{{").replace('}', "}}");
            command(vec!["sh".to_owned(), "-c".to_owned(), line])?
        }
        config::Launch::Wrapper { program, args } => {
            Adapter::Wrapper(Wrapper { program: utf8(program)?, args: args.clone() })
        }
    };
    Ok(AgentProfile {
        adapter,
        report: configured.report,
        pass: Pass::AllowList(configured.pass_env.clone()),
        env: configured.env.clone().into_iter().collect(),
        timeout: configured.timeout,
        silence: configured.silence,
        grace: configured.grace.unwrap_or(GRACE),
    })
}

/// What to type so that somebody plays this agent.
pub(crate) fn how_to_set(agent: &str) -> String {
    format!(
        "give `--wrapper PROGRAM` or `--command-template COMMAND`, or add to callboard.toml:\n\n    \
         [adapters.{agent}]\n    command = [\"your-agent\", \"{{prompt}}\"]\n    \
         report = \"required\"    # without this line its exit code is its report"
    )
}
