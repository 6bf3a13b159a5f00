//! The chat template that the files of a repository should have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ggmill_core::{ErrorKind, Metadata, keys};
use ggmill_template::{Json, TemplateFile, choose_template};

use crate::find::file_name;
use crate::side_files::read_text;
use crate::{Error, Note, Result};

/// The chat template of a repository, and the name of a file that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepositoryTemplate {
    /// The name of the file.
    pub name: String,
    /// The template.
    pub text: String,
}

/// Returns for each model the chat template with which its own is compared: that of the checkpoint in its
/// directory, or else that of most files of the same model there. `None` for a model without others, and
/// for an address. The notes name the files whose templates cannot be read, so that they are not compared.
pub fn repository_templates(
    models: &[Vec<PathBuf>],
) -> (Vec<Option<RepositoryTemplate>>, Vec<Note>) {
    let mut directories: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (number, files) in models.iter().enumerate() {
        if let Some(directory) = files.first().and_then(|path| path.parent()) {
            directories.entry(directory).or_default().push(number);
        }
    }
    let (mut found, mut notes) = (vec![None; models.len()], Vec::new());
    for (directory, numbers) in directories {
        let of_checkpoint = of_checkpoint(directory, &mut notes);
        let mut same: BTreeMap<Identity, Vec<(usize, RepositoryTemplate)>> = BTreeMap::new();
        for number in numbers {
            if let Some(slot) = found.get_mut(number) {
                slot.clone_from(&of_checkpoint);
            }
            let path = models.get(number).and_then(|files| files.first());
            match path.map(|path| of_model(path)) {
                Some(Ok(Some((identity, template)))) => {
                    same.entry(identity).or_default().push((number, template));
                }
                Some(Err(error)) => notes.push(Note::TemplateNotCompared(error.to_string())),
                Some(Ok(None)) | None => {}
            }
        }
        if of_checkpoint.is_some() {
            continue;
        }
        for members in same.into_values() {
            let Some(most) = most_common(&members) else { continue };
            for (number, _) in &members {
                if let Some(slot) = found.get_mut(*number) {
                    *slot = Some(most.clone());
                }
            }
        }
    }
    (found, notes)
}

/// The architecture and the name of a model, which its quantizations share.
type Identity = (String, String);

/// Returns the template of a checkpoint: `chat_template.jinja` before `tokenizer_config.json`.
fn of_checkpoint(directory: &Path, notes: &mut Vec<Note>) -> Option<RepositoryTemplate> {
    ["chat_template.jinja", "tokenizer_config.json"].into_iter().find_map(|name| {
        match of_side_file(&directory.join(name)) {
            Ok(text) => text.map(|text| RepositoryTemplate { name: name.to_owned(), text }),
            // The file does not exist, or has no template.
            Err(error) if error.is_not_found() => None,
            Err(error) => {
                notes.push(Note::TemplateNotCompared(error.to_string()));
                None
            }
        }
    })
}

fn of_side_file(path: &Path) -> Result<Option<String>> {
    const MAX_LEN: u64 = 16 << 20;
    let text = read_text(path, MAX_LEN)?;
    let parsed = match path.extension() {
        // Without this, text that is not JSON would be read as a template.
        Some(extension) if extension == "json" => Json::parse(&text).map(drop),
        _ => Ok(()),
    };
    let file = parsed.and_then(|()| TemplateFile::parse(&text));
    let file = file.map_err(|error| Error::from(error).at(path))?;
    Ok(choose_template(&file.templates, None).map(|template| template.text.clone()))
}

/// Returns the default template of a model; `None` for a file that the check reports as unreadable, and
/// for one without a name or a template.
fn of_model(path: &Path) -> Result<Option<(Identity, RepositoryTemplate)>> {
    let Ok(model) = ggmill_io::open_damaged(path) else { return Ok(None) };
    let metadata: Metadata<'_> = model.metadata();
    let text = |key: &str| metadata.str(key).ok().map(str::to_owned);
    let template = match metadata.str(keys::TOKENIZER_CHAT_TEMPLATE) {
        Ok(template) => template.to_owned(),
        Err(error) if error.kind() == ErrorKind::Missing => return Ok(None),
        Err(error) => return Err(Error::from(error).at(path)),
    };
    let name = text(keys::GENERAL_NAME).or_else(|| text("general.basename"));
    let identity = text(keys::GENERAL_ARCHITECTURE).zip(name);
    let template = RepositoryTemplate { name: file_name(path), text: template };
    Ok(identity.map(|identity| (identity, template)))
}

/// Returns the template of most files, the first one if several are equally common; `None` for one file.
fn most_common(members: &[(usize, RepositoryTemplate)]) -> Option<&RepositoryTemplate> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, template) in members {
        *counts.entry(&template.text).or_default() += 1;
    }
    let count = |template: &RepositoryTemplate| counts.get(&*template.text).copied();
    let mut all = members.iter().map(|(_, template)| template);
    let first = all.next().filter(|_| members.len() > 1)?;
    Some(all.fold(first, |best, next| if count(next) > count(best) { next } else { best }))
}
