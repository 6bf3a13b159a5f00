//! The chat template that the files of a repository should have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ggmill_core::{Metadata, keys};
use ggmill_template::{TemplateFile, choose_template};

use crate::find::file_name;
use crate::side_files::read_text;

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
/// for an address.
pub fn repository_templates(models: &[Vec<PathBuf>]) -> Vec<Option<RepositoryTemplate>> {
    let mut directories: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (number, files) in models.iter().enumerate() {
        if let Some(directory) = files.first().and_then(|path| path.parent()) {
            directories.entry(directory).or_default().push(number);
        }
    }
    let mut found = vec![None; models.len()];
    for (directory, numbers) in directories {
        let of_checkpoint = of_checkpoint(directory);
        let mut same: BTreeMap<Identity, Vec<(usize, RepositoryTemplate)>> = BTreeMap::new();
        for number in numbers {
            if let Some(slot) = found.get_mut(number) {
                slot.clone_from(&of_checkpoint);
            }
            let path = models.get(number).and_then(|files| files.first());
            if let Some((identity, template)) = path.and_then(|path| of_model(path)) {
                same.entry(identity).or_default().push((number, template));
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
    found
}

/// The architecture and the name of a model, which its quantizations share.
type Identity = (String, String);

/// Returns the template of a checkpoint: `chat_template.jinja` before `tokenizer_config.json`.
fn of_checkpoint(directory: &Path) -> Option<RepositoryTemplate> {
    const MAX_LEN: u64 = 16 << 20;
    ["chat_template.jinja", "tokenizer_config.json"].into_iter().find_map(|name| {
        let text = read_text(directory.join(name), MAX_LEN).ok()?;
        let file = TemplateFile::parse(&text).ok()?;
        let text = choose_template(&file.templates, None)?.text.clone();
        Some(RepositoryTemplate { name: name.to_owned(), text })
    })
}

fn of_model(path: &Path) -> Option<(Identity, RepositoryTemplate)> {
    let model = ggmill_io::open_alone(path).ok()?;
    let metadata: Metadata<'_> = model.metadata();
    let text = |key: &str| Some(metadata.get(key)?.value().ok()?.as_str()?.to_owned());
    let name = text(keys::GENERAL_NAME).or_else(|| text("general.basename"))?;
    let identity = (text(keys::GENERAL_ARCHITECTURE)?, name);
    let template = text(keys::TOKENIZER_CHAT_TEMPLATE)?;
    Some((identity, RepositoryTemplate { name: file_name(path), text: template }))
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
