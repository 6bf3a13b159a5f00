//! Two models compared value by value.

use std::ops::ControlFlow;

use ggmill_edit::hash::{NumericError, ToCompare, compare};
use ggmill_pipeline::{Checkpoint as _, ErrorKind, GgufCheckpoint, RunOptions, run};
use ggmill_quantize::{QuantizeOptions, Target, quantize};
use ggmill_testdata::models::models;

fn read(checkpoint: &GgufCheckpoint, number: usize) -> Vec<f32> {
    let tensor = &checkpoint.tensors()[number];
    let elements = tensor.shape.elements();
    let mut bytes =
        vec![
            0;
            usize::try_from(tensor.ggml_type.layout().unwrap().bytes_for(elements).unwrap())
                .unwrap()
        ];
    checkpoint.read(number, 0, &mut bytes).unwrap();
    let mut values = vec![0.0; usize::try_from(elements).unwrap()];
    ggmill_quant::dequantize(tensor.ggml_type, &bytes, &mut values).unwrap();
    values
}

/// The quantization error equals that of a plain loop over the values.
#[test]
fn errors_equal_those_of_a_plain_loop() {
    let directory = tempfile::tempdir().unwrap();
    let (before, after) =
        (directory.path().join("before.gguf"), directory.path().join("after.gguf"));
    std::fs::write(&before, &models()[0].file).unwrap();
    let a = GgufCheckpoint::open(&before).unwrap();
    let plan = quantize(&a, &QuantizeOptions::new("Q4_K_M".parse::<Target>().unwrap()))
        .unwrap()
        .plan(&a)
        .unwrap();
    std::fs::write(
        &after,
        run(&plan, &a, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
            .unwrap(),
    )
    .unwrap();
    let b = GgufCheckpoint::open(&after).unwrap();
    let place = |name: &[u8]| b.tensors().iter().position(|tensor| tensor.name == name).unwrap();
    let pairs: Vec<ToCompare> = a
        .tensors()
        .iter()
        .enumerate()
        .map(|(number, tensor)| ToCompare { a: number, b: place(&tensor.name) })
        .collect();

    let found =
        compare(&a, &b, &pairs, true, &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
            .unwrap();
    for (pair, found) in pairs.iter().zip(found) {
        let name = a.tensors()[pair.a].name();
        let (x, y) = (read(&a, pair.a), read(&b, pair.b));
        let both = || x.iter().zip(&y).map(|(x, y)| (f64::from(*x), f64::from(*y)));
        let max = both().map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        let squares: f64 = both().map(|(x, y)| (x - y).powi(2)).sum();
        let NumericError { max_abs, max_at, rmse, relative, cosine, non_finite, .. } =
            found.numeric.unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1e-30);
        assert!(max_abs == max && non_finite == 0, "{name}");
        assert_eq!(
            max_at,
            both().position(|(x, y)| (x - y).abs() == max && max > 0.0).map(|at| at as u64),
            "{name}"
        );
        assert!(close(rmse, (squares / x.len() as f64).sqrt()), "{name}");
        let [xx, yy, xy] = [
            both().map(|(x, _)| x * x).sum::<f64>(),
            both().map(|(_, y)| y * y).sum(),
            both().map(|(x, y)| x * y).sum(),
        ];
        assert!(
            close(relative.unwrap(), (squares / xx).sqrt())
                && close(cosine.unwrap(), xy / (xx * yy).sqrt()),
            "{name}"
        );
        let same_type = a.tensors()[pair.a].ggml_type == b.tensors()[pair.b].ggml_type;
        assert!(found.first_byte.is_none() && (!same_type || squares == 0.0), "{name}");
    }

    let other = pairs
        .iter()
        .find(|pair| a.tensors()[pair.a].shape != b.tensors()[pairs[0].b].shape)
        .unwrap();
    let error = compare(
        &a,
        &b,
        &[ToCompare { a: other.a, b: pairs[0].b }],
        true,
        &RunOptions::default(),
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
}

/// Differing bytes are counted across chunks, and NaN values are excluded from the errors.
#[test]
fn differing_bytes_and_nan_values() {
    use ggmill_core::{Builder, GgmlType, Shape, Writer};
    let directory = tempfile::tempdir().unwrap();
    let elements = 600_001;
    let plan =
        Builder::new().tensor("t", GgmlType::F32, Shape::new(&[elements]).unwrap()).plan().unwrap();
    let write = |name: &str, values: &[f32]| {
        let mut writer = Writer::start(&plan, Vec::new()).unwrap();
        writer
            .write(0, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
            .unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, writer.finish().unwrap()).unwrap();
        GgufCheckpoint::open(path).unwrap()
    };
    let mut values = vec![1.0f32; usize::try_from(elements).unwrap()];
    values[5] = f32::NAN;
    values[9] = f32::INFINITY;
    let a = write("a", &values);
    values[9] = f32::NEG_INFINITY;
    values[300_000] = 1.5;
    values[600_000] = -2.0;
    let b = write("b", &values);
    let found =
        compare(&a, &b, &[ToCompare { a: 0, b: 0 }], true, &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()[0];
    // The sign of infinity; 1.0 and 1.5; 1.0 and -2.0, which has another sign and exponent.
    assert_eq!((found.first_byte, found.different_bytes), (Some(9 * 4 + 3), 1 + 1 + 2));
    let numeric = found.numeric.unwrap();
    assert_eq!((numeric.max_abs, numeric.max_at, numeric.non_finite), (3.0, Some(600_000), 1));
    let same =
        compare(&a, &a, &[ToCompare { a: 0, b: 0 }], true, &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()[0];
    assert_eq!(
        (same.first_byte, same.numeric.unwrap().rmse, same.numeric.unwrap().non_finite),
        (None, 0.0, 0)
    );
}
