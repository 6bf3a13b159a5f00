use core::fmt;
use core::str::FromStr;

use super::UnknownName;

/// The type of most of a file's tensors (`general.file_type`; `llama_ftype` in llama.cpp).
///
/// Not to be mixed with `ggml_ftype`, a different list with other numbers.
///
/// ```
/// use ggmill_core::FileType;
/// assert_eq!(FileType::Q4_K_M.name(), Some("Q4_K_M"));
/// assert_eq!("q8_0".parse::<FileType>().ok(), Some(FileType(7)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an open code: the number is the whole of it")]
pub struct FileType(pub u32);

macro_rules! file_types {
    ($($id:literal $name:ident;)*) => {
        impl FileType {
            $(
                #[doc = concat!("`", stringify!($name), "`, number ", $id, ".")]
                pub const $name: Self = Self($id);
            )*
        }
        static KNOWN: &[(u32, &str)] = &[$(($id, stringify!($name))),*];
    };
}

file_types! {
    0 F32;
    1 F16;
    2 Q4_0;
    3 Q4_1;
    4 Q4_1_SOME_F16;
    5 Q4_2;
    6 Q4_3;
    7 Q8_0;
    8 Q5_0;
    9 Q5_1;
    10 Q2_K;
    11 Q3_K_S;
    12 Q3_K_M;
    13 Q3_K_L;
    14 Q4_K_S;
    15 Q4_K_M;
    16 Q5_K_S;
    17 Q5_K_M;
    18 Q6_K;
    19 IQ2_XXS;
    20 IQ2_XS;
    21 Q2_K_S;
    22 IQ3_XS;
    23 IQ3_XXS;
    24 IQ1_S;
    25 IQ4_NL;
    26 IQ3_S;
    27 IQ3_M;
    28 IQ2_S;
    29 IQ2_M;
    30 IQ4_XS;
    31 IQ1_M;
    32 BF16;
    33 Q4_0_4_4;
    34 Q4_0_4_8;
    35 Q4_0_8_8;
    36 TQ1_0;
    37 TQ2_0;
    38 MXFP4_MOE;
    39 NVFP4;
    40 Q1_0;
    41 Q2_0;
}

impl FileType {
    /// Set on top of the number when it was guessed from the tensors rather than chosen.
    pub const GUESSED: u32 = 1024;

    /// The number without the mark for a guess.
    #[must_use]
    pub const fn without_guess(self) -> Self {
        Self(self.0 & !Self::GUESSED)
    }

    /// The name as `llama-quantize` spells it, or `None` for an unassigned number.
    pub fn name(self) -> Option<&'static str> {
        let number = self.without_guess().0;
        KNOWN.iter().find(|known| known.0 == number).map(|known| known.1)
    }
}

impl FromStr for FileType {
    type Err = UnknownName;

    /// The file type with this name, upper and lower case alike.
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        KNOWN
            .iter()
            .find(|known| known.1.eq_ignore_ascii_case(name))
            .map(|known| Self(known.0))
            .ok_or(UnknownName(()))
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) if self.0 == self.without_guess().0 => f.pad(name),
            Some(name) => write!(f, "{name} (guessed)"),
            None => write!(f, "file type {}", self.0),
        }
    }
}

impl fmt::Debug for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
