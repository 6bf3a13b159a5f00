//! Choices of scales and codes: a block decodes to the values of the choice, with every instruction set.

use ggmill_core::GgmlType;
use ggmill_quant::{
    BlockParts, Codes, GroupChoice, GroupSearch, Isa, PerRow, codec, subtract_products,
};

use crate::inputs::random_bytes;

const ROWS: usize = 16;

/// Returns numbers between -1 and 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let bytes = random_bytes(seed, 2 * count);
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs.iter().map(|pair| f32::from(i16::from_le_bytes(*pair)) / 32768.0).collect()
}

fn all_codes() -> impl Iterator<Item = (GgmlType, Codes)> {
    GgmlType::all().filter_map(|ggml_type| {
        let codes = Codes::of(ggml_type).ok().flatten()?;
        Some((ggml_type, codes))
    })
}

/// Returns a metric whose weights differ and whose neighbouring columns belong together.
fn metric(len: usize) -> Vec<f32> {
    let mut upper = vec![0.0; len * len];
    for column in 0..len {
        upper[column * len + column] = 1.0 + (column % 5) as f32 / 4.0;
        for after in column + 1..len.min(column + 4) {
            upper[column * len + after] = -0.25;
        }
    }
    upper
}

/// Encodes 16 rows of one block, then chooses every group of it again.
fn choose(
    codes: &Codes,
    rows: &[f32],
    isa: Isa,
    upper: &[f32],
    encoded: &[u8],
) -> Vec<GroupChoice> {
    let (elements, group) = (codes.elements(), codes.group());
    let mut search = GroupSearch::new(codes, isa);
    let mut choices = vec![GroupChoice::new(group); elements / group];
    for (number, choice) in choices.iter_mut().enumerate() {
        for (row, block) in encoded.chunks_exact(codes.bytes()).enumerate() {
            let [scale, min] = codes.supers(block);
            (choice.supers[0][row], choice.supers[1][row]) = (scale, min);
            [choice.scales[row], choice.mins[row]] = codes.levels(block, number);
        }
        let target: Vec<PerRow> = (number * group..(number + 1) * group)
            .map(|column| std::array::from_fn(|row| rows[row * elements + column]))
            .collect();
        search.choose(&target, upper, &[0, -3, 2], choice);
    }
    choices
}

fn encoded(ggml_type: GgmlType, codes: &Codes, rows: &[f32]) -> Vec<u8> {
    let mut blocks = vec![0; ROWS * codes.bytes()];
    let importance = vec![1.0; codes.elements()];
    let encoder = codec(ggml_type).unwrap();
    encoder.quantize(rows, codes.elements(), Some(&importance), &mut blocks).unwrap();
    blocks
}

#[test]
fn blocks_decode_to_the_values_of_the_choice() {
    let mut types = 0;
    for (ggml_type, codes) in all_codes() {
        types += 1;
        let (elements, group) = (codes.elements(), codes.group());
        let rows = numbers(ROWS * elements, 7);
        let encoded = encoded(ggml_type, &codes, &rows);
        let choices = choose(&codes, &rows, Isa::best(), &metric(group), &encoded);
        for row in 0..ROWS {
            let of_row = |of: fn(&GroupChoice) -> &PerRow<u16>| -> Vec<u16> {
                choices.iter().map(|choice| of(choice)[row]).collect()
            };
            let units: Vec<f32> =
                choices.iter().flat_map(|choice| &choice.units).map(|unit| unit[row]).collect();
            let parts = BlockParts {
                supers: choices[0].supers.map(|of_rows| of_rows[row]),
                scales: &of_row(|choice| &choice.scales),
                mins: &of_row(|choice| &choice.mins),
                units: &units,
            };
            // What was in the block does not matter.
            let mut block = random_bytes(row as u64, codes.bytes());
            codes.write(&parts, &mut block).unwrap();
            let mut decoded = vec![0.0; elements];
            codec(ggml_type).unwrap().dequantize(&block, &mut decoded).unwrap();
            let values = choices.iter().flat_map(|choice| &choice.values).map(|value| value[row]);
            for (column, (value, decoded)) in values.zip(decoded).enumerate() {
                assert!(
                    (value - decoded).abs() <= 1e-6 * decoded.abs(),
                    "{ggml_type}, row {row}, weight {column}: {value}, {decoded}"
                );
            }
            assert_eq!(codes.supers(&block), parts.supers, "{ggml_type}");
            for (number, choice) in choices.iter().enumerate() {
                let levels = [choice.scales[row], choice.mins[row]];
                assert_eq!(codes.levels(&block, number), levels, "{ggml_type}");
            }
        }
    }
    assert_eq!(types, 25);
}

#[test]
fn no_choice_loses_more_than_the_codec() {
    for (ggml_type, codes) in all_codes() {
        let (elements, group) = (codes.elements(), codes.group());
        let rows = numbers(ROWS * elements, 8);
        let encoded = encoded(ggml_type, &codes, &rows);
        let mut unit = vec![0.0; group * group];
        for column in 0..group {
            unit[column * group + column] = 1.0;
        }
        let choices = choose(&codes, &rows, Isa::best(), &unit, &encoded);
        let mut decoded = vec![0.0; rows.len()];
        codec(ggml_type).unwrap().dequantize(&encoded, &mut decoded).unwrap();
        let loss: f32 = rows.iter().zip(&decoded).map(|(a, b)| (a - b) * (a - b)).sum();
        let found: f32 = choices.iter().flat_map(|choice| choice.losses).sum();
        assert!(found <= 1.0001 * loss, "{ggml_type}: {found}, {loss}");
    }
}

#[test]
fn choices_do_not_depend_on_the_instruction_set() {
    for (ggml_type, codes) in all_codes() {
        let rows = numbers(ROWS * codes.elements(), 9);
        let encoded = encoded(ggml_type, &codes, &rows);
        let metric = metric(codes.group());
        let choices = |isa: Isa| {
            let mut choices = choose(&codes, &rows, isa, &metric, &encoded);
            let target: Vec<PerRow> =
                choices[0].values.iter().map(|v| v.map(|v| v + 0.01)).collect();
            GroupSearch::new(&codes, isa).descend(&target, &metric, &mut choices[0]);
            let mut products = target.clone();
            subtract_products(isa, &target, &metric, codes.group(), &mut products[3..]);
            format!("{choices:?}{products:?}")
        };
        let first = choices(Isa::SCALAR);
        for isa in Isa::available() {
            assert!(choices(isa) == first, "{ggml_type} with {isa}");
        }
    }
}
