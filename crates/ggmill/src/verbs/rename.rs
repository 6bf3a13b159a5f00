//! `rename`: renames models to follow the naming convention.

use std::path::{Path, PathBuf};

use ggmill_core::{NamingError, ShardName, Split as ShardSplit, keys, size_label};

use crate::find::group_shards;
use crate::open::refuse_interrupted;
use crate::paths::is_remote;
use crate::{Error, Hint, OpenOptions, Result, display_path};

/// Returns the file name that the naming convention prescribes for a file, from its metadata. The name
/// of a shard is that of its model with the number of the shard.
pub fn suggested_name(path: impl AsRef<Path>, options: &OpenOptions) -> Result<String> {
    let path = path.as_ref();
    refuse_interrupted(&[path])?;
    // The hints for local files name other ways to open them.
    let plain = |error: Error| if is_remote(path) { error } else { error.replace_hint(None) };
    let alone = options.clone().alone(true).open(path).map_err(plain)?;
    let file = alone.core();
    let split = ShardSplit::of(&file.metadata()).ok().flatten().filter(ShardSplit::is_part);
    // The first shard has the metadata of the model, unless this shard has it, too.
    let whole = || options.open(path).map_err(plain);
    let set = match split.map(|_| whole()).transpose() {
        Err(error) if file.metadata().get(keys::GENERAL_ARCHITECTURE).is_none() => {
            return Err(error);
        }
        set => set.ok().flatten(),
    };
    let model = set.as_ref().map_or(file, |model| model.core());
    let tensors = model.tensors();
    let label = size_label(tensors.iter().map(|tensor| (tensor.name(), tensor.shape())));
    ggmill_core::suggested_file_name(&model.metadata(), label, split).map_err(|error| match error {
        NamingError::Unconventional(_) => Error::from(error),
        missing => Error::from(missing).within(path).with_hint(Hint::NamingKeys),
    })
}

/// Plans new names for models, by the naming convention. Any shard renames its whole set.
///
/// All new names are determined before the first file is renamed: if a file has no valid name, or two
/// have the same, nothing is renamed.
///
/// ```no_run
/// for (old, new) in ggmill::rename(["model.gguf"])?.apply()? {
///     println!("{} -> {}", old.display(), new.display());
/// }
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn rename(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Result<Rename> {
    let paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
    if let Some(path) = paths.iter().find(|path| is_remote(path)) {
        return Err(Error::misuse("is not on this machine, so it cannot be renamed").at(path));
    }
    let mut names: Vec<(PathBuf, PathBuf)> = Vec::with_capacity(paths.len());
    for files in group_shards(paths) {
        for (path, target) in new_names(files)? {
            refuse_interrupted(&[&path])?;
            if target == path {
                continue;
            }
            let [old, new] = [&path, &target].map(|path| display_path(path).to_string());
            if let Some((other, _)) = names.iter().find(|(_, known)| *known == target) {
                let other = display_path(other);
                let message = format_args!("{other} and {old} would both be renamed to {new}");
                return Err(Error::misuse(message));
            }
            if target.symlink_metadata().is_ok() {
                let message = format_args!("{old} would be renamed to {new}, which already exists");
                return Err(Error::misuse(message));
            }
            names.push((path, target));
        }
    }
    Ok(Rename { names })
}

/// The planned names of files.
#[derive(Debug)]
pub struct Rename {
    names: Vec<(PathBuf, PathBuf)>,
}

impl Rename {
    /// Returns the old and new paths of the files whose names change.
    pub fn names(&self) -> &[(PathBuf, PathBuf)] {
        &self.names
    }

    /// Renames the files: all of them or none. Returns the old and new paths.
    pub fn apply(self) -> Result<Vec<(PathBuf, PathBuf)>> {
        ggmill_io::rename_all(&self.names)?;
        Ok(self.names)
    }
}

/// Returns the new names of the files of a model.
fn new_names(files: Vec<PathBuf>) -> Result<Vec<(PathBuf, PathBuf)>> {
    let Some(first) = files.first() else { return Ok(Vec::new()) };
    // All shards must exist: a missing one would keep its old name, and the set would be broken.
    if ggmill_io::shard_name(first).is_some_and(|name| name.count() > 1) {
        ggmill_io::open(first).map_err(|error| Error::from(error).replace_hint(Hint::AllShards))?;
    }
    let name = suggested_name(first, &OpenOptions::new())?;
    let Some(of_set) = ShardName::parse(&name).filter(|_| files.len() > 1) else {
        let target = first.with_file_name(&name);
        return Ok(files.into_iter().take(1).map(|path| (path, target.clone())).collect());
    };
    let numbered = files.into_iter().zip(1..).map(|(path, number)| {
        let target = path.with_file_name(of_set.sibling(number));
        (path, target)
    });
    Ok(numbered.collect())
}
