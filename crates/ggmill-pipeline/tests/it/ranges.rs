//! Any partition of a file, made in any order, is the file.

use std::ops::ControlFlow;

use ggmill_core::{Endian, GgmlType, MetadataBuf, Shape};
use ggmill_pipeline::{
    Encoding, Expression, MemorySource, Plan, Recipe, RecipeTensor, RunOptions, run, run_range,
};
use proptest::prelude::*;

fn shape(dimensions: &[u64]) -> Shape {
    Shape::new(dimensions).unwrap()
}

/// Tensors that are copied, turned, calculated, encoded in blocks, empty.
fn plan(endian: Endian) -> (Plan, MemorySource) {
    let mut source = MemorySource::new();
    let bytes: Vec<u8> = (0..64 * 12).flat_map(|i| (i as f32 / 100.0).to_le_bytes()).collect();
    source.add("a", GgmlType::F32, shape(&[64, 12]), bytes).unwrap();
    let a = Expression::named(&source, "a").unwrap();
    let stack = Expression::stack(&[a.clone(), a.permute(2).unwrap()]).unwrap();
    let tensors = [
        ("copy", a.clone()),
        ("turned", a.transpose().unwrap().encode(GgmlType::F16, Encoding::finite()).unwrap()),
        ("blocks", stack.encode(GgmlType::Q8_0, Encoding::finite()).unwrap()),
        ("none", a.slice(1, 3, 0, 1).unwrap()),
        (
            "odd",
            a.slice(0, 0, 5, 1).unwrap().slice(1, 0, 3, 2).unwrap().normalize_columns().unwrap(),
        ),
        ("integers", Expression::computed_integers(shape(&[3]), |place| place as i32 - 1).unwrap()),
    ];
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "none");
    let mut recipe = Recipe::new(
        metadata,
        tensors.into_iter().map(|(name, expression)| RecipeTensor::new(name, expression)).collect(),
    );
    recipe.form.endian = endian;
    (recipe.plan(&source).unwrap(), source)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_partition_is_the_file(cuts in prop::collection::vec(0..10_000u64, 0..8), big in any::<bool>()) {
        let (plan, source) = plan(if big { Endian::Big } else { Endian::Little });
        let options = RunOptions::on(2);
        let whole = run(&plan, &source, Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
        let mut cuts: Vec<u64> = cuts.into_iter().map(|cut| cut * plan.layout().total_len() / 10_000).chain([0, plan.layout().total_len()]).collect();
        cuts.sort_unstable();
        let mut made: Vec<(u64, Vec<u8>)> = Vec::new();
        for range in cuts.windows(2).rev() {
            let part = || run_range(&plan, &source, range[0]..range[1], Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
            prop_assert_eq!(part(), part());
            made.push((range[0], part()));
        }
        made.sort();
        prop_assert!(made.into_iter().flat_map(|(_, bytes)| bytes).eq(whole));
    }
}

#[test]
fn a_range_outside_is_refused_and_one_is_stopped_on_request() {
    let (plan, source) = plan(Endian::Little);
    let len = plan.layout().total_len();
    assert!(
        run_range(&plan, &source, 0..len + 1, Vec::new(), &RunOptions::on(1), &mut |_| {
            ControlFlow::Continue(())
        })
        .is_err()
    );
    let stopped = run_range(&plan, &source, 0..len, Vec::new(), &RunOptions::on(1), &mut |_| {
        ControlFlow::Break(())
    });
    assert_eq!(stopped.unwrap_err().kind(), ggmill_pipeline::ErrorKind::Cancelled);
}
