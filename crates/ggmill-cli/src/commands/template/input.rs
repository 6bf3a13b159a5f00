//! The input of the template commands: files with templates, and conversations.

use std::path::{Path, PathBuf};

use ggmill::{OpenOptions, Templates};
use ggmill_core::RawStr;
use ggmill_template::{Conversation, Json, ModelTemplate, model_templates};

use crate::console::Console;
use crate::files::{open, open_partial, shown};
use crate::outcome::Failure;
use crate::remote;
use ggmill::read_text;
use ggmill::{find_files, group_shards, is_gguf_name};

/// Opens the templates of a model, a Jinja file, or the configuration of a checkpoint. Prints a warning
/// for a model that is truncated after its templates.
pub(super) fn open_any(path: &Path, console: Console) -> Result<Templates, Failure> {
    ggmill::refuse_interrupted(&[path])?;
    if path.as_os_str() == "-" {
        return Ok(Templates::of(&open(path, false)?));
    }
    let (templates, truncation) = Templates::open(path, &remote::options(path)?)?;
    if let Some(error) = truncation {
        console.warn(error);
    }
    Ok(templates)
}

/// Opens templates as [`open_any`] does. Fails for a file without templates.
pub(super) fn open_source(path: &Path, console: Console) -> Result<Templates, Failure> {
    let templates = open_any(path, console)?;
    templates.choose(None)?;
    Ok(templates)
}

/// Returns the files with templates that the paths name: the given files, each set of shards once, and
/// the files in directories that have a template.
pub(super) fn files(paths: &[PathBuf], failures: &mut Vec<Failure>) -> Vec<PathBuf> {
    let (files, errors) = find_files(paths, &has_template, "files with chat templates");
    failures.extend(errors.into_iter().map(Failure::from));
    group_shards(files).into_iter().filter_map(|files| files.into_iter().next()).collect()
}

/// Returns `true` if a file in a directory has a template.
fn has_template(path: &Path) -> bool {
    let is_named = |names: &[&str]| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
    };
    if is_gguf_name(path) {
        // A file that cannot be opened is kept: the error is reported later.
        return open_partial(path, true)
            .map_or(true, |(model, _)| !model_templates(&model.metadata()).is_empty());
    }
    path.extension().is_some_and(|extension| extension == "jinja")
        || is_named(&["tokenizer_config.json", "chat_template.json"])
            && Templates::open(path, &OpenOptions::new()).is_ok()
}

/// Parses NAME=VALUE. A value that is not JSON is a string.
pub(super) fn variables(args: &[String]) -> Result<Vec<(String, Json)>, Failure> {
    let variable = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::new(format_args!("{text:?}: expected a name and a value, such as x=1"))
        })?;
        let value = Json::parse(value).unwrap_or_else(|_| Json::from(value));
        Ok((name.to_owned(), value))
    };
    args.iter().map(variable).collect()
}

/// Returns the name of a template, or `default`.
pub(super) fn label(template: &ModelTemplate) -> &str {
    template.name.as_deref().unwrap_or("default")
}

/// The maximum size of a file with messages, tools or documents, in bytes.
const MAX_TEXT: u64 = 64 << 20;

/// The options for a conversation.
#[derive(Debug, clap::Args)]
pub(super) struct ConversationArgs {
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

/// Parses ROLE:TEXT. In other tools, `-m` is the option for the model.
fn message(text: &str) -> Result<(String, String), String> {
    let is_file = || is_gguf_name(Path::new(text)) || Path::new(text).is_file();
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

impl ConversationArgs {
    /// Returns `true` if there are no messages.
    pub(super) fn is_empty(&self) -> bool {
        self.message.is_empty() && self.messages.is_none()
    }

    /// Reads the conversation, and prints notes about unusual roles.
    pub(super) fn read(&self, console: Console) -> Result<Conversation, Failure> {
        let mut conversation = match &self.messages {
            Some(path) => Conversation::from_json(read_json(path)?)
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
            conversation.tools = Some(read_array(path)?);
        }
        if let Some(path) = &self.documents {
            conversation.documents = Some(read_array(path)?);
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

fn read_json(path: &Path) -> Result<Json, Failure> {
    let text = read_text(path, MAX_TEXT)?;
    Json::parse(&text).map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))
}

fn read_array(path: &Path) -> Result<Json, Failure> {
    match read_json(path)? {
        array @ Json::Array(_) => Ok(array),
        _ => Err(Failure::new(format_args!("{}: expected an array", shown(path)))),
    }
}
