/// The order of the bytes within each number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Endian {
    /// Least significant byte first: nearly every file.
    #[default]
    Little,
    /// Most significant byte first: for machines such as s390x.
    Big,
}

impl core::fmt::Display for Endian {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Self::Little => "little",
            Self::Big => "big",
        })
    }
}
