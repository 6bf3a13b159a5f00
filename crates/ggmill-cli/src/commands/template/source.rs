//! Opens chat templates: of a model, of a text, or of the configuration of a checkpoint.

use std::path::{Path, PathBuf};

use ggmill::{OpenOptions, Templates};
use ggmill_template::{Json, ModelTemplate, model_templates};

use crate::console::Console;
use crate::gather::{gather_files, is_gguf, models};
use crate::outcome::Failure;
use crate::remote;
use crate::source::{open, open_partial};

/// Opens the templates of a file. A model may be truncated after its templates.
pub(super) fn open_any(path: &Path, console: Console) -> Result<Templates, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Templates::of(&open(path, false)?));
    }
    let (templates, cut) = Templates::open(path, &remote::options(path)?)?;
    if let Some(error) = cut {
        console.warn(error);
    }
    Ok(templates)
}

/// Opens a file as [`open_any`] does. It must have a template.
pub(super) fn open_source(path: &Path, console: Console) -> Result<Templates, Failure> {
    let templates = open_any(path, console)?;
    templates.choose(None)?;
    Ok(templates)
}

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
        return open_partial(path, true)
            .map_or(true, |(model, _)| !model_templates(&model.metadata()).is_empty());
    }
    path.extension().is_some_and(|extension| extension == "jinja")
        || is_named(&["tokenizer_config.json", "chat_template.json"])
            && Templates::open(path, &OpenOptions::new()).is_ok()
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
