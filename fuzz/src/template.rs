//! Any template over a conversation is rendered within limits or refused, and every part of the
//! text has an origin. The bytes are also used as a file with templates, and as a conversation.

use ggmill_core::{Builder, Model};
use ggmill_template::{
    Conversation, Json, Limits, Moment, RenderOptions, Template, TemplateFile, accesses,
    model_templates,
};

use crate::allocations::bounded;

/// Memory limit of one rendering.
const MEMORY: usize = 1 << 20;

/// The conversation: with the fields that templates use, and text in the form of a marker.
const MESSAGES: &str = r#"[{"role": "system", "content": "Be <|x|> brief.\n"},
{"role": "user", "content": [{"type": "text", "text": "a é 漢 🙂 "}]},
{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f",
"arguments": {"a": [1, 2.5, true, null, "q\"'"], "b": {}}}}]},
{"role": "tool", "name": "f", "content": "{\"x\": 1}"}, {"role": "user", "content": "A b C"}]"#;

/// Uses the bytes as a template.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The syntax tree has some hundred bytes per byte of the template.
    bounded(data.len(), (8 << 20) + 4 * (1 << 20), 4096, || {
        accesses(text);
        document(text);
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

/// Uses the bytes as a file with templates, and as a conversation.
fn document(text: &str) {
    if let Ok(file) = TemplateFile::parse(text) {
        assert!(!file.templates.is_empty(), "there is a template");
        // A name can be longer than a key may be.
        let Ok(plan) = Builder::new().metadata(file.to_metadata()).plan() else { return };
        let model = Model::open(plan.header().to_vec()).expect("a model");
        let mut expected = file.templates.clone();
        expected.sort_by_key(|template| template.name.is_some());
        assert_eq!(model_templates(&model.metadata()), expected, "a model has the same templates");
    }
    let Ok(json) = Json::parse(text) else { return };
    if let Ok(conversation) = Conversation::from_json(json) {
        let Json::Array(messages) = &conversation.messages else { panic!("an array") };
        assert!(!messages.is_empty(), "there are messages");
        assert!(conversation.unusual_roles().len() <= messages.len());
    }
}
