//! Where a template comes from: a model, a text, or a checkpoint's configuration.

use std::io::Read as _;
use std::path::Path;

use ggmill_core::{Builder, MetadataBuf, Model, RawStr};
use ggmill_edit::{Edit, edit_metadata};
use ggmill_template::{
    Json, ModelTemplate, Moment, RenderOptions, Template, model_templates, special_tokens,
};
use ggmill_tokenizer::Tokenizer;

use crate::outcome::Failure;
use crate::paths::shown;
use crate::source::open;
use crate::text_file::read_text;

/// The longest file that is not a model.
const MAX_TEXT: u64 = 64 << 20;

/// The templates of a file.
pub(super) struct Source {
    /// The model; one with only these templates where the file is none.
    pub(super) model: Model,
    pub(super) templates: Vec<ModelTemplate>,
    /// Where the model has one that can be used.
    pub(super) tokenizer: Option<Tokenizer>,
    /// Special tokens by the names of their variables.
    tokens: Vec<(String, String)>,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format_args!("{}: {error}", shown(path)));
        let (model, mut tokens) = if is_model(path) {
            (open(path, false)?, Vec::new())
        } else {
            let text = read_text(path, MAX_TEXT)?;
            let edits = Edit::chat_template(&text).map_err(|error| failed(&error))?;
            let edited =
                edit_metadata(&MetadataBuf::new(), &edits, None).map_err(|error| failed(&error))?;
            let plan = Builder::new().metadata(edited.metadata().clone()).plan();
            let header = plan.map_err(|error| failed(&error))?.header().to_vec();
            let model = Model::open(header).map_err(|error| failed(&error))?;
            (model, configured_tokens(&text))
        };
        let templates = model_templates(&model.metadata());
        if templates.is_empty() {
            return Err(failed(&"the file has no chat template"));
        }
        let tokenizer = Tokenizer::from_metadata(&model.metadata()).ok();
        if let Some(tokenizer) = &tokenizer {
            tokens = special_tokens(tokenizer.vocabulary());
        }
        Ok(Self { model, templates, tokenizer, tokens })
    }

    /// The template of this name, or the default one.
    pub(super) fn template(&self, name: Option<&str>) -> Result<&ModelTemplate, Failure> {
        let found = match name {
            Some(name) if name != "default" => {
                self.templates.iter().find(|template| template.name.as_deref() == Some(name))
            }
            _ => self.templates.first(),
        };
        found.ok_or_else(|| {
            let names: Vec<_> = self.templates.iter().map(label).collect();
            Failure::new(format_args!("no template {:?}", name.unwrap_or_default()))
                .with_hint(Some(format!("the templates are: {}", names.join(", "))))
        })
    }

    /// With the special tokens, and the time.
    pub(super) fn options(&self) -> RenderOptions {
        let mut options = RenderOptions::new().with_now(now());
        for (name, text) in &self.tokens {
            options = options.with_token(name.as_str(), text.as_str());
        }
        options
    }
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

/// Whether a file, or standard input, is a model: by its first bytes.
fn is_model(path: &Path) -> bool {
    if path.as_os_str() == "-" || path.is_dir() {
        return true;
    }
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    // What cannot be opened is reported where models are.
    match read {
        Ok(()) => &magic == b"GGUF" || &magic == b"FUGG",
        Err(error) => error.kind() != std::io::ErrorKind::UnexpectedEof,
    }
}

/// The special tokens that a `tokenizer_config.json` names.
fn configured_tokens(text: &str) -> Vec<(String, String)> {
    let Ok(config) = Json::parse(text) else { return Vec::new() };
    let names = [
        "bos_token",
        "eos_token",
        "unk_token",
        "sep_token",
        "pad_token",
        "cls_token",
        "mask_token",
    ];
    let text = |name: &str| {
        let value = config.get(name)?;
        let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
        Some((name.to_owned(), text.to_owned()))
    };
    names.into_iter().filter_map(text).collect()
}
