//! Comparing tensors of a file with candidates: several chunks, of which some equal several candidates.

use std::ops::ControlFlow;

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{
    Encoding, ErrorKind, Expression, Match, MemorySource, RunOptions, ToMatch, match_tensors,
};

/// Elements of a row, and rows: more than one chunk.
const SHAPE: [u64; 2] = [1 << 18, 6];

fn source() -> (MemorySource, Expression) {
    let mut source = MemorySource::new();
    let count = SHAPE[0] * SHAPE[1];
    // F16 holds the values of the first five rows.
    let value = |index: u64| {
        let small = f32::from(u8::try_from(index * 37 % 251).unwrap()) - 125.0;
        if index < 5 * SHAPE[0] { small } else { small / 3.0 }
    };
    let bytes: Vec<u8> = (0..count).flat_map(|index| value(index).to_le_bytes()).collect();
    let shape = Shape::new(&SHAPE).unwrap();
    source.add("w", GgmlType::F32, shape, bytes).unwrap();
    let values = Expression::named(&source, "w").unwrap();
    (source, values)
}

fn encoded(values: &Expression, types: &[GgmlType]) -> Expression {
    let encode = |of: Expression, &to: &GgmlType| of.encode(to, Encoding::default()).unwrap();
    types.iter().fold(values.clone(), encode)
}

fn file(expression: &Expression, source: &MemorySource) -> MemorySource {
    let mut file = MemorySource::new();
    let all = 0..expression.shape().elements();
    let bytes = expression.evaluate(source, all).unwrap();
    file.add("w", expression.ggml_type(), *expression.shape(), bytes).unwrap();
    file
}

fn compare(candidates: Vec<Expression>, source: &MemorySource, file: &MemorySource) -> Match {
    let tensors = [ToMatch::new(0, candidates)];
    let found = match_tensors(&tensors, source, file, &RunOptions::with_threads(2), &mut |_| {
        ControlFlow::Continue(())
    });
    found.unwrap().remove(0)
}

#[test]
fn a_candidate_that_equals_all_chunks_is_found_among_those_that_equal_some() {
    use GgmlType as T;
    let (source, values) = source();
    let direct = encoded(&values, &[T::Q8_0]);
    let rounded = encoded(&values, &[T::F16, T::Q8_0]);
    let other = encoded(&values, &[T::BF16, T::Q8_0]);
    for candidates in [
        vec![direct.clone(), rounded.clone(), other.clone()],
        vec![other.clone(), direct.clone(), rounded.clone()],
    ] {
        let number = |wanted: &Expression| {
            let file = file(wanted, &source);
            match compare(candidates.clone(), &source, &file) {
                Match::Identical(number) => number,
                found => panic!("{found:?}"),
            }
        };
        let rounded_at = number(&rounded);
        assert_ne!(rounded_at, number(&direct));
    }
    let Match::Different(found) = compare(vec![direct, other], &source, &file(&rounded, &source))
    else {
        panic!("equals another candidate")
    };
    assert_eq!((found.candidate, found.rows), (0, Some((5, 5))));
    assert_eq!(found.blocks, SHAPE[0] * SHAPE[1] / 32);
}

#[test]
fn a_comparison_can_be_cancelled_and_checks_its_candidates() {
    let (source, values) = source();
    let wanted = encoded(&values, &[GgmlType::Q8_0]);
    let file = file(&wanted, &source);
    let run = |candidates, flow: ControlFlow<()>| {
        let tensors = [ToMatch::new(0, candidates)];
        match_tensors(&tensors, &source, &file, &RunOptions::with_threads(1), &mut |_| flow)
    };
    let error = run(vec![wanted.clone()], ControlFlow::Break(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    for candidates in [vec![], vec![values]] {
        let error = run(candidates, ControlFlow::Continue(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    }
}
