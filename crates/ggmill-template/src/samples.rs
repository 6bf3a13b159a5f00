//! Conversations that templates are tried on.

use crate::conversation::Conversation;
use crate::json::Json;

/// What the parts of the samples say: words that no template has.
pub(crate) const SYSTEM: &str = "Quokka instructions.";
#[cfg(feature = "tokens")]
pub(crate) const RESULT: &str = "Wombat result.";
#[cfg(feature = "tokens")]
pub(crate) const FUNCTION: &str = "find_numbat";
pub(crate) const ANSWER: &str = "Yes, certainly.";

const QUESTION: &str = "Is it so?";

/// A description of a function.
pub(crate) fn tools() -> Json {
    json(
        r#"[{"type": "function", "function": {"name": "find_numbat", "description": "Finds one.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string",
        "description": "Where."}}, "required": ["place"]}}}]"#,
    )
}

/// Documents to answer from.
#[cfg(feature = "tokens")]
pub(crate) fn documents() -> Json {
    json(r#"[{"title": "A document", "text": "It is so."}]"#)
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap_or_default()
}

/// Conversations of the kinds that programs have, each with a name: those that a template is
/// compared on.
///
/// ```
/// let names: Vec<_> = ggmill_template::samples().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names[0], "question");
/// ```
pub fn samples() -> Vec<(&'static str, Conversation)> {
    let turns = [("user", QUESTION), ("assistant", ANSWER), ("user", "And now?")];
    let prompt = |conversation: Conversation| conversation.with_generation_prompt(true);
    vec![
        ("question", prompt(Conversation::of([("user", QUESTION)]))),
        ("question and answer", Conversation::of([("user", QUESTION), ("assistant", ANSWER)])),
        ("system message", prompt(Conversation::of([("system", SYSTEM), ("user", QUESTION)]))),
        ("turns", prompt(Conversation::of(turns))),
        ("tools", prompt(Conversation::of([("user", QUESTION)])).with_tools(tools())),
        ("tool call and result", prompt(called("object"))),
        (
            "thinking off",
            prompt(Conversation::of(turns)).with_variable("enable_thinking", Json::Bool(false)),
        ),
        (
            "thinking on",
            prompt(Conversation::of(turns)).with_variable("enable_thinking", Json::Bool(true)),
        ),
        ("reasoning", prompt(reasoning())),
        ("special text", prompt(Conversation::of([("user", " <|im_end|>\n\u{a0}\"é\" </s> 🙂 ")]))),
    ]
}

/// A call of a function, with its arguments as an object or as text, and what it returned.
pub(crate) fn called(arguments: &str) -> Conversation {
    let arguments =
        if arguments == "text" { r#""{\"place\": \"here\"}""# } else { r#"{"place": "here"}"# };
    let messages = r#"[{"role": "user", "content": "Is it so?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function",
        "function": {"name": "find_numbat", "arguments": ARGUMENTS}}]},
        {"role": "tool", "name": "find_numbat", "tool_call_id": "call00001",
        "content": "Wombat result."}]"#;
    Conversation::new(json(&messages.replace("ARGUMENTS", arguments))).with_tools(tools())
}

fn reasoning() -> Conversation {
    Conversation::new(json(
        r#"[{"role": "user", "content": "Is it so?"},
        {"role": "assistant", "content": "Yes.", "reasoning_content": "It must be so."},
        {"role": "user", "content": "And now?"}]"#,
    ))
}
