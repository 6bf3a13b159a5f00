//! A JSON file with metadata that replace what a checkpoint says.

use std::path::Path;

use ggmill_convert::MetadataOverride;

use crate::outcome::Failure;
use crate::paths::shown;
use crate::text_file::read_text;

pub(crate) fn metadata_override(path: &Path) -> Result<MetadataOverride, Failure> {
    let text = read_text(path, MetadataOverride::MAX_LEN)?;
    MetadataOverride::from_json(text.as_bytes())
        .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))
}
