//! Chat templates.

use ggmill_core::Model;
use ggmill_template::{
    Conversation, Error, Json, Moment, RenderOptions, Template, choose_template, model_templates,
};
use ggmill_tokenizer::Tokenizer;

use crate::failure::Failure;
use crate::record::Record;

/// Renders the conversation in the input with a template of the file, and writes the result as
/// `ggmill template render --json` does, without tokens if the file has no usable tokenizer.
pub(crate) fn render(
    model: &Model,
    tokenizer: Option<&Tokenizer>,
    input: &[u8],
) -> Result<Record, Failure> {
    let text = std::str::from_utf8(input).map_err(|error| Failure::new("misuse", error))?;
    let Json::Object(options) = Json::parse(text)? else {
        return Err(Failure::misuse("expected an object"));
    };
    let (mut name, mut now, mut conversation) = (None, None, Json::Null);
    for (key, value) in options {
        match (&*key, value) {
            ("template", Json::String(value)) => name = Some(value),
            ("now", Json::Int(value)) => now = i64::try_from(value).ok(),
            ("conversation", value) => conversation = value,
            _ => return Err(Failure::new("misuse", format_args!("{key}: no such option"))),
        }
    }
    let conversation = Conversation::from_json(conversation)?;
    let templates = model_templates(&model.metadata());
    if templates.is_empty() {
        return Err(Failure::new("missing", "the file has no chat template"));
    }
    let template = choose_template(&templates, name.as_deref()).ok_or_else(|| {
        let name = name.unwrap_or_default();
        Failure::new("missing", format_args!("the file has no chat template {name:?}"))
    })?;
    let mut options = RenderOptions::new();
    options.now = now.map(Moment::from_unix);
    if let Some(tokenizer) = tokenizer {
        options = options.with_vocabulary(tokenizer.vocabulary());
    }
    let rendered = Template::parse(&template.text)?.render(&conversation, &options)?;
    let tokens = tokenizer.map(|tokenizer| rendered.encode(tokenizer)).transpose()?;
    Ok(rendered.document(tokens.as_ref()).to_string().into_bytes().into())
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Self::new(error.kind().name(), error)
    }
}
