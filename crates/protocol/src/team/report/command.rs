//! The command of a success criterion: a program and its arguments, which no shell reads.

/// Returns the first character of a command that only a shell would understand: an unquoted operator, or the start of
/// an expansion, which double quotes do not prevent.
pub(super) fn shell_operator(command: &str) -> Option<char> {
    let (mut quote, mut before) = (None, ' ');
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        let is_escaped = std::mem::replace(&mut before, c) == '\\' && quote != Some('\'');
        match (c, quote) {
            _ if is_escaped => before = ' ',
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if open == c => quote = None,
            ('`', Some('"')) => return Some(c),
            ('$', None | Some('"'))
                if chars.peek().is_some_and(|next| next.is_alphabetic() || "_{(".contains(*next)) =>
            {
                return Some(c);
            }
            (';' | '&' | '|' | '<' | '>' | '`' | '(' | ')', None) => return Some(c),
            _ => {}
        }
    }
    None
}

/// Splits a command into the program and its arguments.
pub(in crate::team) fn argv(command: &str) -> Option<Vec<String>> {
    shell_words::split(command).ok().filter(|argv| !argv.is_empty())
}
