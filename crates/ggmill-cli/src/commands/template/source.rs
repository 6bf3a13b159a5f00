//! Where a template comes from: a model, a text, or a checkpoint's configuration.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ggmill_core::{Model, RawStr};
use ggmill_template::{
    Json, ModelTemplate, Moment, RenderOptions, Template, TemplateFile, choose_template,
    model_templates,
};
use ggmill_tokenizer::Tokenizer;

use crate::console::Console;
use crate::gather::{gather_files, is_gguf, models};
use crate::outcome::Failure;
use crate::paths::shown;
use crate::source::open_what_is_there;
use crate::text_file::read_text;

/// The longest file that is not a model.
const MAX_TEXT: u64 = 64 << 20;

/// The templates of a file.
pub(super) struct Source {
    pub(super) templates: Vec<ModelTemplate>,
    /// Where the model has one that can be used.
    pub(super) tokenizer: Option<Tokenizer>,
    pub(super) content: Content,
}

/// What the file is.
pub(super) enum Content {
    Model(Model),
    Templates(TemplateFile),
}

impl Source {
    /// Opens a file that has to have a template. Of a model that is cut short, what is there is
    /// used.
    pub(super) fn open(path: &Path, console: Console) -> Result<Self, Failure> {
        let source = Self::open_any(path, console)?;
        if source.templates.is_empty() {
            let hint = "`ggmill edit MODEL --chat-template FILE` sets one: a Jinja file, or the \
                        tokenizer_config.json of the checkpoint";
            return Err(Failure::new(format_args!("{}: {NO_TEMPLATE}", shown(path)))
                .with_hint(Some(hint.to_owned())));
        }
        Ok(source)
    }

    /// Opens a file as [`open`](Self::open) does, also one without a template.
    pub(super) fn open_any(path: &Path, console: Console) -> Result<Self, Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format_args!("{}: {error}", shown(path)));
        if !is_model(path)? {
            let text = read_text(path, MAX_TEXT)?;
            let file = TemplateFile::parse(&text).map_err(|error| failed(&error))?;
            return Ok(Self {
                templates: file.templates.clone(),
                tokenizer: None,
                content: Content::Templates(file),
            });
        }
        let (model, cut) = open_what_is_there(path, false)?;
        let templates = model_templates(&model.metadata());
        match cut {
            Some(failure) if templates.is_empty() => return Err(failure),
            Some(Failure::Refused { message, .. }) => console.warn(message),
            Some(Failure::Closed) => return Err(Failure::Closed),
            None => {}
        }
        let tokenizer = Tokenizer::from_metadata(&model.metadata()).ok();
        Ok(Self { templates, tokenizer, content: Content::Model(model) })
    }

    /// The template of this name, or the default one.
    pub(super) fn template(&self, name: Option<&str>) -> Result<&ModelTemplate, Failure> {
        choose_template(&self.templates, name).ok_or_else(|| {
            let names: Vec<_> = self.templates.iter().map(label).collect();
            Failure::new(format_args!("no template {:?}", name.unwrap_or_default()))
                .with_hint(Some(format!("the templates are: {}", names.join(", "))))
        })
    }

    /// With the special tokens, and the time.
    pub(super) fn options(&self) -> RenderOptions {
        let mut options = RenderOptions::new().with_now(now());
        if let Content::Templates(file) = &self.content {
            options.tokens.clone_from(&file.tokens);
        }
        match &self.tokenizer {
            Some(tokenizer) => options.with_vocabulary(tokenizer.vocabulary()),
            None => options,
        }
    }
}

/// What is said of a model without templates.
const NO_TEMPLATE: &str = "the file has no chat template";

/// The files with templates that the paths name: models, each set of shards once, and other files;
/// of directories those that have a template.
pub(super) fn files(paths: &[PathBuf], failures: &mut Vec<Failure>) -> Vec<PathBuf> {
    let found = gather_files(paths, &has_template, "files with chat templates", failures);
    models(found).into_iter().filter_map(|files| files.into_iter().next()).collect()
}

/// Whether a file in a directory has a template.
fn has_template(path: &Path) -> bool {
    let is_named = |names: &[&str]| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
    };
    if is_gguf(path) {
        // One that cannot be opened is reported later.
        return open_what_is_there(path, true)
            .map_or(true, |(model, _)| !model_templates(&model.metadata()).is_empty());
    }
    path.extension().is_some_and(|extension| extension == "jinja")
        || is_named(&["tokenizer_config.json", "chat_template.json"])
            && read_text(path, MAX_TEXT).is_ok_and(|text| TemplateFile::parse(&text).is_ok())
}

/// Variables as they are typed: a name and a value, which is JSON or else text.
pub(super) fn variables(typed: &[String]) -> Result<Vec<(String, Json)>, Failure> {
    let variable = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::new(format_args!("{text:?}: expected a name and a value, such as x=1"))
        })?;
        let value = Json::parse(value).unwrap_or_else(|_| Json::from(value));
        Ok((name.to_owned(), value))
    };
    typed.iter().map(variable).collect()
}

/// The name of a template as it is shown.
pub(super) fn label(template: &ModelTemplate) -> &str {
    template.name.as_deref().unwrap_or("default")
}

pub(super) fn parse(template: &ModelTemplate, path: &Path) -> Result<Template, Failure> {
    Template::parse(&template.text).map_err(|error| refused(path, &error))
}

/// A failure with text that a template may have written.
pub(super) fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: {}", shown(path), RawStr::from(&*why.to_string())))
}

/// The time, in UTC.
fn now() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
    Moment::from_unix(seconds)
}

/// Whether a file, or standard input, is a model: by its first bytes. What cannot be opened, and
/// the beginning of a model, are reported where models are opened.
fn is_model(path: &Path) -> Result<bool, Failure> {
    if path.as_os_str() == "-" || path.is_dir() {
        return Ok(true);
    }
    // A pipe can be read once, and a model not from one.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Ok(false);
    }
    let mut magic = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(4).read_to_end(&mut magic));
    if read.is_ok() && magic.is_empty() {
        return Err(Failure::new(format_args!("{}: the file is empty", shown(path))));
    }
    Ok(read.is_err() || b"GGUF".starts_with(&magic) || b"FUGG".starts_with(&magic))
}
