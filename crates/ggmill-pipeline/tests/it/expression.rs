//! Single steps, the messages of errors, and the limits of expressions and plans.

use std::ops::ControlFlow;

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{
    ErrorKind, Expression, MemorySource, Recipe, RecipeTensor, Result, RunOptions, run,
};

fn shape(dimensions: &[u64]) -> Shape {
    Shape::new(dimensions).unwrap()
}

fn counting(dimensions: &[u64]) -> Expression {
    Expression::computed(shape(dimensions), |place| place as f32).unwrap()
}

fn numbers(expression: &Expression) -> Vec<f32> {
    let bytes =
        expression.evaluate(&MemorySource::new(), 0..expression.shape().elements()).unwrap();
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

#[test]
fn permute_reorders_rows_of_any_rank() {
    // PyTorch: (4, 2) of 0..8, one head of four rows of two.
    let permuted = counting(&[8]).reshape(shape(&[2, 4])).unwrap().permute(1).unwrap();
    assert_eq!(numbers(&permuted), [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]);
    // Four vectors: `permute` reorders the stack.
    let parts = [0.0, 2.0].map(|by| counting(&[2]).add(by).unwrap());
    let more = parts.clone().map(|part| part.add(4.0).unwrap());
    let stacked = Expression::stack(&[parts, more].concat()).unwrap().permute(1).unwrap();
    assert_eq!(numbers(&stacked), [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]);
}

#[test]
fn errors_name_the_step_and_its_operand() {
    let mut source = MemorySource::new();
    source.add("a", GgmlType::F32, shape(&[4, 6]), vec![0; 96]).unwrap();
    let a = Expression::named(&source, "a").unwrap();
    let fails = |made: Result<Expression>, expected: &str| {
        assert_eq!(made.unwrap_err().to_string(), expected);
    };
    fails(
        a.transpose().unwrap().slice(0, 3, 4, 1),
        r#"slice(0, 3, 4, 1) of axes(1, 0) of tensor "a" (4 × 6): dimension 0 has 6"#,
    );
    fails(
        a.axes(&[0, 0]),
        r#"axes(0, 0) of tensor "a" (4 × 6): expected each of the 2 dimensions exactly once"#,
    );
    fails(a.reshape(shape(&[5])), r#"reshape(5) of tensor "a" (4 × 6): 24 elements, expected 5"#);
    fails(
        a.permute(2),
        r#"permute(2) of tensor "a" (4 × 6): 6 rows cannot be divided into 2 heads with an even number of rows each"#,
    );
    fails(
        Expression::concat(1, &[a.clone(), a.transpose().unwrap()]),
        r#"concat(1), part 1, of axes(1, 0) of tensor "a" (4 × 6): its shape does not fit 4 × 6"#,
    );
    fails(
        a.matmul(&a),
        r#"matmul of tensor "a" (4 × 6): the second operand is tensor "a" (4 × 6): 6 and 4 should be equal"#,
    );
    fails(a.resize(1, -4, -3), r#"resize(1, -4, -3) of tensor "a" (4 × 6): dimension 1 has 6"#);
    fails(Expression::named(&source, "b"), r#"tensor "b": is not in the source"#);
    assert_eq!(
        source.add("c", GgmlType::Q8_0, shape(&[32, 2]), vec![0; 67]).unwrap_err().to_string(),
        r#"tensor "c": 67 bytes, which is not the size of 32 × 2 of Q8_0"#
    );
}

#[test]
fn the_depth_of_expressions_is_limited() {
    let mut deep = counting(&[4]);
    for _ in 0..128 {
        deep = deep.add(1.0).unwrap();
    }
    assert!(deep.add(1.0).is_err());
    assert_eq!(numbers(&deep), [128.0, 129.0, 130.0, 131.0]);
}

#[test]
fn ranges_outside_are_refused() {
    let four = counting(&[4]);
    assert!(four.evaluate(&MemorySource::new(), 2..5).is_err());
    assert!(four.evaluate(&MemorySource::new(), 4..4).unwrap().is_empty());
}

/// Every sum adds its products in order, for any number of columns per step.
#[test]
fn a_matrix_product_adds_in_order() {
    let (width, inner, rows) = (4096u64, 700u64, 3u64);
    let odd = |place: u64| ((place * 2_654_435_761 % 1_000_003) as f32 - 5e5) * 1.37e-3;
    let first = Expression::computed(shape(&[width, inner]), odd).unwrap();
    let second = Expression::computed(shape(&[inner, rows]), move |place| odd(place + 77)).unwrap();
    let found = numbers(&first.matmul(&second).unwrap());
    for (place, found) in (0..).zip(&found) {
        let (x, y) = (place % width, place / width);
        let sum =
            (0..inner).fold(0.0f32, |sum, k| sum + odd(x + width * k) * odd(k + inner * y + 77));
        assert_eq!(sum.to_bits(), found.to_bits(), "{x}, {y}");
    }
    assert_eq!(found.len() as u64, width * rows);
}

/// Each step uses its operand three times, so a walk over 32 steps would not finish.
#[test]
fn an_exponential_expression_is_refused() {
    let mut expression = Expression::computed(shape(&[4]), |_| 1.0).unwrap();
    let refusal = (0..32).find_map(|_| {
        match expression.within(0, 1, 1, |part| part.add(1.0)) {
            Ok(next) => expression = next,
            Err(error) => return Some(error.to_string()),
        }
        None
    });
    assert!(refusal.unwrap().contains("nodes"));
}

#[test]
fn a_plan_runs_only_over_the_tensors_it_was_planned_for() {
    let mut source = MemorySource::new();
    let mut other = MemorySource::new();
    for (a, b) in [("a", "b"), ("b", "a")] {
        source.add(a, GgmlType::I8, shape(&[4]), vec![a.as_bytes()[0]; 4]).unwrap();
        other.add(b, GgmlType::I8, shape(&[4]), vec![b.as_bytes()[0]; 4]).unwrap();
    }
    let mut recipe = Recipe::default();
    recipe.tensors.push(RecipeTensor::new("a", Expression::named(&source, "a").unwrap()));
    let plan = recipe.plan(&source).unwrap();
    let options = RunOptions::default();
    assert!(run(&plan, &source, Vec::new(), &options, &mut |_| ControlFlow::Continue(())).is_ok());
    let error =
        run(&plan, &other, Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
}
