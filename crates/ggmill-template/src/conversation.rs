//! Conversations with which templates are rendered, and sample conversations.

use std::rc::Rc;

use crate::error::{Error, ErrorKind, Result};
use crate::json::Json;
use crate::meter::Meter;
use crate::template::RenderOptions;
use crate::value::{Mark, SeqKind, Text, Value};

/// A conversation with the other variables of a template.
///
/// ```
/// use ggmill_template::{Conversation, Json};
/// let messages = Json::parse(r#"[{"role": "user", "content": "Hello"}]"#)?;
/// let conversation = Conversation::new(messages).with_generation_prompt(true);
/// assert_eq!(conversation.variables.len(), 0);
/// # Ok::<(), ggmill_template::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Conversation {
    /// The messages: an array of objects with `role` and `content`.
    pub messages: Json,
    /// Descriptions of functions, as JSON Schema.
    pub tools: Option<Json>,
    /// Documents with `title` and `text`.
    pub documents: Option<Json>,
    /// `true` to end the text where the model's answer begins.
    pub add_generation_prompt: bool,
    /// Other variables, such as `enable_thinking`.
    pub variables: Vec<(String, Json)>,
}

impl Conversation {
    /// Creates a conversation with these messages.
    pub fn new(messages: Json) -> Self {
        Self { messages, ..Self::default() }
    }

    /// Creates a conversation of text messages: pairs of role and content.
    pub fn of<'a>(messages: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let message = |(role, content)| {
            Json::Object(vec![
                ("role".to_owned(), Json::from(role)),
                ("content".to_owned(), Json::from(content)),
            ])
        };
        Self::new(Json::Array(messages.into_iter().map(message).collect()))
    }

    /// Sets the tools.
    #[must_use]
    pub fn with_tools(mut self, tools: Json) -> Self {
        self.tools = Some(tools);
        self
    }

    /// Sets the documents.
    #[must_use]
    pub fn with_documents(mut self, documents: Json) -> Self {
        self.documents = Some(documents);
        self
    }

    /// Sets whether the text ends where the model's answer begins.
    #[must_use]
    pub fn with_generation_prompt(mut self, add: bool) -> Self {
        self.add_generation_prompt = add;
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: Json) -> Self {
        self.variables.push((name.into(), value));
        self
    }

    /// Converts a JSON document: an array of messages, or an object with `messages` and any of
    /// `tools`, `documents`, `add_generation_prompt` and other variables.
    ///
    /// ```
    /// use ggmill_template::{Conversation, Json};
    /// let document = r#"{"messages": [{"role": "user", "content": "Hello"}], "tools": []}"#;
    /// let conversation = Conversation::from_json(Json::parse(document)?)?;
    /// assert_eq!(conversation.tools, Some(Json::Array(Vec::new())));
    /// assert!(Conversation::from_json(Json::parse(r#"{"text": "Hello"}"#)?).is_err());
    /// # Ok::<(), ggmill_template::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if there are no messages, if a message is not an object or has no text role, and if
    /// tools or documents are not arrays.
    pub fn from_json(document: Json) -> Result<Self> {
        let mut conversation = Self::default();
        match document {
            Json::Object(entries) => {
                for (name, value) in entries {
                    match (&*name, value) {
                        ("messages", value) => conversation.messages = value,
                        ("tools", value) => conversation.tools = array("tools", value)?,
                        ("documents", value) => {
                            conversation.documents = array("documents", value)?;
                        }
                        ("add_generation_prompt", Json::Bool(add)) => {
                            conversation.add_generation_prompt = add;
                        }
                        ("add_generation_prompt", value) => {
                            return Err(unexpected(
                                "add_generation_prompt",
                                "true or false",
                                &value,
                            ));
                        }
                        (_, value) => conversation.variables.push((name, value)),
                    }
                }
                if conversation.messages == Json::Null {
                    let names = conversation.variables.iter().take(MAX_NAMES);
                    let names: Vec<_> = names.map(|(name, _)| format!("{name:?}")).collect();
                    let names = match &*names {
                        [] => "an empty object".to_owned(),
                        names => format!("an object with {}", names.join(", ")),
                    };
                    let message = format!("{EXPECTED}, found {names}");
                    return Err(Error::new(ErrorKind::Conversation, message));
                }
            }
            messages => conversation.messages = messages,
        }
        let Json::Array(messages) = &conversation.messages else {
            let message = format!("{EXPECTED}, found {}", conversation.messages.kind());
            return Err(Error::new(ErrorKind::Conversation, message));
        };
        if messages.is_empty() {
            let message = "expected messages, found an empty array";
            return Err(Error::new(ErrorKind::Conversation, message));
        }
        for (index, message) in messages.iter().enumerate() {
            let place = format!("messages[{index}]");
            match message {
                Json::Object(_) => {}
                other => return Err(unexpected(&place, "an object with role and content", other)),
            }
            match message.get("role") {
                Some(Json::String(role)) if !role.is_empty() => {}
                Some(other) => return Err(unexpected(&format!("{place}.role"), ROLE, other)),
                None => {
                    let message = format!("{place} has no role, expected {ROLE}");
                    return Err(Error::new(ErrorKind::Conversation, message));
                }
            }
        }
        Ok(conversation)
    }

    /// Returns the roles that chat templates do not commonly support, each with the index of its
    /// first message.
    ///
    /// ```
    /// use ggmill_template::Conversation;
    /// let conversation = Conversation::of([("user", "Hello"), ("asistant", "Hello")]);
    /// assert_eq!(conversation.unusual_roles(), [(1, "asistant")]);
    /// ```
    pub fn unusual_roles(&self) -> Vec<(usize, &str)> {
        let Json::Array(messages) = &self.messages else { return Vec::new() };
        let mut found: Vec<(usize, &str)> = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let Some(role) = message.get("role").and_then(Json::as_str) else { continue };
            if !COMMON_ROLES.contains(&role) && found.iter().all(|(_, known)| *known != role) {
                found.push((index, role));
            }
        }
        found
    }

    /// Returns the values of the variables, and the paths of their texts by index.
    pub(crate) fn context(
        &self,
        options: &RenderOptions,
        meter: &Rc<Meter>,
    ) -> Result<(Variables, Vec<Field>)> {
        if !matches!(self.messages, Json::Array(_)) {
            return Err(Error::new(ErrorKind::Conversation, "expected an array of messages"));
        }
        let mut reader = Reader { fields: Vec::new(), is_given: false, meter };
        let mut context = Vec::new();
        // As for keyword arguments, the last value of a name counts.
        let mut set = |name: &str, value: Value| {
            context.retain(|(known, _): &(String, Value)| known != name);
            context.push((name.to_owned(), value));
        };
        for (name, token) in &options.tokens {
            set(name, Value::text(token, meter)?);
        }
        for (name, value) in &options.variables {
            set(name, reader.value(value, name, 0)?);
        }
        reader.is_given = true;
        let null = Json::Null;
        set("messages", reader.value(&self.messages, "messages", 0)?);
        set("tools", reader.value(self.tools.as_ref().unwrap_or(&null), "tools", 0)?);
        let documents = self.documents.as_ref().unwrap_or(&null);
        set("documents", reader.value(documents, "documents", 0)?);
        set("add_generation_prompt", Value::Bool(self.add_generation_prompt));
        for (name, value) in &self.variables {
            set(name, reader.value(value, name, 0)?);
        }
        Ok((context, reader.fields))
    }
}

/// The expected structure of a document.
const EXPECTED: &str = "expected an array of messages, or an object with \"messages\"";
const ROLE: &str = "text such as \"user\"";

/// The roles that chat templates commonly support.
const COMMON_ROLES: [&str; 9] =
    ["system", "developer", "user", "assistant", "model", "tool", "function", "ipython", "context"];

/// Maximum number of names in a message.
const MAX_NAMES: usize = 8;

fn unexpected(place: &str, expected: &str, found: &Json) -> Error {
    let message = format!("{place}: expected {expected}, found {}", found.kind());
    Error::new(ErrorKind::Conversation, message)
}

/// Returns an array; `None` for null.
fn array(name: &str, value: Json) -> Result<Option<Json>> {
    match value {
        Json::Null => Ok(None),
        Json::Array(_) => Ok(Some(value)),
        other => Err(unexpected(name, "an array", &other)),
    }
}

/// Variables by name.
pub(crate) type Variables = Vec<(String, Value)>;

/// A text of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// Its path, such as `messages[0].content`.
    pub path: String,
    /// `true` for the role of a message if it is one word: templates write it into the markers
    /// around messages. No other text of a conversation is part of a special token.
    pub is_role: bool,
}

struct Reader<'a> {
    fields: Vec<Field>,
    /// `true` while values of the conversation are read, not defaults of the options.
    is_given: bool,
    meter: &'a Rc<Meter>,
}

/// Maximum nesting depth of values.
const MAX_DEPTH: usize = 64;

impl Reader<'_> {
    fn text(&mut self, text: &str, path: &str) -> Result<Value> {
        if !self.is_given {
            return Value::text(text, self.meter);
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_role = path.starts_with("messages[")
            && path.ends_with("].role")
            && path.matches(['[', '.']).count() == 2
            && text.chars().all(word);
        let mark = Mark::field(self.fields.len());
        self.fields.push(Field { path: path.to_owned(), is_role });
        Ok(Value::Text(Text::new(text, mark, self.meter)?))
    }

    fn value(&mut self, json: &Json, path: &str, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::Conversation,
                format!("values are nested more than {MAX_DEPTH} levels deep"),
            ));
        }
        Ok(match json {
            Json::Null => Value::None,
            Json::Bool(value) => Value::Bool(*value),
            Json::Int(value) => Value::Int(*value),
            Json::Float(value) => Value::Float(*value),
            Json::String(text) => self.text(text, path)?,
            Json::Array(items) => {
                let mut values = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    values.push(self.value(item, &format!("{path}[{index}]"), depth + 1)?);
                }
                Value::seq(SeqKind::List, values, self.meter)?
            }
            Json::Object(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for (name, value) in entries {
                    // Names of members are text of the conversation too.
                    let inner = format!("{path}.{name}");
                    let key = self.text(name, &format!("{inner} (name)"))?;
                    values.push((key, self.value(value, &inner, depth + 1)?));
                }
                Value::dict(values, self.meter)?
            }
        })
    }
}

/// Texts of the samples: words that no template contains.
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

/// Returns typical conversations, each with a name, on which templates are compared.
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

/// Returns a conversation with a function call, whose arguments are an object or text, and its
/// result.
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
