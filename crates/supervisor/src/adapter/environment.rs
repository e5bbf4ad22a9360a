//! The environment of an agent: inherited variables, then those of the configuration, of git and of a data loop, then
//! Callboard's. The later one wins, so a nested engine cannot pass its own attempt's identity to the agents it starts.

use std::ffi::{OsStr, OsString};

use indexmap::IndexMap;
use protocol::brief::StateLocation;
use serde::{Deserialize, Serialize};

use super::assignment::Assignment;
use crate::env_string::EnvString;

/// How much of the engine's environment an agent inherits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvPolicy {
    /// All of it.
    InheritAll,
    /// What most programs need, and the given names.
    AllowList(Vec<String>),
}

/// Enough for a program to find other programs, the user's files, language, terminal and network, and the name of this
/// host. No secrets are meant to be in them; the address of a proxy may have a password.
const ALLOWED: [&str; 24] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "TZ",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NO_COLOR",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "CALLBOARD_HOST",
];

const ALLOWED_PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// The names of variables about data loops and loop-backs begin with this.
const LOOP: &str = "LOOP_";

/// How long name and value of a variable can be together: 128 KiB, less the equals sign and the terminating zero.
const MAX_VARIABLE: usize = 128 * 1024 - 2;

impl EnvPolicy {
    fn allows(&self, name: &OsStr) -> bool {
        match self {
            Self::InheritAll => true,
            Self::AllowList(extra) => name.to_str().is_some_and(|name| {
                ALLOWED.contains(&name)
                    || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                    || extra.iter().any(|known| known == name)
            }),
        }
    }
}

/// Returns the complete environment for an assignment. Inherited variables need not be UTF-8.
pub fn environment(
    policy: &EnvPolicy,
    engine_env: impl IntoIterator<Item = (OsString, OsString)>,
    configured: &[(String, String)],
    assignment: &Assignment,
) -> Vec<(EnvString, EnvString)> {
    let engine_env: Vec<_> = engine_env.into_iter().collect();
    let is_nested = engine_env.iter().any(|(name, _)| name == "CALLBOARD_ATTEMPT");
    let inherited = engine_env
        .into_iter()
        .filter(|(name, _)| policy.allows(name) && !(is_nested && is_optional_variable(name)));
    let inherited = inherited.map(|(name, value)| (EnvString::from(name), EnvString::from(value)));
    let ours = basics(assignment).chain(state(assignment));
    let ours = ours.chain(upstream(assignment)).chain(answers(assignment)).chain(loop_back(assignment));
    // The kernel does not start a program with a longer variable. `context.json` has the omitted values, the prompt an item.
    let fits = |(name, value): &(String, String)| name.len() + value.len() <= MAX_VARIABLE;
    let configured = configured.iter().filter(|variable| !variable.0.starts_with(LOOP) || fits(variable));
    let explicit = configured.cloned().chain(ours.filter(fits));
    let explicit = explicit.map(|(name, value)| (name.into(), value.into()));
    let mut all: IndexMap<EnvString, EnvString> = inherited.chain(explicit).collect();
    let number = all.get(&EnvString::from("ISSUE_NUMBER")).and_then(|number| number.as_os_str().to_str());
    if let Some(number) = number.filter(|number| !number.is_empty()) {
        let issue = issue(assignment, number).map(|(name, value)| (name.to_owned().into(), value.into()));
        all.extend(issue);
    }
    all.into_iter().collect()
}

/// Whether only some attempts have this variable. An engine inside an attempt does not pass such a variable on.
fn is_optional_variable(name: &OsStr) -> bool {
    const SUFFIXES: [&str; 4] = ["_ARTIFACTS", "_APPROVED", "_ANSWER", "_MANUAL_RESULT_PATH"];
    let is_of_needed_step = |name: &str| {
        let is_artifact =
            name.rsplit_once("_ARTIFACT_").is_some_and(|(_, number)| number.parse::<u32>().is_ok());
        name.starts_with("DEP_") && (is_artifact || SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
    };
    name.to_str().is_some_and(|name| {
        name == "STEP_MODEL"
            || name.starts_with(LOOP)
            || name.starts_with("CALLBOARD_STATE_")
            || is_of_needed_step(name)
    })
}

/// The path of the issue's text: an artifact `gh_issue_*.md` of a needed step, or else the file that this step writes.
fn issue(assignment: &Assignment, number: &str) -> [(&'static str, String); 3] {
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let is_issue = |path: &&String| {
        let name = file_name(path);
        name.starts_with("gh_issue_") && name.ends_with(".md")
    };
    let mut artifacts = assignment.dependencies.iter().flat_map(|dependency| &dependency.artifacts);
    let own_path = || format!("{}/gh_issue_{number}.md", assignment.artifacts_dir);
    let path = artifacts.find(is_issue).cloned().unwrap_or_else(own_path);
    let (name, length) = (file_name(&path), path.len());
    let directory = path[..length - name.len()].trim_end_matches('/').to_owned();
    [("ISSUE_MARKDOWN_PATH", path), ("ISSUE_MARKDOWN_DIR", directory), ("ISSUE_MARKDOWN_FILENAME", name)]
}

/// The variables that every attempt has.
fn basics(assignment: &Assignment) -> impl Iterator<Item = (String, String)> {
    let Assignment { run, attempt, agent, prompt_path, report_path, repo, .. } = assignment;
    let basics = [
        ("RUN_ID", run.to_string()),
        ("STEP_ID", assignment.step().to_owned()),
        ("AGENT_ID", agent.clone()),
        ("REPO_DIR", repo.clone()),
        ("PROMPT_PATH", prompt_path.clone()),
        ("REPORT_PATH", report_path.clone()),
        ("MANUAL_RESULT_PATH", assignment.answer_path().to_owned()),
        ("STEP_ATTEMPT", assignment.counted_attempt.to_string()),
        ("STEP_ITERATION", assignment.iteration.to_string()),
        ("ARTIFACTS_DIR", assignment.artifacts_dir.clone()),
        ("WORKFLOW_NAME", assignment.workflow.clone()),
        ("CALLBOARD_RUN", run.to_string()),
        ("CALLBOARD_STEP", attempt.step.to_string()),
        ("CALLBOARD_ATTEMPT", attempt.to_string()),
        ("CALLBOARD_ROOT", assignment.repo.clone()),
        ("CALLBOARD_STORE", assignment.store.clone()),
    ];
    let model = assignment.model.clone().map(|model| ("STEP_MODEL", model));
    basics.into_iter().chain(model).map(|(name, value)| (name.to_owned(), value))
}

/// Where the run's document is stored.
fn state(assignment: &Assignment) -> impl Iterator<Item = (String, String)> {
    assignment.state.iter().flat_map(|StateLocation { bucket, key, document }| {
        let variables = [
            ("CALLBOARD_STATE_BUCKET", bucket),
            ("CALLBOARD_STATE_KEY", key),
            ("CALLBOARD_STATE_ID", document),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.clone()))
    })
}

/// The gates that caused a loop-back, and the paths of their reports. A gate that a person or a check decided has no report:
/// what they say is in the prompt.
fn loop_back(assignment: &Assignment) -> impl Iterator<Item = (String, String)> {
    let (from, reports): (Vec<&str>, Vec<&str>) =
        assignment.loop_back.iter().map(|(from, report)| (from.as_str(), report.as_str())).unzip();
    let reports: Vec<_> = reports.into_iter().filter(|report| !report.is_empty()).collect();
    let variables = [("LOOP_BACK_FROM", from.join(",")), ("LOOP_BACK_REPORT", reports.join(","))];
    variables.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value))
}

/// The artifacts of the needed steps.
fn upstream(assignment: &Assignment) -> impl Iterator<Item = (String, String)> {
    assignment.dependencies.iter().flat_map(|dependency| {
        let base = format!("DEP_{}_ARTIFACT", variable_name(&dependency.step));
        let each = dependency.artifacts.iter().enumerate();
        let mut variables: Vec<_> = each.map(|(i, path)| (format!("{base}_{i}"), path.clone())).collect();
        variables.push((format!("{base}S"), dependency.artifacts.join(",")));
        variables
    })
}

/// What people answered to the needed steps.
fn answers(assignment: &Assignment) -> impl Iterator<Item = (String, String)> {
    assignment.answers.iter().flat_map(|answer| {
        let base = format!("DEP_{}", variable_name(&answer.step));
        [
            (format!("{base}_APPROVED"), answer.approved.to_string()),
            (format!("{base}_ANSWER"), answer.text.clone().unwrap_or_default()),
            (format!("{base}_MANUAL_RESULT_PATH"), answer.path.clone()),
        ]
    })
}

fn variable_name(step: &str) -> String {
    step.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::ffi::OsStringExt as _;

    use super::super::assignment::{Dependency, DependencyAnswer, example};
    use super::*;

    fn built_environment(
        policy: &EnvPolicy,
        configured: &[(&str, &str)],
        assignment: &Assignment,
    ) -> BTreeMap<String, String> {
        let caller =
            ["PATH", "LC_TIME", "XDG_RUNTIME_DIR", "SECRET_KEY", "NAMED", "RUN_ID", "CALLBOARD_ATTEMPT"];
        let caller = caller.map(|name| (OsString::from(name), OsString::from("caller")));
        let configured: Vec<_> = configured.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let text = |text: EnvString| text.as_os_str().to_str().unwrap().to_owned();
        let all = environment(policy, caller, &configured, assignment);
        all.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn the_issue_text_is_an_artifact_of_a_needed_step_or_a_file_of_this_step() {
        let variables = |dependencies: Vec<Dependency>| {
            let assignment = Assignment { dependencies, artifacts_dir: "/a".to_owned(), ..example() };
            let env =
                built_environment(&EnvPolicy::AllowList(Vec::new()), &[("ISSUE_NUMBER", "42")], &assignment);
            ["PATH", "DIR", "FILENAME"].map(|name| env[&format!("ISSUE_MARKDOWN_{name}")].clone())
        };
        assert_eq!(variables(Vec::new()), ["/a/gh_issue_42.md", "/a", "gh_issue_42.md"]);
        let fetched = Dependency { step: "fetch".to_owned(), artifacts: vec!["/b/gh_issue_7.md".to_owned()] };
        assert_eq!(variables(vec![fetched]), ["/b/gh_issue_7.md", "/b", "gh_issue_7.md"]);
    }

    /// Regression: a large item of a data loop stopped the kernel from starting the agent.
    #[test]
    fn an_item_that_is_too_long_for_a_variable_is_left_out() {
        let policy = EnvPolicy::AllowList(Vec::new());
        let variables = |length: usize| {
            let item = "x".repeat(length);
            built_environment(&policy, &[("LOOP_ITEM", &item), ("LOOP_INDEX", "0")], &example())
        };
        let longest = MAX_VARIABLE - "LOOP_ITEM".len();
        assert_eq!(variables(longest)["LOOP_ITEM"].len(), longest);
        assert!(!variables(longest + 1).contains_key("LOOP_ITEM"));
        assert_eq!(variables(longest + 1)["LOOP_INDEX"], "0");
    }

    #[test]
    fn a_variable_that_is_not_utf8_is_inherited_unchanged() {
        let odd = OsString::from_vec(vec![b'x', 0xff]);
        let caller = [("LC_ODD".into(), odd.clone()), (odd.clone(), "value".into())];
        let passed = |policy: &EnvPolicy| {
            let all = environment(policy, caller.clone(), &[], &example());
            caller.clone().map(|(name, value)| all.contains(&(name.into(), value.into())))
        };
        assert_eq!(passed(&EnvPolicy::InheritAll), [true, true]);
        assert_eq!(passed(&EnvPolicy::AllowList(Vec::new())), [true, false], "the names of a list are UTF-8");
    }

    #[test]
    fn the_allow_list_withholds_secrets_unless_they_are_named() {
        let env = built_environment(&EnvPolicy::AllowList(vec!["NAMED".to_owned()]), &[], &example());
        for name in ["PATH", "LC_TIME", "XDG_RUNTIME_DIR", "NAMED"] {
            assert_eq!(env[name], "caller", "{name}");
        }
        assert!(!env.contains_key("SECRET_KEY"));
        assert_eq!(built_environment(&EnvPolicy::InheritAll, &[], &example())["SECRET_KEY"], "caller");
    }

    #[test]
    fn our_variables_win_over_configured_ones_and_those_over_inherited_ones() {
        let set = [("NAMED", "set"), ("STEP_ID", "set"), ("OWN", "a b")];
        let env = built_environment(&EnvPolicy::InheritAll, &set, &example());
        assert_eq!(
            (env["NAMED"].as_str(), env["OWN"].as_str(), env["STEP_ID"].as_str()),
            ("set", "a b", "code-review")
        );
        assert_eq!((env["RUN_ID"].as_str(), env["CALLBOARD_ATTEMPT"].as_str()), ("f8c1", "code-review#2.1"));
        assert_eq!((env["MANUAL_RESULT_PATH"].as_str(), env["STEP_ATTEMPT"].as_str()), ("", "3"));
        assert!(!env.contains_key("STEP_MODEL"));
    }

    #[test]
    fn an_engine_in_an_attempt_does_not_pass_on_the_optional_variables_of_that_attempt() {
        let of_the_attempt = [
            "STEP_MODEL",
            "LOOP_BACK_FROM",
            "CALLBOARD_STATE_KEY",
            "DEP_PLAN_ARTIFACT_0",
            "DEP_PLAN_ARTIFACTS",
            "DEP_SIGN_OFF_ANSWER",
        ];
        let inherited = |attempt: Option<&str>| {
            let names = of_the_attempt.into_iter().chain(["DEP_VERSION"]).chain(attempt);
            let caller = names.map(|name| (OsString::from(name), OsString::from("outer")));
            let all = environment(&EnvPolicy::InheritAll, caller, &[], &example());
            let is_outer = |value: &EnvString| value.as_os_str() == "outer";
            all.into_iter().filter(|(_, value)| is_outer(value)).count()
        };
        assert_eq!(inherited(Some("CALLBOARD_ATTEMPT")), 1, "only `DEP_VERSION`, which is not ours");
        assert_eq!(inherited(None), 7, "the user has set them");
    }

    #[test]
    fn the_answers_to_needed_steps_have_variables() {
        let mut assignment = example();
        assignment.answers = vec![DependencyAnswer {
            step: "sign-off".to_owned(),
            approved: true,
            text: Some("ship it".to_owned()),
            path: "/a/sign-off.json".to_owned(),
        }];
        let env = built_environment(&EnvPolicy::AllowList(Vec::new()), &[], &assignment);
        assert_eq!(env["MANUAL_RESULT_PATH"], "/a/sign-off.json");
        assert_eq!(env["DEP_SIGN_OFF_MANUAL_RESULT_PATH"], "/a/sign-off.json");
        assert_eq!(
            (env["DEP_SIGN_OFF_APPROVED"].as_str(), env["DEP_SIGN_OFF_ANSWER"].as_str()),
            ("true", "ship it")
        );
    }

    #[test]
    fn the_artifacts_of_needed_steps_have_variables() {
        let mut assignment = example();
        assignment.model = Some("large".to_owned());
        let artifacts = vec!["/a/PLAN.md".to_owned(), "/a/b.md".to_owned()];
        assignment.dependencies = vec![
            Dependency { step: "plan-it.now".to_owned(), artifacts },
            Dependency { step: "idle".to_owned(), artifacts: Vec::new() },
        ];
        let env = built_environment(&EnvPolicy::AllowList(Vec::new()), &[], &assignment);
        assert_eq!(env["DEP_PLAN_IT_NOW_ARTIFACT_0"], "/a/PLAN.md");
        assert_eq!(env["DEP_PLAN_IT_NOW_ARTIFACT_1"], "/a/b.md");
        assert_eq!(env["DEP_PLAN_IT_NOW_ARTIFACTS"], "/a/PLAN.md,/a/b.md");
        assert_eq!(env["DEP_IDLE_ARTIFACTS"], "");
        assert_eq!(env["STEP_MODEL"], "large");
    }
}
