//! Any template over a conversation: it is rendered within limits or refused, and every part of the
//! text has an origin.

use ggmill_template::{Conversation, Json, Limits, Moment, RenderOptions, Template};

use crate::allocations::bounded;

/// What one rendering may hold.
const MEMORY: usize = 1 << 20;

/// The conversation: with what templates look for, and text in the form of a marker.
const MESSAGES: &str = r#"[{"role": "system", "content": "Be <|x|> brief.\n"},
{"role": "user", "content": [{"type": "text", "text": "a é 漢 🙂 "}]},
{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f",
"arguments": {"a": [1, 2.5, true, null, "q\"'"], "b": {}}}}]},
{"role": "tool", "name": "f", "content": "{\"x\": 1}"}, {"role": "user", "content": "A b C"}]"#;

/// The bytes are a template.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The syntax tree has some hundred bytes for each byte of the template.
    bounded(data.len(), (8 << 20) + 4 * (1 << 20), 4096, || {
        let Ok(template) = Template::parse(text) else { return };
        let messages = Json::parse(MESSAGES).expect("JSON");
        let tools = Json::parse(
            r#"[{"type": "function", "function": {"name": "f", "parameters":
            {"properties": {"a": {"type": ["string", "null"]}}}}}]"#,
        );
        let conversation = Conversation::new(messages)
            .with_tools(tools.expect("JSON"))
            .with_generation_prompt(true)
            .with_variable("enable_thinking", Json::Bool(false));
        let options = RenderOptions::new()
            .with_limits(Limits::new().with_steps(200_000).with_memory(MEMORY))
            .with_now(Moment::from_unix(1_766_000_000))
            .with_token("bos_token", "<s>");
        let Ok(rendered) = template.render(&conversation, &options) else { return };
        assert!(rendered.text().len() <= MEMORY, "the text is within the limit");
        let mut done = 0;
        for segment in rendered.segments() {
            assert_eq!(segment.range.start, done, "segments have no gaps");
            assert!(
                segment.range.end > done && rendered.text().is_char_boundary(segment.range.end)
            );
            assert_eq!(segment.field.is_some(), rendered.field(segment).is_some());
            done = segment.range.end;
        }
        assert_eq!(done, rendered.text().len(), "segments are the whole text");
        let again = template.render(&conversation, &options).expect("as before");
        assert_eq!(again.text(), rendered.text(), "the same every time");
    });
}
