//! The codes of blocks: every value is reached, and only the weight that is changed.

use ggmill_core::GgmlType;
use ggmill_quant::{Codes, dequantize};

use crate::inputs::random_bytes;

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_code_determines_the_value_of_one_weight() {
    let mut types = 0;
    for (ggml_type, codes) in
        GgmlType::all().filter_map(|ggml_type| Some((ggml_type, Codes::of(ggml_type)?)))
    {
        types += 1;
        for seed in 0..4 {
            let mut block = random_bytes(seed, codes.bytes());
            let (elements, original) = (codes.elements(), block.clone());
            let decoded = |block: &[u8]| {
                let mut values = vec![0.0; elements];
                dequantize(ggml_type, block, &mut values).unwrap();
                bits(&values)
            };
            let mut values = vec![0.0; codes.count() * elements];
            codes.values(&block, &mut values).unwrap();
            let (values, before) = (bits(&values), decoded(&block));
            for column in 0..elements {
                let code = codes.get(&block, column);
                assert_eq!(before[column], values[usize::from(code) * elements + column]);
                let other = (usize::from(code) + 1 + column) % codes.count();
                codes.set(&mut block, column, other as u8);
                let mut expected = before.clone();
                expected[column] = values[other * elements + column];
                assert_eq!(decoded(&block), expected, "{ggml_type}, weight {column}");
                codes.set(&mut block, column, code);
                assert_eq!(block, original, "{ggml_type}, weight {column}");
            }
        }
    }
    assert_eq!(types, 12);
}
