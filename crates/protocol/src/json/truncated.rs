//! Reads the beginning of a JSON text that is cut off or damaged.

use serde_json::{Error, Value};

/// Parses the text before `error`. Cuts it after the last value or opening bracket that is inside of at most `depth` open
/// brackets, then closes those that are still open. A member of the root has depth 1. Returns `None` if there is no place to
/// cut.
pub(crate) fn parse_prefix(text: &str, error: &Error, depth: usize) -> Option<Value> {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let readable = text.get(..before + error.column().saturating_sub(1)).filter(|_| !error.is_eof());
    let readable = readable.unwrap_or(text);
    let (mut closers, mut cut) = (Vec::new(), None);
    let (mut quoted, mut escaped) = (false, false);
    for (position, byte) in readable.bytes().enumerate() {
        let end = match byte {
            _ if escaped => {
                escaped = false;
                continue;
            }
            b'\\' if quoted => {
                escaped = true;
                continue;
            }
            b'"' => {
                quoted = !quoted;
                continue;
            }
            b'{' | b'[' if !quoted => {
                closers.push(if byte == b'{' { '}' } else { ']' });
                position + 1
            }
            b'}' | b']' if !quoted => {
                closers.pop();
                position + 1
            }
            b',' if !quoted => position,
            _ => continue,
        };
        if closers.len() <= depth {
            cut = Some((end, closers.clone()));
        }
    }
    let (end, closers) = cut?;
    let closed: String = readable[..end].chars().chain(closers.into_iter().rev()).collect();
    serde_json::from_str(&closed).ok()
}
