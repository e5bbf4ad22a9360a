//! Extracts the agent's own messages from the JSON lines that agent CLIs print.
//!
//! In such a stream the markers of a report are inside JSON strings: `"text":"<<<RUN_REPORT_JSON\n{\"schema\"…"`. Searching
//! the raw stream finds nothing, or a report full of backslashes. The stream also quotes the agent's prompt and the
//! output of its tools, which includes our own example. Therefore events are decoded, and only messages of the agent
//! itself are kept.

use std::borrow::Cow;

use protocol::report::{MARKER_CLOSE, MARKER_OPEN};
use serde_json::Value;

/// Returns the agent's messages: the text of decoded events, and every line that is not an event, unchanged.
pub(crate) fn agent_messages(stdout: &str) -> Cow<'_, str> {
    if !stdout.lines().any(|line| line.trim_start().starts_with('{')) {
        return Cow::Borrowed(stdout);
    }
    let mut transcript = Transcript { text: String::with_capacity(stdout.len()), open_message: None };
    // A report that is printed as plain text is JSON, too; its lines are not events.
    let mut in_report = false;
    for line in stdout.split_inclusive('\n') {
        match event(line).filter(|_| !in_report) {
            Some(event) => transcript.add(message_text(&event)),
            None => {
                transcript.add(MessageText::Complete(vec![line]));
                in_report |= line.trim_start().starts_with(MARKER_OPEN);
                in_report &= !line.trim_end().ends_with(MARKER_CLOSE);
            }
        }
    }
    Cow::Owned(transcript.text)
}

/// The messages so far.
struct Transcript {
    text: String,
    /// The id of the message that the next event may continue: `Some(None)` if the message has no id, `None` if there is no such
    /// message.
    open_message: Option<Option<String>>,
}

impl Transcript {
    fn add(&mut self, text: MessageText<'_>) {
        match text {
            // An event without text, such as the use of a tool, ends the message if that has no id. A message with an id may
            // continue later.
            MessageText::None if self.open_message == Some(None) => self.end_message(),
            MessageText::None => {}
            MessageText::Chunk { message_id, pieces } => {
                let message_id = Some(message_id.map(str::to_owned));
                if self.open_message != message_id {
                    self.end_message();
                }
                self.text.extend(pieces);
                self.open_message = message_id;
            }
            MessageText::Complete(pieces) => {
                // Each text is a message, and ends with its line.
                for piece in pieces {
                    self.end_message();
                    self.text.push_str(piece);
                    self.open_message = Some(None);
                }
                self.end_message();
            }
        }
    }

    /// Ends the message and its line, because markers must be on lines of their own.
    fn end_message(&mut self) {
        if self.open_message.take().is_some() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// Parses a line as an event: a JSON object with a `type`, in every CLI.
fn event(line: &str) -> Option<Value> {
    let line = line.trim();
    if !line.starts_with('{') {
        return None;
    }
    serde_json::from_str(line).ok().filter(|event: &Value| event["type"].is_string())
}

/// The agent's text in an event.
enum MessageText<'a> {
    None,
    /// Complete texts.
    Complete(Vec<&'a str>),
    /// Pieces of a message that the next event may continue, even in the middle of a marker.
    Chunk {
        message_id: Option<&'a str>,
        pieces: Vec<&'a str>,
    },
}

/// Returns the agent's text in an event of Claude, Codex, opencode, Gemini or goose. Other events have none.
fn message_text(event: &Value) -> MessageText<'_> {
    match event["type"].as_str().unwrap_or_default() {
        // Claude. Messages of a sub-agent to the agent are skipped.
        "assistant" if event["parent_tool_use_id"].is_null() => {
            MessageText::Complete(texts(&event["message"]["content"]))
        }
        "result" => MessageText::Complete(text(&event["result"])),
        // Codex.
        "item.completed" if event["item"]["type"] == "agent_message" => {
            MessageText::Complete(text(&event["item"]["text"]))
        }
        // opencode.
        "text" => MessageText::Complete(text(&event["part"]["text"])),
        // Gemini. It repeats the prompt as a message of role `user`.
        "message" if event["content"].is_string() && event["role"] == "assistant" => {
            let content = text(&event["content"]);
            if event["delta"] == true {
                MessageText::Chunk { message_id: None, pieces: content }
            } else {
                MessageText::Complete(content)
            }
        }
        // goose sends a message in as many pieces as the model does.
        "message" if event["message"]["role"] == "assistant" => {
            let message = &event["message"];
            match texts(&message["content"]) {
                pieces if pieces.is_empty() => MessageText::None,
                pieces => MessageText::Chunk { message_id: message["id"].as_str(), pieces },
            }
        }
        _ => MessageText::None,
    }
}

fn text(value: &Value) -> Vec<&str> {
    value.as_str().into_iter().collect()
}

/// Returns the text blocks of a message.
fn texts(content: &Value) -> Vec<&str> {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    blocks.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use protocol::report::between_markers;
    use serde_json::json;

    use super::*;

    /// Contains a quote, a newline and a backslash, so that only a decoded report is equal to it.
    const REPORT: &str = "{\"logs\": [\"said \\\"no\\\"\"],\n\"gate_failure\": true}";

    /// A message of the agent with its report between the markers.
    fn said() -> String {
        format!("Here it is.\n{MARKER_OPEN}\n{REPORT}\n{MARKER_CLOSE}\nDone.")
    }

    /// The example in the agent's prompt, which must not be taken for its report.
    fn example() -> String {
        format!("Print this:\n{MARKER_OPEN}\n{{\"example\": true}}\n{MARKER_CLOSE}")
    }

    /// Returns the last report in these events.
    fn last_report(events: &[Value]) -> Option<String> {
        let lines: Vec<_> = events.iter().map(ToString::to_string).collect();
        between_markers(&agent_messages(&lines.join("\n"))).last().map(|block| (*block).to_owned())
    }

    #[test]
    fn a_report_is_found_in_claude_s_assistant_messages_and_result() {
        let init = json!({"type": "system", "subtype": "init", "session_id": "s", "tools": ["Write"]});
        let blocks = json!([{"type": "tool_use", "name": "Read", "input": {"prompt": example()}},
            {"type": "text", "text": said()}]);
        let assistant = json!({"type": "assistant", "parent_tool_use_id": null, "message": {"role": "assistant", "content": blocks}});
        let user = json!({"type": "user", "message": {"role": "user",
            "content": [{"type": "tool_result", "content": example()}, {"type": "text", "text": example()}]}});
        let sub_agent = json!({"type": "assistant", "parent_tool_use_id": "toolu_1",
            "message": {"role": "assistant", "content": [{"type": "text", "text": example()}]}});
        let result = json!({"duration_api_ms": 1, "type": "result", "subtype": "success", "is_error": false, "result": said()});
        assert_eq!(
            last_report(&[init.clone(), assistant, user.clone(), sub_agent.clone()]).as_deref(),
            Some(REPORT)
        );
        assert_eq!(last_report(&[init.clone(), user.clone(), result]).as_deref(), Some(REPORT));
        assert_eq!(last_report(&[init, user, sub_agent]), None);
    }

    #[test]
    fn a_report_is_found_in_codex_agent_messages() {
        let shown = json!({"type": "item.completed",
            "item": {"id": "item_0", "type": "command_execution", "exit_code": 0, "aggregated_output": example()}});
        let begun = json!({"type": "item.started", "item": {"type": "agent_message", "text": example()}});
        let message = json!({"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": said()}});
        let thread = json!({"type": "thread.started", "thread_id": "t"});
        let end = json!({"type": "turn.completed", "usage": {"input_tokens": 1}});
        assert_eq!(
            last_report(&[thread.clone(), message, shown.clone(), end.clone()]).as_deref(),
            Some(REPORT)
        );
        let thought = json!({"type": "item.completed", "item": {"type": "reasoning", "text": example()}});
        assert_eq!(last_report(&[thread, shown, begun, thought, end]), None);
    }

    #[test]
    fn a_report_is_found_in_gemini_deltas_that_break_anywhere() {
        let prompt = json!({"type": "message", "role": "user", "content": example()});
        let (said, tool) = (said(), json!({"type": "tool_result", "status": "success", "output": example()}));
        let result = json!({"type": "result", "status": "success", "stats": {"input_tokens": 1}});
        for size in [1, 7, said.len()] {
            let letters: Vec<char> = said.chars().collect();
            let piece = |piece: &[char]| json!({"type": "message", "role": "assistant", "content": piece.iter().collect::<String>(), "delta": true});
            let mut events = vec![prompt.clone(), tool.clone()];
            events.extend(letters.chunks(size).map(piece));
            events.push(result.clone());
            assert_eq!(last_report(&events).as_deref(), Some(REPORT), "in pieces of {size}");
        }
        assert_eq!(last_report(&[prompt, tool, result]), None);
    }

    #[test]
    fn a_message_starts_on_a_new_line() {
        let (said, report) =
            said().split_once('\n').map(|(said, report)| (said.to_owned(), report.to_owned())).unwrap();
        let gemini =
            |text: &str| json!({"type": "message", "role": "assistant", "content": text, "delta": true});
        let tool = json!({"type": "tool_use", "tool_name": "read_file"});
        assert_eq!(last_report(&[gemini(&said), tool.clone(), gemini(&report)]).as_deref(), Some(REPORT));
        let goose = |id: &str, text: &str| json!({"type": "message", "message": {"id": id, "role": "assistant", "content": [{"type": "text", "text": text}]}});
        let (first, second) = report.split_at(5);
        let events = [goose("1", &said), goose("2", first), tool, goose("2", second)];
        assert_eq!(last_report(&events).as_deref(), Some(REPORT));
    }

    #[test]
    fn a_report_is_found_in_opencode_text_parts() {
        let tool = json!({"type": "tool_use", "sessionID": "s", "part": {"state": {"status": "completed", "output": example()}}});
        let text = json!({"type": "text", "sessionID": "s", "part": {"type": "text", "text": said()}});
        let end = json!({"type": "step_finish", "sessionID": "s", "part": {"reason": "stop", "cost": 0}});
        assert_eq!(last_report(&[tool.clone(), text, end.clone()]).as_deref(), Some(REPORT));
        assert_eq!(last_report(&[tool, end]), None);
    }

    #[test]
    fn a_report_is_found_in_goose_message_pieces() {
        let message = |role: &str, text: &str| json!({"type": "message", "message": {"id": "m", "role": role, "content": [{"type": "text", "text": text}]}});
        let tool = json!({"type": "message", "message": {"role": "user",
            "content": [{"type": "toolResponse", "id": "1", "toolResult": {"value": [{"type": "text", "text": example()}]}}]}});
        let said = said();
        let (first, second) = said.split_at(said.find(REPORT).unwrap() + 9);
        let end = json!({"type": "complete", "input_tokens": 1});
        let events = [
            message("user", &example()),
            message("assistant", first),
            message("assistant", second),
            tool,
            end,
        ];
        assert_eq!(last_report(&events).as_deref(), Some(REPORT));
        assert_eq!(last_report(&events[..1]), None);
    }

    #[test]
    fn escaped_markers_are_found() {
        let line = json!({"type": "result", "result": said()}).to_string();
        let line = line.replace('<', "\\u003c").replace('>', "\\u003e");
        assert!(!line.contains(MARKER_OPEN) && !line.contains(MARKER_CLOSE));
        assert_eq!(between_markers(&agent_messages(&line)), [REPORT]);
    }

    #[test]
    fn plain_output_is_not_changed() {
        let plain = format!(
            "thinking\r\n{{ 1\n{MARKER_OPEN}\n{{\"type\":\"text\",\"status\":\"ok\"}}\n{MARKER_CLOSE}\nbye\n"
        );
        assert_eq!(agent_messages(&plain), plain);
        assert!(matches!(agent_messages("no braces at all\n{MARKER}"), Cow::Owned(_)));
        assert!(matches!(agent_messages("no line begins with one {\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn events_and_plain_lines_may_be_mixed() {
        let chunk =
            json!({"type": "message", "role": "assistant", "content": "half a sentence", "delta": true});
        let text = format!("warning: old terminal\n{chunk}\n{MARKER_OPEN}\n{REPORT}\n{MARKER_CLOSE}\n");
        assert_eq!(between_markers(&agent_messages(&text)), [REPORT]);
        assert!(agent_messages(&text).contains("half a sentence\n<<<"));
    }
}
