//! `render`: renders conversations with chat templates.

use std::path::PathBuf;

use ggmill_check::{Input, Report};
use ggmill_template::{
    Conversation, Json, ModelTemplate, RenderOptions, Rendered, Template, TemplateFile,
    choose_template, model_templates,
};
use ggmill_tokenizer::Tokenizer;

use crate::error::Kind;
use crate::{Error, Hint, Model, Result};

/// Renders a conversation with the chat template of a model, as the transformers library does. The
/// template has access to nothing but the conversation, and its time and memory are limited.
///
/// ```no_run
/// let model = ggmill::Model::open("model.gguf")?;
/// let rendered = ggmill::render(&model)?.message("user", "Hello").generation_prompt(true).run()?;
/// println!("{}", rendered.text());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn render(model: &Model) -> Result<Render> {
    Ok(Render {
        templates: Templates::of(model),
        name: None,
        conversation: Conversation::default(),
        messages: Vec::new(),
    })
}

/// The options of [`render()`].
#[derive(Debug)]
pub struct Render {
    templates: Templates,
    name: Option<String>,
    conversation: Conversation,
    messages: Vec<Json>,
}

impl Render {
    /// Uses the template of this name instead of the default one.
    #[must_use]
    pub fn template(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the conversation: messages, tools, documents and variables.
    #[must_use]
    pub fn conversation(mut self, conversation: Conversation) -> Self {
        self.conversation = conversation;
        self
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, role: &str, content: &str) -> Self {
        self.messages.push(Json::Object(vec![
            ("role".to_owned(), Json::from(role)),
            ("content".to_owned(), Json::from(content)),
        ]));
        self
    }

    /// Adds the generation prompt, so that the text ends where the model's answer begins.
    #[must_use]
    pub fn generation_prompt(mut self, add: bool) -> Self {
        self.conversation.add_generation_prompt = add;
        self
    }

    /// Renders the conversation.
    pub fn run(mut self) -> Result<Rendered> {
        let mut messages = match self.conversation.messages {
            Json::Array(messages) => messages,
            _ => Vec::new(),
        };
        messages.append(&mut self.messages);
        self.conversation.messages = Json::Array(messages);
        self.templates.render(self.name.as_deref(), &self.conversation)
    }
}

/// The chat templates of a model, a Jinja file, or the configuration of a checkpoint.
#[derive(Debug)]
pub struct Templates {
    path: Option<PathBuf>,
    list: Vec<ModelTemplate>,
    tokenizer: Option<Tokenizer>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Model(Model),
    File(TemplateFile),
}

impl Templates {
    /// Returns the templates of a model.
    pub fn of(model: &Model) -> Self {
        Self {
            path: model.path().map(ToOwned::to_owned),
            list: model_templates(&model.metadata()),
            tokenizer: model.tokenizer().ok(),
            content: Content::Model(model.clone()),
        }
    }

    /// Parses a Jinja template, or a JSON document with `chat_template`, such as
    /// `tokenizer_config.json`.
    pub fn parse(text: &str) -> Result<Self> {
        let file = TemplateFile::parse(text)?;
        Ok(Self {
            path: None,
            list: file.templates.clone(),
            tokenizer: None,
            content: Content::File(file),
        })
    }

    /// Returns all templates, in the order of the file.
    pub fn all(&self) -> &[ModelTemplate] {
        &self.list
    }

    /// Returns the tokenizer of the model; `None` if there is no usable one.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// Returns the template with this name; without a name, the default one, or the first.
    pub fn choose(&self, name: Option<&str>) -> Result<&ModelTemplate> {
        if self.list.is_empty() {
            let error = Error::new(Kind::NotFound, "template", "the file has no chat template");
            return Err(self.located(error).with_hint(Hint::SetTemplate));
        }
        choose_template(&self.list, name).ok_or_else(|| {
            let names = self.list.iter();
            let names = names.map(|template| template.name.clone());
            let names = names.map(|name| name.unwrap_or_else(|| "default".to_owned())).collect();
            let message = format_args!("no template {:?}", name.unwrap_or_default());
            Error::new(Kind::NotFound, "template", message).with_hint(Hint::Templates(names))
        })
    }

    /// Renders a conversation with the template of this name, the special tokens of the file, and the
    /// current time.
    pub fn render(&self, name: Option<&str>, conversation: &Conversation) -> Result<Rendered> {
        let template = self.parsed(self.choose(name)?)?;
        template.render(conversation, &self.options()).map_err(|error| {
            let message = error.to_string();
            let missing = ["bos_token", "eos_token", "unk_token", "pad_token"]
                .into_iter()
                .find(|name| message.contains(&format!("'{name}' is undefined")));
            self.located(error.into()).with_hint(missing.map(Hint::SetVariable))
        })
    }

    /// Renders conversations with the templates of this name from two files, and returns those for
    /// which the results differ. The special tokens are those of this file, or of the other one if
    /// this one has none.
    pub fn compare<'n>(
        &self,
        other: &Self,
        name: Option<&str>,
        conversations: impl IntoIterator<Item = (&'n str, &'n Conversation)>,
    ) -> Result<Vec<TemplateDifference>> {
        let options = [self.options(), other.options()];
        let has_tokens = |options: &&RenderOptions| !options.tokens.is_empty();
        let options = options.iter().find(has_tokens).unwrap_or(&options[0]);
        let templates = [self.parsed(self.choose(name)?)?, other.parsed(other.choose(name)?)?];
        let mut found = Vec::new();
        for (name, conversation) in conversations {
            let texts = templates.each_ref().map(|template| {
                let rendered = template.render(conversation, options);
                rendered
                    .map(|rendered| rendered.text().to_owned())
                    .map_err(|error| error.to_string())
            });
            if texts[0] != texts[1] {
                found.push(TemplateDifference { conversation: name.to_owned(), texts });
            }
        }
        Ok(found)
    }

    /// Checks the templates with the rules that the options select.
    pub fn check(&self, options: &ggmill_check::Options) -> Result<Report> {
        match &self.content {
            Content::Model(model) => {
                let part = model.core().parts().first();
                Ok(part
                    .map(|part| ggmill_check::check(&Input::new(part), options))
                    .unwrap_or_default())
            }
            Content::File(file) => ggmill_check::check_templates(file, options)
                .map_err(|error| self.located(error.into())),
        }
    }

    fn parsed(&self, template: &ModelTemplate) -> Result<Template> {
        Template::parse(&template.text).map_err(|error| self.located(error.into()))
    }

    fn options(&self) -> RenderOptions {
        let mut options = RenderOptions::new();
        #[cfg(feature = "files")]
        {
            options = options.with_now(now());
        }
        if let Content::File(file) = &self.content {
            options.tokens.clone_from(&file.tokens);
        }
        match &self.tokenizer {
            Some(tokenizer) => options.with_vocabulary(tokenizer.vocabulary()),
            None => options,
        }
    }

    fn located(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.at(path),
            None => error,
        }
    }
}

/// A conversation that two templates render differently.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TemplateDifference {
    /// The name of the conversation.
    pub conversation: String,
    /// The two texts, or the error of a template that rejects the conversation.
    pub texts: [Result<String, String>; 2],
}

impl TemplateDifference {
    /// Returns the first byte at which the texts differ; 0 if one of the templates failed.
    pub fn offset(&self) -> usize {
        let [Ok(left), Ok(right)] = &self.texts else { return 0 };
        left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count()
    }
}

#[cfg(feature = "files")]
mod files {
    use std::io::Read as _;
    use std::path::Path;

    use ggmill_template::Moment;

    use super::Templates;
    use crate::open::refuse_interrupted;
    use crate::{Error, OpenOptions, Result, read_text};

    /// The maximum size of a file that is not a model, in bytes.
    const MAX_TEXT: u64 = 64 << 20;

    impl Templates {
        /// Opens a model, a Jinja file, or a JSON file with `chat_template`. For a truncated model that
        /// has templates, also returns the error that reports the truncation.
        pub fn open(
            path: impl AsRef<Path>,
            options: &OpenOptions,
        ) -> Result<(Self, Option<Error>)> {
            let path = path.as_ref();
            if is_model(path)? {
                refuse_interrupted(&[path])?;
                let (model, cut) = options.open_partial(path)?;
                let found = Self::of(&model);
                return match cut {
                    Some(error) if found.list.is_empty() => Err(error),
                    cut => Ok((found, cut)),
                };
            }
            let text = read_text(path, MAX_TEXT)?;
            let mut found = Self::parse(&text).map_err(|error| error.at(path))?;
            found.path = Some(path.to_owned());
            Ok((found, None))
        }
    }

    pub(super) fn now() -> Moment {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
        Moment::from_unix(seconds)
    }

    /// Returns `true` if a path is opened as a model: its first bytes are those of GGUF, a truncated
    /// beginning of them, or cannot be read, so that opening the model reports the error.
    fn is_model(path: &Path) -> Result<bool> {
        if path.is_dir() {
            return Ok(true);
        }
        // A pipe can be read only once, and is never a model.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Ok(false);
        }
        let mut magic = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(4).read_to_end(&mut magic));
        if read.is_ok() && magic.is_empty() {
            return Err(Error::malformed("the file is empty").at(path));
        }
        Ok(read.is_err() || b"GGUF".starts_with(&magic) || b"FUGG".starts_with(&magic))
    }
}
#[cfg(feature = "files")]
use files::now;
