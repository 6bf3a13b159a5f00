//! Packed weights and their values, element by element, as the formats define them.

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{
    Bilinear, CodedBlocks, Expression, Fp8Blocks, MemorySource, Mxfp4, Narrow, Nvfp4,
    PackedIntegers, TernaryRows,
};

use crate::naive::Array;

/// Builds the input tensors of a packing.
struct Making<'a> {
    source: &'a mut MemorySource,
    seed: u32,
}

impl Making<'_> {
    /// Returns pseudorandom bytes with only these bits.
    fn bytes(&mut self, count: u64, mask: u8) -> Vec<u8> {
        self.seed += 1;
        let seed = self.seed << 16;
        let byte = |i: u32| (((seed + i).wrapping_mul(2_654_435_761) >> 24) as u8) & mask;
        (0..u32::try_from(count).unwrap()).map(byte).collect()
    }

    fn add(&mut self, ggml_type: GgmlType, dimensions: &[u64], bytes: Vec<u8>) -> Expression {
        let shape = Shape::new(dimensions).unwrap();
        let name = format!("packed {}", self.seed);
        self.seed += 1;
        let number = self.source.add(name, ggml_type, shape, bytes).unwrap();
        Expression::tensor(self.source, number).unwrap()
    }

    fn bytes_of(&mut self, dimensions: &[u64], mask: u8) -> (Expression, Vec<u8>) {
        let bytes = self.bytes(dimensions.iter().product(), mask);
        (self.add(GgmlType::I8, dimensions, bytes.clone()), bytes)
    }

    /// Adds a tensor of 32-bit integers.
    fn words(&mut self, dimensions: &[u64]) -> (Expression, Vec<u32>) {
        let bytes = self.bytes(4 * dimensions.iter().product::<u64>(), 0xff);
        let words = bytes.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        (self.add(GgmlType::I32, dimensions, bytes), words)
    }

    /// Adds a tensor of floats.
    fn floats(&mut self, dimensions: &[u64]) -> (Expression, Vec<f32>) {
        let bytes = self.bytes(dimensions.iter().product(), 0xff);
        let floats: Vec<f32> = bytes.iter().map(|&byte| (f32::from(byte) - 99.0) / 7.0).collect();
        let bytes = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
        (self.add(GgmlType::F32, dimensions, bytes), floats)
    }
}

fn array(dimensions: [u64; 2], element: impl Fn(usize, usize) -> f32) -> Array {
    let [columns, rows] = dimensions.map(|extent| usize::try_from(extent).unwrap());
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let elements = places.map(|(row, column)| f64::from(element(row, column))).collect();
    Array { dimensions: dimensions.to_vec(), ggml_type: GgmlType::F32, elements }
}

/// Returns the expression and the values of every packing.
pub(crate) fn packings(source: &mut MemorySource) -> Vec<(Expression, Array)> {
    let mut making = Making { source, seed: 0 };
    let making = &mut making;
    let mut all = vec![
        fp8(making),
        mxfp4(making),
        nvfp4(making),
        ternary(making),
        bilinear(making),
        narrow(making),
    ];
    all.extend([
        gptq(making, 4, false),
        gptq(making, 2, true),
        gptq(making, 8, false),
        pack_quantized(making, 4, false),
        pack_quantized(making, 8, true),
        awq(making),
        four_bits(making, false),
        four_bits(making, true),
    ]);
    all
}

fn fp8(making: &mut Making<'_>) -> (Expression, Array) {
    let (weights, bytes) = making.bytes_of(&[11, 9], 0x77);
    let (scales, numbers) = making.floats(&[3, 3]);
    let value = |byte: u8| {
        let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7) / 8.0);
        if exponent == 0 {
            mantissa * 2f32.powi(-6)
        } else {
            (1.0 + mantissa) * 2f32.powi(exponent - 7)
        }
    };
    let element = |row, column| value(bytes[row * 11 + column]) * numbers[row / 4 * 3 + column / 4];
    let decoded = Expression::decode(Fp8Blocks::new(4, 4), &[weights, scales]).unwrap();
    (decoded, array([11, 9], element))
}

/// 64-bit integers in the range of 32 bits.
fn narrow(making: &mut Making<'_>) -> (Expression, Array) {
    let edges = [0, -1, i64::from(i32::MAX), i64::from(i32::MIN), 17];
    let numbers: Vec<i64> = edges.into_iter().cycle().take(15).collect();
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let wide = making.add(GgmlType::I64, &[5, 3], bytes);
    let decoded = Expression::decode(Narrow::new(), &[wide]).unwrap();
    let elements = numbers.iter().map(|&number| number as f64).collect();
    (decoded, Array { dimensions: vec![5, 3], ggml_type: GgmlType::I32, elements })
}

/// A grid of 5 by 4 vectors, resampled to 3 by 7.
fn bilinear(making: &mut Making<'_>) -> (Expression, Array) {
    let (grid, numbers) = making.floats(&[6, 5, 4]);
    let at = |element: usize, x: usize, y: usize| numbers[(y * 5 + x) * 6 + element];
    let place = |number: usize, ratio: f32, last: usize| {
        let real = ratio * number as f32;
        let first = (0..=last).rev().find(|&first| first as f32 <= real).unwrap();
        (first, (first + 1).min(last), real - first as f32)
    };
    let element = |row: usize, element: usize| {
        let (x, next_x, right) = place(row % 3, 4.0 / 2.0, 4);
        let (y, next_y, down) = place(row / 3, 3.0 / 6.0, 3);
        let (left, up) = (1.0 - right, 1.0 - down);
        let sum = at(element, x, next_y) * (down * left);
        let sum = at(element, next_x, next_y).mul_add(down * right, sum);
        let sum = at(element, next_x, y).mul_add(up * right, sum);
        at(element, x, y).mul_add(up * left, sum)
    };
    let decoded = Expression::decode(Bilinear::new(3, 7), &[grid]).unwrap();
    let Array { ggml_type, elements, .. } = array([6, 21], element);
    (decoded, Array { dimensions: vec![6, 3, 7], ggml_type, elements })
}

/// Returns the value of a 4-bit float (E2M1).
fn four_bit_float(bits: u8) -> f32 {
    let magnitude = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(bits & 7)];
    if bits <= 8 { magnitude } else { -magnitude }
}

fn mxfp4(making: &mut Making<'_>) -> (Expression, Array) {
    let (weights, bytes) = making.bytes_of(&[16, 2, 3], 0xff);
    let exponents: Vec<u8> = (120..126).collect();
    let scales = making.add(GgmlType::I8, &[2, 3], exponents.clone());
    let element = |row: usize, column: usize| {
        let place = row * 64 + column;
        let scale = 2f32.powi(i32::from(exponents[place / 32]) - 127);
        four_bit_float(bytes[place / 2] >> (place % 2 * 4) & 15) * scale
    };
    let decoded = Expression::decode(Mxfp4::new(), &[weights, scales]).unwrap();
    (decoded, array([64, 3], element))
}

fn nvfp4(making: &mut Making<'_>) -> (Expression, Array) {
    let (weights, bytes) = making.bytes_of(&[64, 3], 0xff);
    let (scales, scale_bytes) = making.bytes_of(&[8, 3], 0xf7);
    let element = |row: usize, column: usize| {
        let place = row * 128 + column;
        let scale = scale_bytes[place / 16];
        let (exponent, mantissa) = (i32::from(scale >> 3 & 15), f32::from(scale & 7) / 8.0);
        let scale = if exponent == 0 {
            mantissa * 2f32.powi(-6)
        } else {
            (1.0 + mantissa) * 2f32.powi(exponent - 7)
        };
        four_bit_float(bytes[place / 2] >> (place % 2 * 4) & 15) * scale
    };
    let decoded = Expression::decode(Nvfp4::new(), &[weights, scales]).unwrap();
    (decoded, array([128, 3], element))
}

fn ternary(making: &mut Making<'_>) -> (Expression, Array) {
    let (weights, bytes) = making.bytes_of(&[5, 3], 0xff);
    let (scale, numbers) = making.floats(&[1]);
    let element = |row: usize, column: usize| {
        let byte = bytes[row % 3 * 5 + column];
        (f32::from(byte >> (row / 3 * 2) & 3) - 1.0) / numbers[0]
    };
    let decoded = Expression::decode(TernaryRows::new(), &[weights, scale]).unwrap();
    (decoded, array([5, 12], element))
}

/// Returns level `number` in 32-bit words.
fn level(words: &[u32], bits: usize, number: usize) -> i32 {
    let fields = 32 / bits;
    i32::try_from(words[number / fields] >> (number % fields * bits) & ((1 << bits) - 1)).unwrap()
}

/// GPTQ packs rows of the stored tensor into words, stores zero points minus one, and can reorder
/// groups.
fn gptq(making: &mut Making<'_>, bits: usize, is_ordered: bool) -> (Expression, Array) {
    let (fields, columns, rows, groups) = (32 / bits, 16 * 3, 16, 3);
    let extent = |count: usize| u64::try_from(count).unwrap();
    let (weights, words) = making.words(&[16, extent(columns / fields)]);
    let (zeros, words_of_zeros) = making.words(&[extent(rows / fields), extent(groups)]);
    let (scales, numbers) = making.floats(&[16, extent(groups)]);
    let group_of: Vec<usize> =
        (0..columns).map(|column| if is_ordered { column / 16 } else { column * 7 % 3 }).collect();
    let bytes =
        group_of.iter().flat_map(|&group| i32::try_from(group).unwrap().to_le_bytes()).collect();
    let group_numbers = making.add(GgmlType::I32, &[extent(columns)], bytes);
    let element = |row: usize, column: usize| {
        let group = group_of[column];
        let word = words[column / fields * rows + row];
        let weight = level(&[word], bits, column % fields);
        let word = words_of_zeros[group * (rows / fields) + row / fields];
        let zero = level(&[word], bits, row % fields) + 1;
        numbers[group * rows + row] * (weight - zero) as f32
    };
    let packed = PackedIntegers::new(u32::try_from(bits).unwrap(), extent(columns), 16);
    let mut inputs = [weights, scales, zeros].map(|input| input.transpose().unwrap()).to_vec();
    let packed = if is_ordered {
        packed.in_groups(16)
    } else {
        inputs.push(group_numbers);
        packed.with_group_numbers()
    };
    let decoded = Expression::decode(packed.with_zeros(1), &inputs).unwrap();
    (decoded, array([extent(columns), 16], element))
}

/// compressed-tensors packs columns, with rows that end within a word, and zero points of several
/// rows.
fn pack_quantized(making: &mut Making<'_>, bits: usize, has_zeros: bool) -> (Expression, Array) {
    let (fields, rows, group) = (32 / bits, 9usize, 6);
    let stride = 19usize.div_ceil(fields);
    let extent = |count: usize| u64::try_from(count).unwrap();
    let (weights, words) = making.words(&[extent(stride), 9]);
    let (scales, numbers) = making.floats(&[4, 9]);
    let (zeros, words_of_zeros) = making.words(&[4, extent(rows.div_ceil(fields))]);
    let element = |row: usize, column: usize| {
        let weight = level(&words[row * stride..], bits, column);
        let zero = if has_zeros {
            level(&[words_of_zeros[row / fields * 4 + column / group]], bits, row % fields)
        } else {
            1 << (bits - 1)
        };
        (weight - zero) as f32 * numbers[row * 4 + column / group]
    };
    let packed = PackedIntegers::new(u32::try_from(bits).unwrap(), 19, 9).in_groups(6);
    let decoded = if has_zeros {
        Expression::decode(packed.with_zeros(0), &[weights, scales, zeros])
    } else {
        Expression::decode(packed, &[weights, scales])
    };
    (decoded.unwrap(), array([19, 9], element))
}

/// AWQ packs eight rows of the result into a word, interleaved.
fn awq(making: &mut Making<'_>) -> (Expression, Array) {
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
    let (weights, words) = making.words(&[3, 12]);
    let (zeros, words_of_zeros) = making.words(&[3, 2]);
    let (scales, numbers) = making.floats(&[24, 2]);
    let element = |row: usize, column: usize| {
        let field = ORDER.iter().position(|&place| place == row % 8).unwrap();
        let weight = level(&[words[column * 3 + row / 8]], 4, field);
        let zero = level(&[words_of_zeros[column / 6 * 3 + row / 8]], 4, field);
        (weight - zero) as f32 * numbers[column / 6 * 24 + row]
    };
    let packed = PackedIntegers::new(4, 12, 24).interleaved().in_groups(6).with_zeros(0);
    let inputs = [weights, scales, zeros].map(|input| input.transpose().unwrap());
    (Expression::decode(packed, &inputs).unwrap(), array([12, 24], element))
}

/// bitsandbytes stores codebook indices in blocks that span rows.
fn four_bits(making: &mut Making<'_>, is_nested: bool) -> (Expression, Array) {
    let (weights, bytes) = making.bytes_of(&[1, 53], 0xff);
    let (table, numbers) = making.floats(&[16]);
    let (scales, scale_numbers) = making.floats(&[14]);
    let (places, place_bytes) = making.bytes_of(&[14], 0xff);
    let (outer, outer_numbers) = making.floats(&[256]);
    let (nested, nested_numbers) = making.floats(&[3]);
    let element = |row: usize, column: usize| {
        let place = row * 15 + column;
        let number = numbers[usize::from(bytes[place / 2] >> ((1 - place % 2) * 4) & 15)];
        let block = place / 8;
        let scale = if is_nested {
            outer_numbers[usize::from(place_bytes[block])] * nested_numbers[block / 6] + 0.3
        } else {
            scale_numbers[block]
        };
        number * scale
    };
    let blocks = CodedBlocks::new(Shape::new(&[15, 7]).unwrap(), 8);
    let decoded = if is_nested {
        let inputs = [weights, table, places, outer, nested];
        Expression::decode(blocks.with_coded_scales(6, 0.3), &inputs)
    } else {
        Expression::decode(blocks, &[weights, table, scales])
    };
    (decoded.unwrap(), array([15, 7], element))
}
