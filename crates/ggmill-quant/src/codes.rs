//! The codes of a block: for each weight the integer that selects one of the values that the scales of
//! the block allow. For encoders that choose the codes one by one.

use ggmill_core::{BlockLayout, GgmlType};

use crate::codec::{BlockCodec, codec};
use crate::error::Result;

/// Access to the codes of a type in which each weight has separate bits.
///
/// ```
/// use ggmill_core::GgmlType;
/// use ggmill_quant::{Codes, quantize};
/// let codes = Codes::of(GgmlType::Q4_0).ok_or("has codes")?;
/// let mut block = [0; 18];
/// quantize(GgmlType::Q4_0, &[-8.0; 32], 32, None, &mut block)?;
/// codes.set(&mut block, 31, 9);
/// let mut values = vec![0.0; codes.count() * 32];
/// codes.values(&block, &mut values)?;
/// assert_eq!((codes.get(&block, 31), values[9 * 32 + 31]), (9, 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    codec: &'static dyn BlockCodec,
    layout: BlockLayout,
    bits: u32,
}

/// Some bits of a code: `bits` bits from bit `shift` of a byte on, at bit `to` of the code.
#[derive(Clone, Copy)]
struct Field {
    byte: usize,
    shift: usize,
    bits: u32,
    to: u32,
}

impl Field {
    const fn new(byte: usize, shift: usize, bits: u32, to: u32) -> Self {
        Self { byte, shift, bits, to }
    }

    fn mask(self) -> u8 {
        (1 << self.bits) - 1
    }

    fn get(self, block: &[u8]) -> u8 {
        (block[self.byte] >> self.shift & self.mask()) << self.to
    }

    fn set(self, block: &mut [u8], code: u8) {
        let byte = &mut block[self.byte];
        *byte &= !(self.mask() << self.shift);
        *byte |= (code >> self.to & self.mask()) << self.shift;
    }
}

impl Codes {
    /// Returns access to the codes of a type; `None` for a type whose weights share bits, or that has no
    /// blocks, or more than 64 values per scale.
    pub fn of(ggml_type: GgmlType) -> Option<Self> {
        let bits = match ggml_type {
            GgmlType::Q2_K => 2,
            GgmlType::Q3_K => 3,
            GgmlType::Q4_0 | GgmlType::Q4_1 | GgmlType::IQ4_NL | GgmlType::IQ4_XS => 4,
            GgmlType::Q4_K | GgmlType::MXFP4 => 4,
            GgmlType::Q5_0 | GgmlType::Q5_1 | GgmlType::Q5_K => 5,
            GgmlType::Q6_K => 6,
            _ => return None,
        };
        Some(Self { codec: codec(ggml_type).ok()?, layout: ggml_type.layout()?, bits })
    }

    /// Returns the number of weights in a block.
    pub fn elements(&self) -> usize {
        self.layout.elements as usize
    }

    /// Returns the size of a block, in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.bytes as usize
    }

    /// Returns the number of codes.
    pub fn count(&self) -> usize {
        1 << self.bits
    }

    /// Returns the code of a weight.
    pub fn get(&self, block: &[u8], column: usize) -> u8 {
        self.fields(column).into_iter().flatten().fold(0, |code, field| code | field.get(block))
    }

    /// Replaces the code of a weight. The scales stay as they are.
    pub fn set(&self, block: &mut [u8], column: usize, code: u8) {
        for field in self.fields(column).into_iter().flatten() {
            field.set(block, code);
        }
    }

    /// Writes the values that each code stands for: a row per code, in it a value for each weight.
    ///
    /// # Errors
    ///
    /// If `block` is not one block, or `out` has a different length from `count() * elements()`.
    pub fn values(&self, block: &[u8], out: &mut [f32]) -> Result<()> {
        let mut block = block.to_vec();
        for (code, row) in out.chunks_mut(self.elements()).enumerate() {
            for column in 0..self.elements() {
                self.set(&mut block, column, code as u8);
            }
            self.codec.dequantize(&block, row)?;
        }
        Ok(())
    }

    /// Returns where the code of a weight is.
    fn fields(&self, column: usize) -> [Option<Field>; 2] {
        let (half, row, place) = (column / 128, column % 128 / 32, column % 32);
        let nibble = |start: usize, group: usize| {
            let (number, column) = (column / group, column % group);
            let (byte, upper) = (column % (group / 2), column / (group / 2));
            Field::new(start + number * (group / 2) + byte, 4 * upper, 4, 0)
        };
        let fifth_bit = |start: usize| Field::new(start + column / 8, column % 8, 1, 4);
        match self.codec.ggml_type() {
            GgmlType::Q4_0 | GgmlType::IQ4_NL => [Some(nibble(2, 32)), None],
            GgmlType::Q4_1 => [Some(nibble(4, 32)), None],
            GgmlType::MXFP4 => [Some(nibble(1, 32)), None],
            GgmlType::IQ4_XS => [Some(nibble(8, 32)), None],
            GgmlType::Q5_0 => [Some(nibble(6, 32)), Some(fifth_bit(2))],
            GgmlType::Q5_1 => [Some(nibble(8, 32)), Some(fifth_bit(4))],
            GgmlType::Q4_K => [Some(nibble(16, 64)), None],
            GgmlType::Q5_K => {
                [Some(nibble(48, 64)), Some(Field::new(16 + place, column / 32, 1, 4))]
            }
            GgmlType::Q2_K => [Some(Field::new(16 + 32 * half + place, 2 * row, 2, 0)), None],
            GgmlType::Q3_K => [
                Some(Field::new(32 + 32 * half + place, 2 * row, 2, 0)),
                Some(Field::new(place, column / 32, 1, 2)),
            ],
            _ => {
                let low = 64 * half + 32 * (row % 2) + place;
                [
                    Some(Field::new(low, 4 * (row / 2), 4, 0)),
                    Some(Field::new(128 + 32 * half + place, 2 * row, 2, 4)),
                ]
            }
        }
    }
}
