//! What expressions and plans refuse, so that no run hangs or takes another tensor than was meant.

use std::ops::ControlFlow;

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{ErrorKind, Expression, MemorySource, Recipe, RecipeTensor, RunOptions, run};

fn shape(dimensions: &[u64]) -> Shape {
    Shape::new(dimensions).unwrap()
}

/// Each step uses what lies below it three times: a walk over 32 of them would never end.
#[test]
fn an_expression_that_no_walk_could_end_is_refused() {
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
fn a_plan_runs_over_the_tensors_it_was_made_for() {
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
