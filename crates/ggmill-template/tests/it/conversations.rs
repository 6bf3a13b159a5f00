//! Conversations as JSON documents; errors name the path and the found value.

use ggmill_template::{Conversation, Json, RenderOptions, Template};

fn read(document: &str) -> Result<Conversation, String> {
    let document = Json::parse(document).map_err(|error| error.to_string())?;
    Conversation::from_json(document).map_err(|error| error.to_string())
}

#[test]
fn documents_are_parsed() {
    let messages = r#"[{"role": "user", "content": "Hello"}]"#;
    let expected = Conversation::of([("user", "Hello")]);
    assert_eq!(read(messages), Ok(expected.clone()));
    assert_eq!(read(&format!(r#"{{"messages": {messages}}}"#)), Ok(expected.clone()));
    let all = format!(
        r#"{{"x": 1, "messages": {messages}, "tools": [], "documents": [2], "y": null,
        "add_generation_prompt": true}}"#
    );
    let expected = expected
        .with_tools(Json::Array(Vec::new()))
        .with_documents(Json::Array(vec![Json::Int(2)]))
        .with_generation_prompt(true)
        .with_variable("x", Json::Int(1))
        .with_variable("y", Json::Null);
    assert_eq!(read(&all), Ok(expected));
    let without = read(&format!(r#"{{"messages": {messages}, "tools": null}}"#)).unwrap();
    assert_eq!(without.tools, None);
    // A tool call can lack content.
    assert!(read(r#"[{"role": "assistant", "tool_calls": []}]"#).is_ok());
}

#[test]
fn other_documents_are_refused() {
    for (document, expected) in [
        (
            r#"{"text": "a", "label": 1}"#,
            "expected an array of messages, or an object with \"messages\", found an object with \
             \"text\", \"label\"",
        ),
        (
            "{}",
            "expected an array of messages, or an object with \"messages\", found an empty object",
        ),
        (
            r#"{"messages": "Hello"}"#,
            "expected an array of messages, or an object with \"messages\", found \"Hello\"",
        ),
        ("7", "expected an array of messages, or an object with \"messages\", found 7"),
        ("[]", "expected messages, found an empty array"),
        (r#"{"messages": []}"#, "expected messages, found an empty array"),
        ("[1]", "messages[0]: expected an object with role and content, found 1"),
        (
            r#"[{"role": "user", "content": "a"}, {"content": "b"}]"#,
            "messages[1] has no role, expected text such as \"user\"",
        ),
        (
            r#"[{"role": 1, "content": "a"}]"#,
            "messages[0].role: expected text such as \"user\", found 1",
        ),
        (
            r#"[{"role": "", "content": "a"}]"#,
            "messages[0].role: expected text such as \"user\", found \"\"",
        ),
        (
            r#"{"messages": [{"role": "user"}], "tools": {}}"#,
            "tools: expected an array, found an object",
        ),
        (
            r#"{"messages": [{"role": "user"}], "documents": "x"}"#,
            "documents: expected an array, found \"x\"",
        ),
        (
            r#"{"messages": [{"role": "user"}], "add_generation_prompt": 1}"#,
            "add_generation_prompt: expected true or false, found 1",
        ),
    ] {
        assert_eq!(read(document), Err(expected.to_owned()), "{document}");
    }
}

#[test]
fn variables_of_options_are_trusted() {
    let template = Template::parse("{{ eos_token }}{{ n + 1 }}{{ messages[0].content }}").unwrap();
    let options = RenderOptions::new()
        .with_token("eos_token", "</s>")
        .with_variable("eos_token", Json::from("<|end|>"))
        .with_variable("n", Json::Int(1))
        .with_usual_tokens();
    let conversation = Conversation::of([("user", "a")]);
    let rendered = template.render(&conversation, &options).unwrap();
    assert_eq!(rendered.text(), "<|end|>2a");
    assert_eq!(rendered.trusted(), std::slice::from_ref(&(0..8)));
    // Variables of the conversation take precedence.
    let conversation = conversation.with_variable("n", Json::Int(5));
    assert_eq!(template.render(&conversation, &options).unwrap().text(), "<|end|>6a");
}

#[test]
fn usual_tokens_are_only_defaults() {
    let options = RenderOptions::new().with_token("bos_token", "<begin>").with_usual_tokens();
    let template = Template::parse("{{ bos_token }}{{ eos_token }}{{ cls_token }}").unwrap();
    let rendered = template.render(&Conversation::of([("user", "a")]), &options).unwrap();
    assert_eq!(rendered.text(), "<begin></s>");
}
