//! `[roles.NAME]` and `[roles.PROTOCOL.NAME]`: which adapter and model work on a step.

use std::collections::BTreeMap;

use runner::{Role, RoleName};
use toml::de::DeTable;

use super::adapter::pass_env;
use super::file::{Reader, Value};

const KEYS: [&str; 5] = ["adapter", "model", "timeout", "pass_env", "args"];

/// Reads `[roles]`. `[roles.NAME]` is a role; if NAME is a protocol, it is a table of roles that count for that protocol only.
pub(super) fn read(reader: &mut Reader<'_>, value: &Value<'_>) -> BTreeMap<RoleName, Role> {
    let mut roles = BTreeMap::new();
    for (name, value) in reader.table("roles", value).into_iter().flatten() {
        let name = name.get_ref().to_string();
        let Some(table) = reader.table(&format!("roles.{name}"), value) else { continue };
        if crate::program().protocols.find(&name).is_some() {
            for (role, value) in table {
                let role = role.get_ref().to_string();
                let key = format!("roles.{name}.{role}");
                let Some(table) = reader.table(&key, value) else { continue };
                let settings = settings(reader, &key, table);
                roles.insert(RoleName { protocol: Some(name.clone()), name: role }, settings);
            }
        } else {
            let settings = settings(reader, &format!("roles.{name}"), table);
            roles.insert(RoleName { protocol: None, name }, settings);
        }
    }
    roles
}

fn settings(reader: &mut Reader<'_>, key: &str, table: &DeTable<'_>) -> Role {
    reader.check_keys(&format!("{key}."), table, &KEYS);
    let mut text = |key| table.get(key).and_then(|value| reader.string(key, value));
    let (adapter, model) = (text("adapter"), text("model"));
    Role {
        adapter,
        model,
        timeout: table.get("timeout").and_then(|value| reader.duration("timeout", value)),
        pass_env: table.get("pass_env").map(|value| pass_env(reader, value)),
        args: table.get("args").and_then(|value| reader.strings("args", value)),
    }
}
