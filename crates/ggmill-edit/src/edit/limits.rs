//! Keys that edits know: the one that is room, and how long any may be.

/// The key whose value is room: zeros that take up what a header has less than the space before the
/// tensor data. Edits use it and leave it; everybody else ignores it.
pub const FILLER_KEY: &str = ggmill_core::keys::GGMILL_PADDING;

/// The longest key, in bytes (specification).
pub(super) const MAX_KEY_LEN: usize = 65_535;
