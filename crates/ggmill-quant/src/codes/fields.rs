//! The positions of scales and codes in the blocks of each type.

use ggmill_core::GgmlType;

/// Bits of a block that are bits of a number. Bits are counted from the lowest of the first byte on.
#[derive(Clone, Copy)]
pub(super) struct Field {
    /// The first bit in the block.
    bit: usize,
    /// The number of bits.
    bits: u32,
    /// The place of the first bit in the number.
    to: u32,
}

/// The fields of a number, at most five.
pub(super) type Fields = [Option<Field>; 5];

/// A number in a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The bits of the half-precision scale of the block.
    Super,
    /// The bits of the half-precision minimum of the block.
    SuperMin,
    /// The level of the scale of a group.
    Scale(usize),
    /// The level of the minimum of a group, or whether its values are shifted down.
    Min(usize),
    /// The code of a cell.
    Code(usize),
}

/// The place of the index of the second point in the code of a cell.
pub(super) const SECOND: u32 = 12;
/// The place of the signs in the code of a cell, or of whether its values are shifted down.
pub(super) const SIGNS: u32 = 24;

impl Field {
    /// Bits of a block from bit `shift` of byte `byte` on.
    const fn new(byte: usize, shift: usize, bits: u32, to: u32) -> Self {
        Self { bit: 8 * byte + shift, bits, to }
    }

    fn get(self, block: &[u8]) -> u32 {
        (0..self.bits).fold(0, |number, i| {
            let bit = self.bit + i as usize;
            number | u32::from(block[bit / 8] >> (bit % 8) & 1) << (self.to + i)
        })
    }

    fn set(self, block: &mut [u8], number: u32) {
        for i in 0..self.bits {
            let bit = self.bit + i as usize;
            let byte = &mut block[bit / 8];
            *byte &= !(1 << (bit % 8));
            *byte |= ((number >> (self.to + i) & 1) as u8) << (bit % 8);
        }
    }
}

/// Returns fields as a list.
fn of<const N: usize>(fields: [Field; N]) -> Fields {
    let mut all = [None; 5];
    for (place, field) in all.iter_mut().zip(fields) {
        *place = Some(field);
    }
    all
}

/// Reads a number.
pub(super) fn read(fields: Fields, block: &[u8]) -> u32 {
    fields.into_iter().flatten().fold(0, |number, field| number | field.get(block))
}

/// Replaces a number.
pub(super) fn write(fields: Fields, block: &mut [u8], number: u32) {
    for field in fields.into_iter().flatten() {
        field.set(block, number);
    }
}

/// Returns the number of bits of a number.
pub(super) fn width(fields: Fields) -> u32 {
    fields.into_iter().flatten().map(|field| field.bits).sum()
}

/// Returns the fields of a number: none if the type has no such number.
pub(super) fn fields(ggml_type: GgmlType, part: Part) -> Fields {
    use GgmlType as T;
    let half = |byte| of([Field::new(byte, 0, 16, 0)]);
    match (ggml_type, part) {
        (T::Q2_K, Part::Super) => half(80),
        (T::Q2_K, Part::SuperMin) => half(82),
        (T::Q3_K, Part::Super) => half(108),
        (T::Q6_K, Part::Super) => half(208),
        (T::TQ1_0, Part::Super) => half(52),
        (T::TQ2_0, Part::Super) => half(64),
        // The four highest bits of each of four words.
        (T::IQ1_M, Part::Super) => {
            of([0, 1, 2, 3].map(|word| Field::new(49 + 2 * word, 4, 4, 4 * word as u32)))
        }
        (T::MXFP4 | T::NVFP4, Part::Super) => of([]),
        (_, Part::Super) => half(0),
        (T::Q4_1 | T::Q5_1 | T::Q4_K | T::Q5_K, Part::SuperMin) => half(2),

        (T::Q2_K, Part::Scale(group)) => of([Field::new(group, 0, 4, 0)]),
        (T::Q2_K, Part::Min(group)) => of([Field::new(group, 4, 4, 0)]),
        (T::Q3_K, Part::Scale(group)) => of([
            Field::new(96 + group % 8, 4 * (group / 8), 4, 0),
            Field::new(104 + group % 4, 2 * (group / 4), 2, 4),
        ]),
        (T::Q4_K | T::Q5_K, Part::Scale(group @ ..4)) => of([Field::new(4 + group, 0, 6, 0)]),
        (T::Q4_K | T::Q5_K, Part::Min(group @ ..4)) => of([Field::new(8 + group, 0, 6, 0)]),
        (T::Q4_K | T::Q5_K, Part::Scale(group)) => {
            of([Field::new(8 + group, 0, 4, 0), Field::new(group, 6, 2, 4)])
        }
        (T::Q4_K | T::Q5_K, Part::Min(group)) => {
            of([Field::new(8 + group, 4, 4, 0), Field::new(4 + group, 6, 2, 4)])
        }
        (T::Q6_K, Part::Scale(group)) => of([Field::new(192 + group, 0, 8, 0)]),
        (T::IQ4_XS, Part::Scale(group)) => {
            of([Field::new(4 + group / 2, 4 * (group % 2), 4, 0), Field::new(2, 2 * group, 2, 4)])
        }
        (T::MXFP4, Part::Scale(_)) => of([Field::new(0, 0, 8, 0)]),
        (T::NVFP4, Part::Scale(group)) => of([Field::new(group, 0, 7, 0)]),
        (T::IQ2_XXS, Part::Scale(group)) => of([Field::new(9 + 8 * group, 4, 4, 0)]),
        (T::IQ2_XS, Part::Scale(group)) => of([Field::new(66 + group / 2, 4 * (group % 2), 4, 0)]),
        (T::IQ2_S, Part::Scale(group)) => of([Field::new(74 + group / 2, 4 * (group % 2), 4, 0)]),
        (T::IQ3_XXS, Part::Scale(group)) => of([Field::new(69 + 4 * group, 4, 4, 0)]),
        (T::IQ3_S, Part::Scale(group)) => of([Field::new(106 + group / 2, 4 * (group % 2), 4, 0)]),
        (T::IQ1_S, Part::Scale(group)) => of([Field::new(35 + 2 * group, 4, 3, 0)]),
        (T::IQ1_S, Part::Min(group)) => of([Field::new(35 + 2 * group, 7, 1, 0)]),
        (T::IQ1_M, Part::Scale(group)) => {
            of([Field::new(48 + 2 * (group / 4), 3 * (group % 4), 3, 0)])
        }
        (_, Part::SuperMin | Part::Scale(_) | Part::Min(_)) => of([]),
        (_, Part::Code(cell)) => code_fields(ggml_type, cell),
    }
}

/// Returns the fields of the code of a cell: a weight, or eight weights that share points of a grid.
fn code_fields(ggml_type: GgmlType, cell: usize) -> Fields {
    use GgmlType as T;
    let (half, row, place) = (cell / 128, cell % 128 / 32, cell % 32);
    let nibble = |start: usize, group: usize| {
        let (number, column) = (cell / group, cell % group);
        let (byte, upper) = (column % (group / 2), column / (group / 2));
        Field::new(start + number * (group / 2) + byte, 4 * upper, 4, 0)
    };
    let fifth_bit = |start: usize| Field::new(start + cell / 8, cell % 8, 1, 4);
    let two_bits = |start: usize| Field::new(start + 32 * half + place, 2 * row, 2, 0);
    match ggml_type {
        T::Q4_0 | T::IQ4_NL => of([nibble(2, 32)]),
        T::Q4_1 => of([nibble(4, 32)]),
        T::MXFP4 => of([nibble(1, 32)]),
        T::NVFP4 => of([nibble(4, 16)]),
        T::IQ4_XS => of([nibble(8, 32)]),
        T::Q5_0 => of([nibble(6, 32), fifth_bit(2)]),
        T::Q5_1 => of([nibble(8, 32), fifth_bit(4)]),
        T::Q8_0 => of([Field::new(2 + cell, 0, 8, 0)]),
        T::Q4_K => of([nibble(16, 64)]),
        T::Q5_K => of([nibble(48, 64), Field::new(16 + place, cell / 32, 1, 4)]),
        T::Q2_K => of([two_bits(16)]),
        T::TQ2_0 => of([two_bits(0)]),
        T::Q3_K => of([two_bits(32), Field::new(place, cell / 32, 1, 2)]),
        T::Q6_K => of([
            Field::new(64 * half + 32 * (row % 2) + place, 4 * (row / 2), 4, 0),
            Field::new(128 + 32 * half + place, 2 * row, 2, 4),
        ]),
        T::Q1_0 => of([Field::new(2 + cell / 8, cell % 8, 1, 0)]),
        T::Q2_0 => of([Field::new(2 + cell / 4, 2 * (cell % 4), 2, 0)]),
        T::IQ2_XXS => {
            let group = 2 + 8 * (cell / 4);
            of([
                Field::new(group + cell % 4, 0, 8, 0),
                Field::new(group + 4, 7 * (cell % 4), 7, SIGNS),
            ])
        }
        T::IQ2_XS => of([Field::new(2 + 2 * cell, 0, 9, 0), Field::new(3 + 2 * cell, 1, 7, SIGNS)]),
        T::IQ2_S => of([
            Field::new(2 + cell, 0, 8, 0),
            Field::new(66 + cell / 4, 2 * (cell % 4), 2, 8),
            Field::new(34 + cell, 0, 8, SIGNS),
        ]),
        T::IQ3_XXS => of([
            Field::new(2 + 2 * cell, 0, 8, 0),
            Field::new(3 + 2 * cell, 0, 8, SECOND),
            Field::new(66 + 4 * (cell / 4), 7 * (cell % 4), 7, SIGNS),
        ]),
        T::IQ3_S => {
            let (byte, shift) = (66 + cell / 4, cell % 4 * 2);
            of([
                Field::new(2 + 2 * cell, 0, 8, 0),
                Field::new(byte, shift, 1, 8),
                Field::new(3 + 2 * cell, 0, 8, SECOND),
                Field::new(byte, shift + 1, 1, SECOND + 8),
                Field::new(74 + cell, 0, 8, SIGNS),
            ])
        }
        T::IQ1_S => of([
            Field::new(2 + cell, 0, 8, 0),
            Field::new(34 + 2 * (cell / 4), 3 * (cell % 4), 3, 8),
        ]),
        T::IQ1_M => of([
            Field::new(cell, 0, 8, 0),
            Field::new(32 + cell / 2, 4 * (cell % 2), 3, 8),
            Field::new(32 + cell / 2, 4 * (cell % 2) + 3, 1, SIGNS),
        ]),
        _ => of([]),
    }
}
