use ggmill_core::{Alignment, Endian, keys};

use crate::merge::whole;
use ggmill_pipeline::GgufCheckpoint;
use ggmill_pipeline::Recipe;
use ggmill_pipeline::{Error, ErrorKind, Result};

/// The form a file is to have. What is not given stays as it is.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RepackOptions {
    /// The alignment of tensor data.
    pub alignment: Option<Alignment>,
    /// The byte order of every number, within the blocks of tensor data too.
    pub endian: Option<Endian>,
    /// The version of the format: 2 or 3.
    pub version: Option<u32>,
}

/// A model in another form: what it says stays, how it is laid out changes. A set of shards becomes
/// one file.
///
/// Fails for a version that is not written, and for a big-endian file of version 2, since
/// big-endian files came with version 3.
pub fn repack(checkpoint: &GgufCheckpoint, options: &RepackOptions) -> Result<Recipe> {
    let mut recipe = whole(checkpoint)?;
    options.apply(&mut recipe)?;
    Ok(recipe)
}

impl RepackOptions {
    /// Gives a recipe the form.
    pub fn apply(&self, recipe: &mut Recipe) -> Result<()> {
        if let Some(alignment) = self.alignment {
            // What is usual goes without saying, unless it was said before.
            if alignment != Alignment::DEFAULT
                || recipe.metadata.get(keys::GENERAL_ALIGNMENT).is_some()
            {
                recipe.metadata.set(keys::GENERAL_ALIGNMENT, alignment.get());
            }
        }
        recipe.form.endian = self.endian.unwrap_or(recipe.form.endian);
        recipe.form.version_2 = match self.version {
            None => recipe.form.version_2,
            Some(2) => true,
            Some(3) => false,
            Some(other) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("version {other} cannot be written, expected 2 or 3"),
                ));
            }
        };
        if recipe.form.version_2 && recipe.form.endian == Endian::Big {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "version 2 does not support big-endian files, expected version 3",
            ));
        }
        Ok(())
    }
}
