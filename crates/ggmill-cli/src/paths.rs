//! Paths as they are shown.

use std::path::Path;

use ggmill_core::RawStr;

/// A path fit to be shown.
pub(crate) fn shown(path: &Path) -> RawStr<'_> {
    RawStr::new(path.as_os_str().as_encoded_bytes())
}
