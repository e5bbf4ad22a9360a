//! Agent profiles from the command line and from `[adapters]`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use runner::{AgentProfile, GRACE, NoAdapter, Overrides, Role};
use supervisor::adapter::{Adapter, CommandLine, EnvPolicy, ReportRule, Wrapper};

use crate::config;
use crate::failure::{Code, Failure};
use crate::output::shell_word;

/// The flags that choose the agents of a run.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agents")]
pub(crate) struct AgentFlags {
    /// A program that takes the six flags --run-id --step-id --agent --prompt --repo --report
    #[arg(long, value_name = "PROGRAM", conflicts_with = "command_template")]
    pub(crate) wrapper: Option<PathBuf>,

    /// Add an argument for the wrapper (repeatable)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, requires = "wrapper")]
    pub(crate) wrapper_arg: Vec<String>,

    /// A command line with placeholders such as {prompt} and {report}
    #[arg(
        long,
        value_name = "COMMAND",
        long_help = "A command line with placeholders. It is split like a shell line first and filled in afterwards, so \
                     values with spaces or quotes stay whole; no shell is started.\n\nPlaceholders: {run_id} {step_id} \
                     {agent} {model} {prompt} {repo} {report} {attempt} {manual_input}"
    )]
    pub(crate) command_template: Option<String>,

    /// Use this configured adapter for a step or agent, or for `default` (repeatable)
    #[arg(long, value_name = "NAME=ADAPTER", value_parser = setting)]
    pub(crate) role: Vec<(String, String)>,

    /// Use this model for a step or agent, or for `default` (repeatable)
    #[arg(long, value_name = "NAME=MODEL", value_parser = setting)]
    pub(crate) model: Vec<(String, String)>,

    /// Set a variable for every agent (repeatable; `--env A=1 B=2` sets two)
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,

    /// The working directory of agents [default: the repository]
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

impl AgentFlags {
    /// Returns the profile that the flags set. Its agent must report, and inherits the whole environment of this process.
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
            env_policy: EnvPolicy::InheritAll,
            env: Vec::new(),
            timeout: None,
            silence: None,
            grace: GRACE,
        }))
    }

    /// Returns the roles that the flags set.
    pub(crate) fn roles(&self) -> BTreeMap<String, Role> {
        let mut roles: BTreeMap<String, Role> = BTreeMap::new();
        for (name, adapter) in &self.role {
            roles.entry(name.clone()).or_default().adapter = Some(adapter.clone());
        }
        for (name, model) in &self.model {
            roles.entry(name.clone()).or_default().model = Some(model.clone());
        }
        roles
    }

    /// Returns what these flags change in a run that was started with other flags.
    pub(crate) fn overrides(&self) -> Result<Overrides, Failure> {
        let workdir = self.workdir.as_ref().map(|workdir| self.workdir(workdir)).transpose()?;
        Ok(Overrides {
            profile: self.profile()?,
            roles: self.roles(),
            env: self.env.clone(),
            workdir,
            ..Overrides::default()
        })
    }

    /// Returns the flags as arguments for another process.
    pub(crate) fn as_arguments(&self) -> Vec<OsString> {
        let pair = |flag: &str, value: &OsStr| [OsString::from(flag), value.to_owned()];
        let mut arguments = Vec::new();
        arguments.extend(self.wrapper.iter().flat_map(|wrapper| pair("--wrapper", wrapper.as_os_str())));
        arguments
            .extend(self.wrapper_arg.iter().flat_map(|argument| pair("--wrapper-arg", argument.as_ref())));
        let template = self.command_template.iter();
        arguments.extend(template.flat_map(|template| pair("--command-template", template.as_ref())));
        for (flag, settings) in [("--role", &self.role), ("--model", &self.model), ("--env", &self.env)] {
            let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
            arguments.extend(settings.flat_map(|setting| pair(flag, setting.as_ref())));
        }
        arguments.extend(self.workdir.iter().flat_map(|workdir| pair("--workdir", workdir.as_os_str())));
        arguments
    }

    /// Returns the working directory of agents, or `default_dir` if no flag sets it.
    pub(crate) fn workdir(&self, default_dir: &Path) -> Result<PathBuf, Failure> {
        let Some(workdir) = &self.workdir else { return Ok(default_dir.to_owned()) };
        let path = workdir.canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
            Failure::usage(format!("cannot start agents in `{}`: it is not a directory", workdir.display()))
        })?;
        utf8(&path).map(PathBuf::from)
    }
}

/// Returns the absolute path of a wrapper, or its bare name if it is to be found in PATH.
fn program(wrapper: &Path) -> Result<String, Failure> {
    let bare = wrapper.components().count() == 1;
    let path = if bare && !wrapper.exists() {
        wrapper.to_owned()
    } else {
        std::path::absolute(wrapper)
            .map_err(|error| Failure::usage("cannot determine the current directory").because(Some(&error)))?
    };
    utf8(&path)
}

pub(crate) fn utf8(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("the path `{}` is not UTF-8", path.display())))
}

/// Returns the profile of a configured adapter. Its agent inherits an allow-list of the environment of this
/// process.
pub(crate) fn profile_of_adapter(name: &str, settings: &config::Adapter) -> Result<AgentProfile, Failure> {
    let command = |argv: Vec<String>| {
        CommandLine::from_argv(argv).map(Adapter::Command).map_err(|error| {
            Failure::usage(format!("cannot use the command of adapter `{name}`")).because(Some(&error))
        })
    };
    let adapter = match &settings.launch {
        config::Launch::Command(argv) => command(argv.clone())?,
        // Escape braces: a shell line has no placeholders and reads variables instead.
        config::Launch::Shell(line) => {
            let line = line.replace('{', "{{").replace('}', "}}");
            // The last word is `$0`; arguments of a role follow it as `$@`.
            command(vec!["sh".to_owned(), "-c".to_owned(), line, "sh".to_owned()])?
        }
        config::Launch::Wrapper { program, args } => {
            Adapter::Wrapper(Wrapper { program: utf8(program)?, args: args.clone() })
        }
    };
    Ok(AgentProfile {
        adapter,
        report: settings.report,
        env_policy: EnvPolicy::AllowList(settings.pass_env.clone()),
        env: settings.env.clone().into_iter().collect(),
        timeout: settings.timeout,
        silence: settings.silence,
        grace: settings.grace.unwrap_or(GRACE),
    })
}

/// Returns the failure of an agent whose program does not exist, or cannot be executed. `env` is what the run sets for its
/// agents, `cwd` is where they are started.
pub(crate) fn missing_program(
    agent: &str,
    profile: &AgentProfile,
    env: &[(String, String)],
    cwd: &Path,
) -> Option<Failure> {
    let program = profile.adapter.program()?;
    // The last one wins, as at the start of the agent.
    let path = profile.env.iter().chain(env).rfind(|(name, _)| name == "PATH");
    let path = path.map(|(_, path)| OsString::from(path)).or_else(|| std::env::var_os("PATH"));
    if supervisor::find_program(program, &path.unwrap_or_default(), cwd).is_some() {
        return None;
    }
    let failure = Failure::usage(format!("cannot start agent `{agent}`: program `{program}` was not found"));
    let file = cwd.join(program);
    let hint = if !program.contains('/') {
        "install it in PATH, or write its path".to_owned()
    } else if file.is_file() {
        format!("the file is not executable; run `chmod +x {}`", shell_word(&file))
    } else {
        format!("create `{}`, or correct the path", file.display())
    };
    Some(failure.code(Code::NoProgram).hint(hint))
}

/// Says how to configure the missing adapters.
pub(crate) fn configure_hint(missing: &[NoAdapter]) -> String {
    let first = missing.first();
    let name = first.and_then(|first| first.adapter.as_ref().or(Some(&first.agent)));
    let name = name.map_or("NAME", String::as_str);
    let several_agents = missing.iter().any(|one| first.is_some_and(|first| one.agent != first.agent));
    let default_role = if several_agents {
        "\n\n    [roles.default]    # for every agent without an adapter of its own\n    adapter = \"NAME\""
    } else {
        ""
    };
    let default_role = default_role.replace("NAME", name);
    format!(
        "add `--wrapper PROGRAM` or `--command-template COMMAND`, or write in callboard.toml:\n\n    \
         [adapters.{name}]\n    command = [\"your-agent\", \"{{prompt}}\"]\n    \
         report = \"required\"    # without this line the exit code is the report{default_role}"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_last_path_of_a_run_is_searched_for_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("our-agent");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let flags = AgentFlags { command_template: Some("our-agent".to_owned()), ..AgentFlags::default() };
        let profile = flags.profile().unwrap().unwrap();
        let path = |value: &Path| ("PATH".to_owned(), value.to_str().unwrap().to_owned());
        let (good, bad) = (path(dir.path()), path(&dir.path().join("none")));
        let finds =
            |profile: &AgentProfile, env: &[_]| missing_program("a", profile, env, dir.path()).is_none();
        assert!(finds(&profile, &[bad.clone(), good.clone()]));
        assert!(!finds(&profile, &[good.clone(), bad.clone()]));
        let profile = AgentProfile { env: vec![bad], ..profile };
        assert!(finds(&profile, &[good]));
    }
}
