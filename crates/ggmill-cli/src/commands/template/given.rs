//! The conversation that the arguments give.

use std::path::{Path, PathBuf};

use ggmill_core::RawStr;
use ggmill_template::{Conversation, Json};

use super::source::variables;
use crate::console::Console;
use crate::gather::is_gguf;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::text_file::read_text;

/// The longest file of messages, tools or documents.
const MAX_TEXT: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Given {
    /// A message, as role and text: user:Hello (repeatable)
    #[arg(long = "message", short = 'm', value_name = "ROLE:TEXT", value_parser = message)]
    message: Vec<(String, String)>,
    /// Messages as JSON: an array of objects with role and content, or an object with messages and
    /// any of tools, documents and other variables; - is standard input. Messages given with -m are
    /// appended
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Tools as JSON: an array of function descriptions
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Documents as JSON: an array of objects with title and text
    #[arg(long, value_name = "FILE")]
    documents: Option<PathBuf>,
    /// Add the generation prompt, so that the text ends where the model's answer begins
    #[arg(long, short = 'g')]
    generation_prompt: bool,
    /// Set a variable of the template: enable_thinking=false. The value is parsed as JSON if
    /// possible, and otherwise used as text (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// The role and the text of a message. Other tools take the model with `-m`.
fn message(text: &str) -> Result<(String, String), String> {
    let is_file = || is_gguf(Path::new(text)) || Path::new(text).is_file();
    match text.split_once(':') {
        Some((role, content)) => Ok((role.to_owned(), content.to_owned())),
        None if is_file() => {
            Err("expected ROLE:TEXT, such as user:Hello; the model has no option: \
                                  it is the argument FILE"
                .to_owned())
        }
        None => Err("expected ROLE:TEXT, such as user:Hello".to_owned()),
    }
}

impl Given {
    /// Whether there is no conversation.
    pub(super) fn is_empty(&self) -> bool {
        self.message.is_empty() && self.messages.is_none()
    }

    pub(super) fn conversation(&self, console: Console) -> Result<Conversation, Failure> {
        let mut conversation = match &self.messages {
            Some(path) => Conversation::from_json(read(path)?)
                .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?,
            None => Conversation::default(),
        };
        let mut messages = match std::mem::take(&mut conversation.messages) {
            Json::Array(messages) => messages,
            _ => Vec::new(),
        };
        for (role, content) in &self.message {
            messages.push(Json::Object(vec![
                ("role".to_owned(), Json::from(&**role)),
                ("content".to_owned(), Json::from(&**content)),
            ]));
        }
        if messages.is_empty() {
            return Err(Failure::new("expected a conversation")
                .with_hint(Some("-m user:Hello, or --messages FILE".to_owned())));
        }
        conversation.messages = Json::Array(messages);
        if let Some(path) = &self.tools {
            conversation.tools = Some(array(path)?);
        }
        if let Some(path) = &self.documents {
            conversation.documents = Some(array(path)?);
        }
        conversation.add_generation_prompt |= self.generation_prompt;
        conversation.variables.extend(variables(&self.set)?);
        for (index, role) in conversation.unusual_roles() {
            console.note(format_args!(
                "messages[{index}] has the role {:?}; the usual roles are system, user, assistant \
                 and tool",
                RawStr::from(role)
            ));
        }
        Ok(conversation)
    }
}

fn read(path: &Path) -> Result<Json, Failure> {
    let text = read_text(path, MAX_TEXT)?;
    Json::parse(&text).map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))
}

fn array(path: &Path) -> Result<Json, Failure> {
    match read(path)? {
        array @ Json::Array(_) => Ok(array),
        _ => Err(Failure::new(format_args!("{}: expected an array", shown(path)))),
    }
}
