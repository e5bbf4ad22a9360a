//! What an agent said, out of the JSON lines in which agent CLIs print it.
//!
//! In such a stream the markers of a report stand inside JSON strings: `"text":"<<<RUN_REPORT_JSON\n{\"schema\"…"`. Searched
//! as it is, it yields either nothing or a report full of backslashes. It also quotes what the agent was told and what
//! its tools printed, our own example included. So events are decoded, and only the words of the agent itself are kept.

use std::borrow::Cow;

use protocol::report::{MARKER_CLOSE, MARKER_OPEN};
use serde_json::Value;

/// The agent's words: those of decoded events, and every line that is no event, as it stands.
pub(crate) fn spoken(stdout: &str) -> Cow<'_, str> {
    if !stdout.lines().any(|line| line.trim_start().starts_with('{')) {
        return Cow::Borrowed(stdout);
    }
    let mut transcript = Transcript { text: String::with_capacity(stdout.len()), open: None };
    // A report that is printed plainly is JSON, too; inside it nothing is an event.
    let mut in_report = false;
    for line in stdout.split_inclusive('\n') {
        match event(line).filter(|_| !in_report) {
            Some(event) => transcript.add(words(&event)),
            None => {
                transcript.add(Words::Whole(vec![line]));
                in_report |= line.trim_start().starts_with(MARKER_OPEN);
                in_report &= !line.trim_end().ends_with(MARKER_CLOSE);
            }
        }
    }
    Cow::Owned(transcript.text)
}

/// The words so far.
struct Transcript {
    text: String,
    /// The message that may go on, by its name if it has one.
    open: Option<Option<String>>,
}

impl Transcript {
    fn add(&mut self, words: Words<'_>) {
        match words {
            // Whoever uses a tool has finished speaking; only a named message can be recognised after that.
            Words::None if self.open == Some(None) => self.end_message(),
            Words::None => {}
            Words::Chunk { message, pieces } => {
                let message = Some(message.map(str::to_owned));
                if self.open != message {
                    self.end_message();
                }
                self.text.extend(pieces);
                self.open = message;
            }
            Words::Whole(pieces) => {
                for piece in pieces {
                    self.end_message();
                    self.text.push_str(piece);
                    self.open = Some(None);
                }
                self.end_message();
            }
        }
    }

    /// Markers stand on lines of their own: what is said next must not go on in the same one.
    fn end_message(&mut self) {
        if self.open.take().is_some() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// A line that is a JSON object with a `type`, as every event of every CLI is.
fn event(line: &str) -> Option<Value> {
    let line = line.trim();
    if !line.starts_with('{') {
        return None;
    }
    serde_json::from_str(line).ok().filter(|event: &Value| event["type"].is_string())
}

/// What a line adds to the agent's words.
enum Words<'a> {
    None,
    /// Each a text of its own.
    Whole(Vec<&'a str>),
    /// Pieces of a message that the next event may continue, even in the middle of a marker.
    Chunk {
        message: Option<&'a str>,
        pieces: Vec<&'a str>,
    },
}

/// The words in an event, by the shapes of Claude, Codex, opencode, Gemini and goose. Other events hold none.
fn words(event: &Value) -> Words<'_> {
    match event["type"].as_str().unwrap_or_default() {
        // Claude. What a sub-agent says to the agent is no word to us.
        "assistant" if event["parent_tool_use_id"].is_null() => {
            Words::Whole(texts(&event["message"]["content"]))
        }
        "result" => Words::Whole(text(&event["result"])),
        // Codex.
        "item.completed" if event["item"]["type"] == "agent_message" => {
            Words::Whole(text(&event["item"]["text"]))
        }
        // opencode.
        "text" => Words::Whole(text(&event["part"]["text"])),
        // Gemini. It repeats the prompt as a message of the user.
        "message" if event["content"].is_string() && event["role"] == "assistant" => {
            let content = text(&event["content"]);
            if event["delta"] == true {
                Words::Chunk { message: None, pieces: content }
            } else {
                Words::Whole(content)
            }
        }
        // goose sends a message in as many pieces as the model does.
        "message" if event["message"]["role"] == "assistant" => {
            let message = &event["message"];
            match texts(&message["content"]) {
                pieces if pieces.is_empty() => Words::None,
                pieces => Words::Chunk { message: message["id"].as_str(), pieces },
            }
        }
        _ => Words::None,
    }
}

fn text(value: &Value) -> Vec<&str> {
    value.as_str().into_iter().collect()
}

/// The texts among the blocks of a message.
fn texts(content: &Value) -> Vec<&str> {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    blocks.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use protocol::report::between_markers;
    use serde_json::json;

    use super::*;

    /// With a quote, a line's end and a backslash in it, so that only a decoded report reads like this.
    const REPORT: &str = "{\"logs\": [\"said \\\"no\\\"\"],\n\"gate_failure\": true}";

    fn said() -> String {
        format!("Workspace it is.\n{MARKER_OPEN}\n{REPORT}\n{MARKER_CLOSE}\nDone.")
    }

    /// What agents are shown, and what must never be taken for their own words.
    fn example() -> String {
        format!("Print this:\n{MARKER_OPEN}\n{{\"example\": true}}\n{MARKER_CLOSE}")
    }

    fn found(events: &[Value]) -> Option<String> {
        let lines: Vec<_> = events.iter().map(ToString::to_string).collect();
        between_markers(&spoken(&lines.join("\n"))).map(str::to_owned)
    }

    #[test]
    fn claude_speaks_in_assistant_messages_and_in_its_result() {
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
            found(&[init.clone(), assistant, user.clone(), sub_agent.clone()]).as_deref(),
            Some(REPORT)
        );
        assert_eq!(found(&[init.clone(), user.clone(), result]).as_deref(), Some(REPORT));
        assert_eq!(found(&[init, user, sub_agent]), None);
    }

    #[test]
    fn codex_speaks_in_agent_messages() {
        let shown = json!({"type": "item.completed",
            "item": {"id": "item_0", "type": "command_execution", "exit_code": 0, "aggregated_output": example()}});
        let begun = json!({"type": "item.started", "item": {"type": "agent_message", "text": example()}});
        let message = json!({"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": said()}});
        let thread = json!({"type": "thread.started", "thread_id": "t"});
        let end = json!({"type": "turn.completed", "usage": {"input_tokens": 1}});
        assert_eq!(found(&[thread.clone(), message, shown.clone(), end.clone()]).as_deref(), Some(REPORT));
        let thought = json!({"type": "item.completed", "item": {"type": "reasoning", "text": example()}});
        assert_eq!(found(&[thread, shown, begun, thought, end]), None);
    }

    #[test]
    fn gemini_speaks_in_pieces_that_may_break_anywhere() {
        let prompt = json!({"type": "message", "role": "user", "content": example()});
        let (said, tool) = (said(), json!({"type": "tool_result", "status": "success", "output": example()}));
        let result = json!({"type": "result", "status": "success", "stats": {"input_tokens": 1}});
        for size in [1, 7, said.len()] {
            let letters: Vec<char> = said.chars().collect();
            let piece = |piece: &[char]| json!({"type": "message", "role": "assistant", "content": piece.iter().collect::<String>(), "delta": true});
            let mut events = vec![prompt.clone(), tool.clone()];
            events.extend(letters.chunks(size).map(piece));
            events.push(result.clone());
            assert_eq!(found(&events).as_deref(), Some(REPORT), "in pieces of {size}");
        }
        assert_eq!(found(&[prompt, tool, result]), None);
    }

    #[test]
    fn a_message_begins_on_a_line_of_its_own() {
        let (said, report) =
            said().split_once('\n').map(|(said, report)| (said.to_owned(), report.to_owned())).unwrap();
        let gemini =
            |text: &str| json!({"type": "message", "role": "assistant", "content": text, "delta": true});
        let tool = json!({"type": "tool_use", "tool_name": "read_file"});
        assert_eq!(found(&[gemini(&said), tool.clone(), gemini(&report)]).as_deref(), Some(REPORT));
        let goose = |id: &str, text: &str| json!({"type": "message", "message": {"id": id, "role": "assistant", "content": [{"type": "text", "text": text}]}});
        let (first, second) = report.split_at(5);
        let events = [goose("1", &said), goose("2", first), tool, goose("2", second)];
        assert_eq!(found(&events).as_deref(), Some(REPORT));
    }

    #[test]
    fn opencode_speaks_in_text_parts() {
        let tool = json!({"type": "tool_use", "sessionID": "s", "part": {"state": {"status": "completed", "output": example()}}});
        let text = json!({"type": "text", "sessionID": "s", "part": {"type": "text", "text": said()}});
        let end = json!({"type": "step_finish", "sessionID": "s", "part": {"reason": "stop", "cost": 0}});
        assert_eq!(found(&[tool.clone(), text, end.clone()]).as_deref(), Some(REPORT));
        assert_eq!(found(&[tool, end]), None);
    }

    #[test]
    fn goose_speaks_in_pieces_of_messages() {
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
        assert_eq!(found(&events).as_deref(), Some(REPORT));
        assert_eq!(found(&events[..1]), None);
    }

    #[test]
    fn markers_that_stand_in_the_stream_only_in_escaped_form_are_found() {
        let line = json!({"type": "result", "result": said()}).to_string();
        let line = line.replace('<', "\\u003c").replace('>', "\\u003e");
        assert!(!line.contains(MARKER_OPEN) && !line.contains(MARKER_CLOSE));
        assert_eq!(between_markers(&spoken(&line)), Some(REPORT));
    }

    #[test]
    fn plain_output_stays_as_it_is() {
        let plain = format!(
            "thinking\r\n{{ 1\n{MARKER_OPEN}\n{{\"type\":\"text\",\"status\":\"ok\"}}\n{MARKER_CLOSE}\nbye\n"
        );
        assert_eq!(spoken(&plain), plain);
        assert!(matches!(spoken("no braces at all\n{MARKER}"), Cow::Owned(_)));
        assert!(matches!(spoken("no line begins with one {\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn events_and_plain_lines_may_stand_side_by_side() {
        let chunk =
            json!({"type": "message", "role": "assistant", "content": "half a sentence", "delta": true});
        let text = format!("warning: old terminal\n{chunk}\n{MARKER_OPEN}\n{REPORT}\n{MARKER_CLOSE}\n");
        assert_eq!(between_markers(&spoken(&text)), Some(REPORT));
        assert!(spoken(&text).contains("half a sentence\n<<<"));
    }
}
