//! Which files of a directory are a checkpoint.

use std::collections::BTreeSet;

use crate::{Error, ErrorKind, Result};
use ggmill_core::RawStr;
use ggmill_io::{Directory, RandomAccess};
use serde_json::Value;

use super::index::Index;
use super::{MAX_CONFIG, read_json};
use crate::formats::json::Unambiguous;

/// The beginning and the end of the names of files of weights in Hugging Face's layout, best first.
const FORMATS: [(&str, &str); 2] = [("model", ".safetensors"), ("pytorch_model", ".bin")];
/// What the names of weights begin with in the layout of those who trained the model.
const CONSOLIDATED: &str = "consolidated";
/// What their names end with where each file has a share of every tensor.
const SPLIT: &str = ".pth";
/// The configuration in Hugging Face's layout.
pub(super) const CONFIG: &str = "config.json";
/// The configuration beside them.
const PARAMS: &str = "params.json";

/// The files of a checkpoint.
pub(super) struct Layout {
    pub(super) files: Vec<String>,
    pub(super) index: Option<Index>,
    /// The name of the configuration.
    pub(super) config: &'static str,
    /// Whether each file has a share of every tensor.
    pub(super) is_split: bool,
}

/// Whether a directory has weights of a model, or a list of them.
pub(crate) fn has_weights(directory: &Directory) -> bool {
    let is_index = |name: &String| {
        FORMATS.iter().any(|(beginning, ending)| *name == format!("{beginning}{ending}.index.json"))
    };
    directory.files().is_ok_and(|names| names.iter().any(|name| is_part(name) || is_index(name)))
}

/// Whether a directory has files with weights of a model.
pub(super) fn has_parts(directory: &Directory) -> Result<bool> {
    Ok(directory.files()?.iter().any(|name| is_part(name)))
}

fn is_part(name: &str) -> bool {
    let is_of =
        |&(beginning, ending): &(&str, &str)| name.starts_with(beginning) && name.ends_with(ending);
    FORMATS.iter().any(is_of) || name.starts_with(CONSOLIDATED)
}

/// The name of the configuration of a directory without weights.
pub(super) fn configuration(directory: &Directory) -> &'static str {
    if directory.has(PARAMS) && !directory.has(CONFIG) { PARAMS } else { CONFIG }
}

/// The weights of the dense layers that sentence-transformers has behind a model, each in a
/// directory of its own, with the names of these directories. A list that cannot be read is left to
/// those who ask for more of it.
pub(super) fn dense_modules(directory: &Directory) -> Result<Vec<(String, RandomAccess)>> {
    const LIST: &str = "modules.json";
    const WEIGHTS: &str = "model.safetensors";
    /// Such a list has a few modules.
    const MAX_MODULES: usize = 16;
    if !directory.has(LIST) {
        return Ok(Vec::new());
    }
    let Ok(Unambiguous(list)) = read_json(&directory.file(LIST)?, MAX_CONFIG) else {
        return Ok(Vec::new());
    };
    let mut modules = Vec::new();
    for module in list.as_array().into_iter().flatten().take(MAX_MODULES) {
        let text = |name: &str| module.get(name).and_then(Value::as_str);
        let (Some(path), Some(kind)) = (text("path"), text("type")) else { continue };
        if !kind.ends_with("Dense") || modules.iter().any(|(known, _)| known == path) {
            continue;
        }
        if let Ok(Some(inner)) = directory.subdirectory(path)
            && inner.has(WEIGHTS)
        {
            modules.push((path.to_owned(), inner.file(WEIGHTS)?));
        }
    }
    Ok(modules)
}

/// The weights of an encoder of sound that has a directory of its own, with the name of that.
pub(super) fn audio_tokenizer(
    directory: &Directory,
) -> Result<Option<(&'static str, RandomAccess)>> {
    const NAME: &str = "audio_tokenizer";
    const WEIGHTS: &str = "model.safetensors";
    match directory.subdirectory(NAME)? {
        Some(inner) if inner.has(WEIGHTS) => Ok(Some((NAME, inner.file(WEIGHTS)?))),
        _ => Ok(None),
    }
}

impl Layout {
    /// The checkpoint in a directory, or the one that a file of it belongs to.
    pub(super) fn of(directory: &Directory, file: Option<String>) -> Result<Self> {
        let is_consolidated = |name: &str| name.starts_with(CONSOLIDATED) && directory.has(PARAMS);
        if let Some(file) = file {
            if is_consolidated(&file) {
                return Self::consolidated(directory, &[ending(&file)]);
            }
            return Ok(Self::hugging_face(vec![file], None));
        }
        let names = directory.files()?;
        for (beginning, ending) in FORMATS {
            let index = format!("{beginning}{ending}.index.json");
            if directory.has(&index) {
                let index = Index::read(&directory.file(&index)?)?;
                return Ok(Self::hugging_face(index.file_names(), Some(index)));
            }
            let is_part = |name: &&String| name.starts_with(beginning) && name.ends_with(ending);
            let files: Vec<String> = names.iter().filter(is_part).cloned().collect();
            if !files.is_empty() {
                refuse_incomplete(directory, &files)?;
                return Ok(Self::hugging_face(files, None));
            }
        }
        if names.iter().any(|name| is_consolidated(name)) {
            return Self::consolidated(directory, &[".safetensors", SPLIT]);
        }
        let other = names.iter().find(|name| name.starts_with(CONSOLIDATED));
        let found = other
            .map(|name| format!("contains {:?} without {PARAMS}, and ", RawStr::from(&**name)));
        let [safetensors, torch] =
            FORMATS.map(|(beginning, ending)| format!("{beginning}{ending}"));
        let message = format!(
            "{}contains neither {safetensors} nor {torch} nor shards of them",
            found.unwrap_or_default()
        );
        Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()))
    }

    fn hugging_face(files: Vec<String>, index: Option<Index>) -> Self {
        Self { files, index, config: CONFIG, is_split: false }
    }

    /// The weights with the first of some endings that the directory has.
    fn consolidated(directory: &Directory, endings: &[&str]) -> Result<Self> {
        let names = directory.files()?;
        let is_part =
            |name: &&String, ending: &str| name.starts_with(CONSOLIDATED) && name.ends_with(ending);
        let with = |ending: &str| -> Vec<String> {
            names.iter().filter(|name| is_part(name, ending)).cloned().collect()
        };
        let mut found = endings.iter().map(|&ending| (ending, with(ending)));
        let Some((ending, files)) = found.find(|(_, files)| !files.is_empty()) else {
            let message = format!(
                "contains {PARAMS}, but no weights in {CONSOLIDATED}*{}",
                endings.join(" or *")
            );
            return Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()));
        };
        let is_split = ending == SPLIT;
        if is_split {
            for (number, name) in files.iter().enumerate() {
                let expected = format!("{CONSOLIDATED}.{number:02}{SPLIT}");
                if *name != expected {
                    let message = format!(
                        "contains {:?}, but {expected} before it is missing",
                        RawStr::from(&**name)
                    );
                    return Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()));
                }
            }
        }
        Ok(Self { files, index: None, config: PARAMS, is_split })
    }
}

/// Fails where names say that there are more shards (`model-00001-of-00002.safetensors`) than files.
fn refuse_incomplete(directory: &Directory, files: &[String]) -> Result<()> {
    for name in files {
        let Some((_, total)) = shard(name) else { continue };
        let of_set = files.iter().filter_map(|other| shard(other));
        let found: BTreeSet<u64> =
            of_set.filter(|(_, of)| *of == total).map(|(number, _)| number).collect();
        if found.len() as u64 >= total {
            continue;
        }
        let missing = (1..=total).find(|number| !found.contains(number)).unwrap_or(total);
        let message = format!(
            "shard {missing} of {total} is missing: found {} of {total}, for example {:?}",
            found.len(),
            RawStr::from(&**name)
        );
        return Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()));
    }
    Ok(())
}

/// The number of a shard and how many there are, by its name.
fn shard(name: &str) -> Option<(u64, u64)> {
    let (before, after) = name.split_once("-of-")?;
    let number = before.rsplit('-').next()?.parse().ok()?;
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    Some((number, after.get(..end)?.parse().ok()?))
}

/// The ending of a name, with its dot.
fn ending(name: &str) -> &str {
    name.rfind('.').and_then(|at| name.get(at..)).unwrap_or_default()
}

/// What `params.json` leaves to the weights: the number of files is added, and a size of -1 stands
/// for one that it does not know.
pub(super) fn complete(config: &mut Value, files: usize) {
    let Some(entries) = config.as_object_mut() else { return };
    entries.retain(|_, value| *value != -1);
    entries.insert("shards".to_owned(), files.into());
}
