use core::fmt;
use core::str::FromStr;

use super::UnknownName;

/// How a tensor type packs its elements: `elements` of them in `bytes` bytes, block after block
/// along the first dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BlockLayout {
    /// Elements in one block (1 for plain numbers, 32 or 256 for most quantized types).
    pub elements: u32,
    /// Bytes of one block.
    pub bytes: u32,
}

impl BlockLayout {
    /// Bytes of `elements` elements, or `None` when they are not whole blocks or the product
    /// exceeds `u64`.
    pub const fn bytes_for(self, elements: u64) -> Option<u64> {
        let block = self.elements as u64;
        if block == 0 || !elements.is_multiple_of(block) {
            return None;
        }
        match elements.checked_div(block) {
            Some(blocks) => blocks.checked_mul(self.bytes as u64),
            None => None,
        }
    }

    /// Bits one element takes on average.
    pub fn bits_per_weight(self) -> f64 {
        f64::from(self.bytes) * 8.0 / f64::from(self.elements)
    }
}

/// The type of a tensor's elements (`ggml_type` in ggml 0.25.3: numbers 0 to 42).
///
/// ```
/// use ggmill_core::GgmlType;
/// let layout = GgmlType::Q4_K.layout().ok_or("known")?;
/// assert_eq!((layout.elements, layout.bytes), (256, 144));
/// assert_eq!(layout.bytes_for(4096), Some(2304));
/// assert_eq!(GgmlType(57).to_string(), "type 57");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an open code: the number is the whole of it")]
pub struct GgmlType(pub u32);

/// The properties of one type: number, name, elements and bytes of a block, and whether upstream
/// has retired it.
struct Known(u32, &'static str, u32, u32, Standing);

#[derive(Clone, Copy, PartialEq)]
enum Standing {
    Current,
    Retired,
}

macro_rules! ggml_types {
    ($($id:literal $name:ident $elements:literal / $bytes:literal $standing:ident;)*) => {
        impl GgmlType {
            $(
                #[doc = concat!("`", stringify!($name), "`, number ", $id, ": ", $elements, " elements in ", $bytes, " bytes.")]
                #[allow(non_upper_case_globals, reason = "the specification's spelling is the name people search for")]
                pub const $name: Self = Self($id);
            )*
        }
        static KNOWN: &[Known] = &[$(Known($id, stringify!($name), $elements, $bytes, Standing::$standing)),*];
    };
}

// Sizes of the retired types: Q4_2 and Q4_3 from the spring of 2023 (16 elements, f16 scale, and
// for Q4_3 an f16 minimum); the 4x4, 4x8 and 8x8 forms are Q4_0 and IQ4_NL blocks interleaved, so
// the size per block is that of the plain type.
ggml_types! {
    0 F32 1/4 Current;
    1 F16 1/2 Current;
    2 Q4_0 32/18 Current;
    3 Q4_1 32/20 Current;
    4 Q4_2 16/10 Retired;
    5 Q4_3 16/12 Retired;
    6 Q5_0 32/22 Current;
    7 Q5_1 32/24 Current;
    8 Q8_0 32/34 Current;
    9 Q8_1 32/36 Current;
    10 Q2_K 256/84 Current;
    11 Q3_K 256/110 Current;
    12 Q4_K 256/144 Current;
    13 Q5_K 256/176 Current;
    14 Q6_K 256/210 Current;
    15 Q8_K 256/292 Current;
    16 IQ2_XXS 256/66 Current;
    17 IQ2_XS 256/74 Current;
    18 IQ3_XXS 256/98 Current;
    19 IQ1_S 256/50 Current;
    20 IQ4_NL 32/18 Current;
    21 IQ3_S 256/110 Current;
    22 IQ2_S 256/82 Current;
    23 IQ4_XS 256/136 Current;
    24 I8 1/1 Current;
    25 I16 1/2 Current;
    26 I32 1/4 Current;
    27 I64 1/8 Current;
    28 F64 1/8 Current;
    29 IQ1_M 256/56 Current;
    30 BF16 1/2 Current;
    31 Q4_0_4_4 32/18 Retired;
    32 Q4_0_4_8 32/18 Retired;
    33 Q4_0_8_8 32/18 Retired;
    34 TQ1_0 256/54 Current;
    35 TQ2_0 256/66 Current;
    36 IQ4_NL_4_4 32/18 Retired;
    37 IQ4_NL_4_8 32/18 Retired;
    38 IQ4_NL_8_8 32/18 Retired;
    39 MXFP4 32/17 Current;
    40 NVFP4 64/36 Current;
    41 Q1_0 128/18 Current;
    42 Q2_0 64/18 Current;
}

impl GgmlType {
    /// Every number that has ever had a name upstream, in order: retired ones included.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        KNOWN.iter().map(|known| Self(known.0))
    }

    fn known(self) -> Option<&'static Known> {
        // The table has no holes: entry i describes number i (a test holds it to that).
        KNOWN.get(usize::try_from(self.0).ok()?)
    }

    /// The name upstream uses, or `None` for a number it has never assigned.
    pub fn name(self) -> Option<&'static str> {
        self.known().map(|known| known.1)
    }

    /// The block layout, or `None` for a number upstream has never assigned.
    pub fn layout(self) -> Option<BlockLayout> {
        self.known().map(|known| BlockLayout { elements: known.2, bytes: known.3 })
    }

    /// Whether upstream once had the type and has removed it: its size is known, its data is not
    /// read any more.
    pub fn is_retired(self) -> bool {
        self.known().is_some_and(|known| known.4 == Standing::Retired)
    }

    /// Whether elements are packed in blocks with shared scales (everything but plain integers and
    /// floats).
    pub fn is_quantized(self) -> bool {
        self.layout().is_some_and(|layout| layout.elements > 1)
    }
}

impl FromStr for GgmlType {
    type Err = UnknownName;

    /// The type with this name, upper and lower case alike.
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        KNOWN
            .iter()
            .find(|known| known.1.eq_ignore_ascii_case(name))
            .map(|known| Self(known.0))
            .ok_or(UnknownName(()))
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&alloc::format!("type {}", self.0)),
        }
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_no_holes() {
        for (number, known) in KNOWN.iter().enumerate() {
            assert_eq!(known.0 as usize, number);
        }
        assert_eq!(KNOWN.len(), 43);
    }

    #[test]
    fn names_lead_back() {
        for ggml_type in GgmlType::all() {
            assert_eq!(ggml_type.name().unwrap().parse::<GgmlType>().ok(), Some(ggml_type));
        }
        assert_eq!("q4_k".parse::<GgmlType>().ok(), Some(GgmlType::Q4_K));
        assert_eq!("Q4K".parse::<GgmlType>().ok(), None);
    }

    #[test]
    fn only_whole_blocks_have_a_size() {
        let layout = GgmlType::NVFP4.layout().unwrap();
        assert_eq!(layout.bytes_for(64), Some(36));
        assert_eq!(layout.bytes_for(32), None);
        assert_eq!(layout.bytes_for(0), Some(0));
        assert_eq!(GgmlType::F64.layout().unwrap().bytes_for(u64::MAX), None);
    }
}
