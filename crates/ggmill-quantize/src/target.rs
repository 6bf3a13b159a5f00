//! The target type of a whole file: the names and numbers people give, and the type most tensors
//! then have.

use std::fmt;
use std::str::FromStr;

use ggmill_core::{FileType, GgmlType};

/// The target type of a file, by one of the names of `llama-quantize`.
///
/// ```
/// use ggmill_quantize::Target;
/// use ggmill_core::FileType;
/// let target = "q4_k_m".parse::<Target>().map_err(|_| "known")?;
/// assert_eq!((target.name(), target.file_type()), ("Q4_K_M", FileType::Q4_K_M));
/// assert_eq!("18".parse::<Target>().ok().map(|target| target.name()), Some("Q6_K"));
/// assert_eq!("Q9_Z".parse::<Target>().ok(), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(&'static Row);

/// A name, the file type it stands for, and the type most tensors of such a file have.
#[derive(Debug, PartialEq, Eq)]
struct Row(&'static str, FileType, Default);

#[derive(Debug, PartialEq, Eq)]
enum Default {
    Is(GgmlType),
    /// Every tensor stays what it is.
    Copy,
}

macro_rules! targets {
    ($($name:ident $file_type:ident $ggml_type:ident;)*) => {
        &[$(Row(stringify!($name), FileType::$file_type, Default::Is(GgmlType::$ggml_type)),)* COPY]
    };
}

const COPY: Row = Row("COPY", FileType::F32, Default::Copy);

// A number means the first row with it, as in the reference.
static TARGETS: &[Row] = targets! {
    Q1_0 Q1_0 Q1_0;
    Q2_0 Q2_0 Q2_0;
    Q4_0 Q4_0 Q4_0;
    Q4_1 Q4_1 Q4_1;
    MXFP4_MOE MXFP4_MOE MXFP4;
    NVFP4 NVFP4 NVFP4;
    Q5_0 Q5_0 Q5_0;
    Q5_1 Q5_1 Q5_1;
    IQ2_XXS IQ2_XXS IQ2_XXS;
    IQ2_XS IQ2_XS IQ2_XS;
    IQ2_S IQ2_S IQ2_XS;
    IQ2_M IQ2_M IQ2_S;
    IQ1_S IQ1_S IQ1_S;
    IQ1_M IQ1_M IQ1_M;
    TQ1_0 TQ1_0 TQ1_0;
    TQ2_0 TQ2_0 TQ2_0;
    Q2_K Q2_K Q2_K;
    Q2_K_S Q2_K_S Q2_K;
    IQ3_XXS IQ3_XXS IQ3_XXS;
    IQ3_S IQ3_S IQ3_S;
    IQ3_M IQ3_M IQ3_S;
    Q3_K Q3_K_M Q3_K;
    IQ3_XS IQ3_XS IQ3_S;
    Q3_K_S Q3_K_S Q3_K;
    Q3_K_M Q3_K_M Q3_K;
    Q3_K_L Q3_K_L Q3_K;
    IQ4_NL IQ4_NL IQ4_NL;
    IQ4_XS IQ4_XS IQ4_XS;
    Q4_K Q4_K_M Q4_K;
    Q4_K_S Q4_K_S Q4_K;
    Q4_K_M Q4_K_M Q4_K;
    Q5_K Q5_K_M Q5_K;
    Q5_K_S Q5_K_S Q5_K;
    Q5_K_M Q5_K_M Q5_K;
    Q6_K Q6_K Q6_K;
    Q8_0 Q8_0 Q8_0;
    F16 F16 F16;
    BF16 BF16 BF16;
    F32 F32 F32;
};

impl Target {
    /// Every target, names that mean the same included.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TARGETS.iter().map(Self)
    }

    /// Every tensor stays what it is, but for what options say.
    pub fn copy() -> Self {
        Self(&COPY)
    }

    /// The name, as `llama-quantize` spells it.
    pub fn name(self) -> &'static str {
        self.0.0
    }

    /// The file type; meaningless for a [copy](Self::is_copy), which keeps that of its source.
    pub fn file_type(self) -> FileType {
        self.0.1
    }

    /// The type that tensors without a rule of their own get, or `None` where each keeps its own.
    pub fn default_type(self) -> Option<GgmlType> {
        match self.0.2 {
            Default::Is(ggml_type) => Some(ggml_type),
            Default::Copy => None,
        }
    }

    /// Whether tensors stay what they are.
    pub fn is_copy(self) -> bool {
        self.default_type().is_none()
    }
}

/// The text is not the name or number of a [`Target`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTarget(());

impl fmt::Display for UnknownTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a type such as Q4_K_M")
    }
}

impl std::error::Error for UnknownTarget {}

impl FromStr for Target {
    type Err = UnknownTarget;

    /// The target with this name, upper and lower case alike, or with this number.
    fn from_str(text: &str) -> Result<Self, UnknownTarget> {
        let by_name = TARGETS.iter().find(|row| row.0.eq_ignore_ascii_case(text));
        let by_number = || {
            let number = text.parse().ok()?;
            TARGETS.iter().find(|row| row.1 == FileType(number))
        };
        by_name.or_else(by_number).map(Self).ok_or(UnknownTarget(()))
    }
}
