//! Files whose content becomes edits.

use std::path::Path;

use ggmill_edit::{Edit, EditSyntaxError};

use crate::outcome::Failure;
use crate::paths::shown;
use crate::text_file::read_text;

/// The longest file that is read whole to become a value.
pub(crate) const MAX_INPUT: u64 = 1 << 30;

/// What such a file is, and where one comes from.
const PATCH_HINT: &str = "a patch is a JSON object of keys and values, with null for a key to \
                          remove: {\"general.name\": \"New\", \"general.url\": null}; `ggmill \
                          extract FILE --key GLOB -o patch.json` writes one with the values of a \
                          file";

/// The edits that a file of keys and values in JSON or TOML stands for.
pub(crate) fn set_from(path: &Path) -> Result<Vec<Edit>, Failure> {
    let text = read_text(path, MAX_INPUT)?;
    let edits = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Edit::from_toml(&text),
        Some("json") => Edit::from_json(&text),
        _ => Edit::from_document(&text),
    };
    edits.map_err(|error| {
        let is_other =
            matches!(error, EditSyntaxError::NotTable | EditSyntaxError::OtherDocument(_));
        Failure::new(format_args!("{}: {error}", shown(path)))
            .with_hint(is_other.then(|| PATCH_HINT.to_owned()))
    })
}
