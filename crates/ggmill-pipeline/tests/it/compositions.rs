//! Random compositions of all steps, compared with the naive interpreter. `PROPTEST_CASES=10000
//! cargo test -p ggmill-pipeline --test it compositions` tries ten thousand.

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Checkpoint as _, Encoding, Expression, MemorySource};
use proptest::prelude::*;

use crate::naive::{Array, decoded};
use crate::packings::packings;

/// Limit for elements, because the interpreter is slow.
const MAX_ELEMENTS: u64 = 6000;

/// Limit for the rank.
const RANK: usize = 6;

/// One step with raw random numbers, which are reduced to valid parameters later.
#[derive(Clone, Copy, Debug)]
struct Step(u8, [u16; 4]);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..34u8, any::<[u16; 4]>()).prop_map(|(kind, numbers)| Step(kind, numbers));
    prop::collection::vec(step, 1..14)
}

fn shape(dimensions: &[u64]) -> Shape {
    Shape::new(dimensions).unwrap()
}

/// Creates a source with tensors of all kinds, and their values.
fn source() -> (MemorySource, Vec<Array>) {
    let (mut source, mut arrays) = (MemorySource::new(), Vec::new());
    let mut state = 12345u32;
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 22) as f32 - 2.0
    };
    let shapes: &[(GgmlType, &[u64])] = &[
        (GgmlType::F32, &[8]),
        (GgmlType::F32, &[6, 10]),
        (GgmlType::F16, &[6, 10]),
        (GgmlType::F16, &[4, 3, 8]),
        (GgmlType::BF16, &[5, 12]),
        (GgmlType::BF16, &[2, 3, 4, 5]),
        (GgmlType::F64, &[7, 4]),
        (GgmlType::I32, &[6, 4]),
        (GgmlType::I64, &[10]),
        (GgmlType::Q8_0, &[64, 6]),
        (GgmlType::Q4_0, &[32, 4, 2]),
        (GgmlType::Q4_K, &[256, 4]),
        (GgmlType::MXFP4, &[96, 2]),
        (GgmlType::F32, &[40, 50]),
    ];
    for (ggml_type, dimensions) in shapes {
        let shape = shape(dimensions);
        let values: Vec<f32> = (0..shape.elements()).map(|_| number()).collect();
        let bytes = match *ggml_type {
            GgmlType::F64 => {
                values.iter().flat_map(|&value| (f64::from(value) * 1.1).to_le_bytes()).collect()
            }
            GgmlType::I32 => {
                values.iter().flat_map(|&value| ((value * 1e9) as i32).to_le_bytes()).collect()
            }
            GgmlType::I64 => {
                values.iter().flat_map(|&value| ((value * 1e9) as i64).to_le_bytes()).collect()
            }
            ggml_type => {
                let mut bytes = vec![
                    0;
                    usize::try_from(
                        ggml_type.layout().unwrap().bytes_for(shape.elements()).unwrap()
                    )
                    .unwrap()
                ];
                ggmill_quant::quantize(
                    ggml_type,
                    &values,
                    usize::try_from(dimensions[0]).unwrap(),
                    None,
                    &mut bytes,
                )
                .unwrap();
                bytes
            }
        };
        arrays.push(decoded(*ggml_type, &bytes, dimensions));
        source.add(format!("{ggml_type} {shape}"), *ggml_type, shape, bytes).unwrap();
    }
    (source, arrays)
}

type Both = (Expression, Array);

/// Returns both, or `None` if both failed. Panics if only one failed.
fn both(expression: ggmill_pipeline::Result<Expression>, array: Option<Array>) -> Option<Both> {
    match (expression, array) {
        (Ok(expression), Some(array)) => Some((expression, array)),
        (Err(_), None) => None,
        (expression, array) => panic!("{expression:?} {:?}", array.map(|array| array.dimensions)),
    }
}

/// Returns permutation `number` of `rank` dimensions.
fn order(mut number: usize, rank: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..rank).collect();
    (0..rank)
        .map(|_| {
            let next = left.remove(number % left.len());
            number /= left.len() + 1;
            next
        })
        .collect()
}

/// Returns dimensions with the same number of elements: one split, two merged, or all flattened.
fn other_dimensions(dimensions: &[u64], [a, b, c, _]: [u16; 4]) -> Vec<u64> {
    let mut dimensions = dimensions.to_vec();
    let at = usize::from(a) % dimensions.len().max(1);
    match c % 4 {
        0 if dimensions.len() > 1 => {
            let at = at.min(dimensions.len() - 2);
            let next = dimensions.remove(at + 1);
            dimensions[at] *= next;
        }
        1 => dimensions = vec![dimensions.iter().product()],
        _ if !dimensions.is_empty() => {
            let divisors: Vec<u64> = (1..=dimensions[at])
                .filter(|divisor| dimensions[at].is_multiple_of(*divisor))
                .collect();
            let Some(&divisor) = divisors.get(usize::from(b) % divisors.len().max(1)) else {
                return dimensions;
            };
            dimensions[at] /= divisor;
            dimensions.insert(at, divisor);
        }
        _ => {}
    }
    dimensions
}

#[expect(clippy::too_many_lines, reason = "one arm for each step")]
fn step(
    source: &MemorySource,
    arrays: &[Array],
    packed: &[Both],
    stack: &[Both],
    Step(kind, numbers): Step,
) -> Option<Both> {
    let [a, b, c, d] = numbers.map(u64::from);
    let tensor = || {
        let number = usize::try_from(a).unwrap() % arrays.len();
        (Expression::tensor(source, number).unwrap(), arrays[number].clone())
    };
    let Some((top, array)) = stack.last() else { return Some(tensor()) };
    let (rank, dimensions) = (array.dimensions.len(), &array.dimensions);
    let dimension = usize::try_from(d).unwrap() % rank.max(1);
    let number = [0.5, -1.0, 3.0, 0.1, 1.0, 1e-3][usize::from(numbers[0]) % 6];
    if rank == 0 || array.len() == 0 {
        return Some(tensor());
    }
    match kind {
        0 | 1 => Some(tensor()),
        2..=4 => {
            let order = order(usize::from(numbers[0]), rank);
            both(top.axes(&order), Some(array.axes(&order)))
        }
        5..=8 => {
            let dimensions = other_dimensions(dimensions, numbers);
            both(top.reshape(shape(&dimensions)), array.reshape(dimensions))
        }
        9..=11 => {
            let (start, step) = (a % (dimensions[dimension] + 1), c % 4);
            let count = b % (dimensions[dimension] / step.max(1) + 2);
            both(
                top.slice(dimension, start, count, step),
                array.slice(dimension, start, count, step),
            )
        }
        12 | 13 => {
            // With itself and a part of itself, possibly modified; sometimes with an earlier array.
            let (changed, changed_array) = if a % 3 == 0 {
                (top.mul(number).unwrap(), array.mul(number))
            } else {
                (top.clone(), array.clone())
            };
            let count = b % (dimensions[dimension] + 1);
            let part = (
                changed.slice(dimension, 0, count, 1).unwrap(),
                changed_array.slice(dimension, 0, count, 1).unwrap(),
            );
            let before =
                if c % 4 == 0 { stack.get(stack.len().wrapping_sub(2)).cloned() } else { None };
            let parts: Vec<Both> = [Some(part), before, Some((top.clone(), array.clone()))]
                .into_iter()
                .flatten()
                .collect();
            let (parts, arrays): (Vec<Expression>, Vec<Array>) = parts.into_iter().unzip();
            both(Expression::concat(dimension, &parts), Array::concat(dimension, &arrays))
        }
        14 => {
            let changed = (top.add(number).unwrap(), array.add(number));
            let (parts, arrays) = if a % 2 == 0 && !top.ggml_type().name().unwrap().starts_with('I')
            {
                ([top.clone(), changed.0], [array.clone(), changed.1])
            } else {
                ([top.clone(), top.clone()], [array.clone(), array.clone()])
            };
            both(Expression::stack(&parts), Array::stack(&arrays))
        }
        15 | 16 => {
            let [before, after] = [a, b].map(|number| i64::try_from(number % 9).unwrap() - 4);
            both(top.resize(dimension, before, after), array.resize(dimension, before, after))
        }
        17 => both(top.repeat(dimension, a % 4), Some(array.repeat(dimension, a % 4))),
        18 => both(top.add(number), Some(array.add(number))),
        19 => both(top.mul(number), Some(array.mul(number))),
        20 if a % 3 == 1 => both(top.softplus(), Some(array.softplus())),
        20 if a % 3 == 2 => both(top.exp().unwrap().sqrt(), Some(array.exp().sqrt())),
        20 => both(top.exp(), Some(array.exp())),
        21 => both(top.neg_exp(), Some(array.neg_exp())),
        22 | 23 => {
            let (other, other_array) = match stack.get(stack.len().wrapping_sub(2)) {
                Some((other, array_of_other)) if other.shape().elements() == array.len() => (
                    other.reshape(*top.shape()).unwrap(),
                    array_of_other.reshape(dimensions.clone()).unwrap(),
                ),
                _ => (top.mul(number).unwrap(), array.mul(number)),
            };
            if kind == 22 && a % 2 == 0 {
                both(top.product(&other), array.product(&other_array))
            } else if kind == 22 {
                // Avoids division by zero.
                let (other, other_array) = (other.exp().unwrap(), other_array.exp());
                both(top.quotient(&other), array.quotient(&other_array))
            } else if a % 2 == 0 {
                both(top.difference(&other), array.difference(&other_array))
            } else {
                both(top.sum(&other), array.sum(&other_array))
            }
        }
        24 => both(top.center(), Some(array.center())),
        25 => both(top.normalize_columns(), Some(array.normalize_columns())),
        26 => both(top.ternarize(), Some(array.ternarize())),
        27 => {
            let other = other_dimensions(&[array.len()], [0, numbers[1], 2, 0]);
            let flat = (top.reshape(shape(&other)).unwrap(), array.reshape(other.clone()).unwrap());
            let turned =
                (flat.0.transpose().unwrap().mul(0.5).unwrap(), flat.1.axes(&[1, 0]).mul(0.5));
            (other[0] * other[0] <= MAX_ELEMENTS)
                .then(|| both(flat.0.matmul(&turned.0), flat.1.matmul(&turned.1)))?
        }
        28 => both(top.permute(a % 4), array.permute(a % 4)),
        29 => {
            let order: Vec<usize> = [1, 0].into_iter().chain(2..rank).collect();
            both(top.transpose(), (rank >= 2).then(|| array.axes(&order)))
        }
        30 => {
            let (start, extent) = (a % dimensions[dimension], dimensions[dimension]);
            let count = b % (extent - start) + 1;
            let slice = |start, count| array.slice(dimension, start, count, 1).unwrap();
            let parts = [
                slice(0, start),
                slice(start, count).mul(number),
                slice(start + count, extent - start - count),
            ];
            let parts: Vec<Array> = parts.into_iter().filter(|part| part.len() > 0).collect();
            both(
                top.within(dimension, start, count, |part| part.mul(number)),
                Array::concat(dimension, &parts),
            )
        }
        31 | 32 => {
            let ggml_type = [
                GgmlType::F16,
                GgmlType::BF16,
                GgmlType::F32,
                GgmlType::Q8_0,
                GgmlType::Q5_0,
                GgmlType::IQ4_NL,
            ][usize::from(numbers[1]) % 6];
            let is_finite = array.elements.iter().all(|value| (*value as f32).abs() < 1e3);
            let fits =
                dimensions[0].is_multiple_of(u64::from(ggml_type.layout().unwrap().elements));
            // Encoding to the same type keeps the blocks, which the interpreter does not model.
            let encoded = if top.ggml_type() == ggml_type
                || !fits
                || !is_finite && ggml_type.is_quantized()
            {
                array.clone()
            } else {
                array.encode(ggml_type)
            };
            let encoding =
                if is_finite && a % 2 == 0 { Encoding::finite() } else { Encoding::default() };
            (fits && (is_finite || !ggml_type.is_quantized()))
                .then(|| both(top.encode(ggml_type, encoding), Some(encoded)))?
        }
        _ if a % 2 == 0 => Some(packed[usize::from(numbers[1]) % packed.len()].clone()),
        _ => {
            let computed =
                Expression::computed(shape(&[b % 7 + 1, c % 5 + 1]), |place| (place as f32).sqrt())
                    .unwrap();
            let elements = (0..computed.shape().elements())
                .map(|place| f64::from((place as f32).sqrt()))
                .collect();
            let dimensions = computed.shape().dimensions().to_vec();
            Some((computed, Array { dimensions, ggml_type: GgmlType::F32, elements }))
        }
    }
}

/// Returns `true` if two numbers are equal including the signs of zeros; all NaNs are equal.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn a_composition_is_what_the_interpreter_says(steps in steps(), cuts in prop::collection::vec(any::<u16>(), 0..5)) {
        let (mut source, arrays) = source();
        let packed = packings(&mut source);
        let mut stack: Vec<Both> = Vec::new();
        for this in steps {
            let Some(next) = step(&source, &arrays, &packed, &stack, this) else { continue };
            if next.1.len() <= MAX_ELEMENTS && next.1.dimensions.len() <= RANK {
                stack.push(next);
            }
        }
        for (expression, array) in stack.iter().rev().take(2) {
            prop_assert_eq!(expression.shape().dimensions(), &array.dimensions[..]);
            let block = u64::from(expression.ggml_type().layout().unwrap().elements);
            let len = array.len();
            let mut cuts: Vec<u64> = cuts.iter().map(|cut| u64::from(*cut) * len / 65535 / block * block).chain([0, len]).collect();
            cuts.sort_unstable();
            let mut bytes = Vec::new();
            for range in cuts.windows(2) {
                bytes.extend(expression.evaluate(&source, range[0]..range[1]).unwrap());
            }
            let found = decoded(expression.ggml_type(), &bytes, &array.dimensions);
            prop_assert_eq!(found.ggml_type, array.ggml_type, "{:?}", expression);
            for (place, (found, expected)) in found.elements.iter().zip(&array.elements).enumerate() {
                prop_assert!(same(*found, *expected), "{:?}: element {} is {}, expected {}", expression, place, found, expected);
            }
            prop_assert_eq!(found.elements.len(), array.elements.len());
        }
        // Only existing inputs are requested.
        let mut fine = true;
        stack.iter().for_each(|(expression, _)| expression.tensors(&mut |number| fine &= number < source.tensors().len()));
        prop_assert!(fine);
    }
}
