//! Removes from a transcript what differs from run to run.

/// Replaces times by `[WHEN]`, durations by `[TIME]`, long hexadecimal names by `[HEX]`, the number in `pid 12`,
/// `engine 12` and `process 12` by `[PID]`, and the host's name by `[HOST]`.
pub fn redact(text: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let at_word = out.chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
        let found = at_word.then(|| matched(rest, &out, host.trim())).flatten();
        let (length, replacement) = found.unwrap_or((first.len_utf8(), ""));
        out.push_str(if replacement.is_empty() { &rest[..length] } else { replacement });
        rest = &rest[length..];
    }
    out
}

/// Returns the length and the replacement of the prefix of `rest`, if it is to be replaced.
fn matched(rest: &str, before: &str, host: &str) -> Option<(usize, &'static str)> {
    let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let time = rest.find(|c: char| !(c.is_ascii_digit() || "-:.TZ".contains(c))).unwrap_or(rest.len());
    if time >= 20 && rest[..time].contains('T') && rest[..time].ends_with('Z') {
        return Some((time, "[WHEN]"));
    }
    if word >= 32 && rest[..word].bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some((word, "[HEX]"));
    }
    if digits > 0 && ["pid ", "engine ", "process "].iter().any(|label| before.ends_with(label)) {
        return Some((digits, "[PID]"));
    }
    if !host.is_empty() && rest.starts_with(host) && !rest[host.len()..].starts_with(char::is_alphanumeric) {
        return Some((host.len(), "[HOST]"));
    }
    duration(rest, digits)
}

/// Matches `0.1 s`, `12 s`, `2 min 05 s`.
fn duration(rest: &str, digits: usize) -> Option<(usize, &'static str)> {
    if digits == 0 {
        return None;
    }
    let after = &rest[digits..];
    let fraction = after
        .strip_prefix('.')
        .map_or(0, |tail| 1 + tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len()));
    let unit = &after[fraction..];
    if let Some(seconds) = unit.strip_prefix(" min ") {
        let end = seconds.find(" s")?;
        return Some((digits + fraction + 5 + end + 2, "[TIME]"));
    }
    let ends = unit.strip_prefix(" s").is_some_and(|tail| !tail.starts_with(char::is_alphanumeric));
    ends.then_some((digits + fraction + 2, "[TIME]"))
}
