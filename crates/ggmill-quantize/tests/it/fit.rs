//! Types chosen for a size, and the measured loss.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{FileType, GgmlType, Header, MetadataBuf, Shape};
use ggmill_pipeline::{
    Encoding, ErrorKind, Expression, GgufCheckpoint, MemorySource, Recipe, RecipeTensor,
    RunOptions, Sensitivity, run,
};
use ggmill_quantize::{
    Fit, Goal, Imatrix, Importance, ImportanceFilter, QuantizeOptions, Target, TensorLoss,
    TensorType, TypePlan, Weighing, fit, loss, quantize, to_measure,
};
use ggmill_testdata::real;

use crate::support::{Fixture, converted, legacy_imatrix, options, quantized};

fn go_on(_: ggmill_pipeline::Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Converts the bundled trained model to a 16-bit GGUF file.
fn stories(directory: &Path) -> PathBuf {
    let path = directory.join("stories.gguf");
    std::fs::write(&path, converted(&real("tinystories260K"), FileType::F16).unwrap()).unwrap();
    path
}

/// Returns the mean noise-to-signal ratio over all weights.
fn mean(losses: &[TensorLoss]) -> f64 {
    let weights: f64 = losses.iter().map(|tensor| tensor.shape.elements() as f64).sum();
    losses.iter().map(|tensor| tensor.relative * tensor.shape.elements() as f64).sum::<f64>()
        / weights
}

/// Quantizes a file and returns the size of the result and the measured losses.
fn made(path: &Path, options: &QuantizeOptions) -> (u64, Vec<TensorLoss>) {
    let checkpoint = GgufCheckpoint::open(path).unwrap();
    let plan = quantize(&checkpoint, options).unwrap().plan(&checkpoint).unwrap();
    let file = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut go_on).unwrap();
    let output = path.with_file_name("made.gguf");
    std::fs::write(&output, &file).unwrap();
    let written = GgufCheckpoint::open(&output).unwrap();
    let losses = loss(
        &[&plan],
        &checkpoint,
        &written,
        options.importance.as_ref(),
        &RunOptions::default(),
        &mut go_on,
    )
    .unwrap();
    assert_eq!(losses.unmeasured, Vec::<Vec<u8>>::new());
    (file.len() as u64, losses.tensors)
}

fn fitted(path: &Path, options: &QuantizeOptions, goal: Goal) -> Fit {
    fit(
        &GgufCheckpoint::open(path).unwrap(),
        options,
        None,
        goal,
        &RunOptions::default(),
        &mut go_on,
    )
    .unwrap()
}

/// Returns options with these types instead of a mixture.
fn with(options: &QuantizeOptions, types: TypePlan) -> QuantizeOptions {
    let mut chosen = options.clone();
    (chosen.target, chosen.types) = (Target::copy(), Some(types));
    chosen
}

/// For the size of each mixture, the chosen types have a smaller loss than the mixture, on a
/// trained model.
#[test]
fn the_loss_is_smaller_than_that_of_mixtures_of_the_same_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = stories(directory.path());
    for target in ["Q3_K_M", "Q4_0", "Q4_K_S", "Q4_K_M", "IQ4_NL", "Q5_K_M"] {
        let mixture = options(target);
        let (size, lost) = made(&path, &mixture);
        let fit = fitted(&path, &mixture, Goal::Size(size));
        let (fitted_size, fitted_lost) = made(&path, &with(&mixture, fit.types.clone()));
        println!(
            "{target}: {size} bytes lose {:.4e}, {fitted_size} bytes of fitted types {:.4e}",
            mean(&lost),
            mean(&fitted_lost)
        );
        assert!(fitted_size <= size, "{target}");
        assert!(mean(&fitted_lost) < mean(&lost), "{target}");
        // Every row was in the sample, so the prediction is exact.
        assert!(
            (fit.loss - mean(&fitted_lost)).abs() <= fit.loss * 1e-6,
            "{target}: {} foreseen",
            fit.loss
        );
        assert!(fit.least_loss <= fit.loss);
    }
}

/// With importance, the weighted loss is smaller.
#[test]
fn importance_weights_the_loss() {
    let fixture = Fixture::new("llama");
    for target in ["IQ2_XS", "Q2_K", "IQ3_XXS", "Q4_K_M"] {
        let mut mixture = options(target);
        mixture.importance = Some(fixture.importance(&ImportanceFilter::All));
        let (size, lost) = made(&fixture.path(), &mixture);
        let fit = fitted(&fixture.path(), &mixture, Goal::Size(size));
        let (fitted_size, fitted_lost) = made(&fixture.path(), &with(&mixture, fit.types));
        assert!(
            fitted_size <= size && mean(&fitted_lost) < mean(&lost),
            "{target}: {:.4e} and {:.4e}",
            mean(&lost),
            mean(&fitted_lost)
        );
        assert!(fitted_lost.iter().any(|tensor| tensor.weighted_rmse.is_some()));
    }
}

/// Zero importance everywhere is ignored: it neither gives a tensor the smallest type nor hides its
/// loss.
#[test]
fn zero_importance_is_ignored() {
    let fixture = Fixture::new("llama");
    let measured = Imatrix::parse(&fixture.model.imatrix()).unwrap();
    let with_zeros_for = |name: &str| {
        let entry =
            |(entry, measured): (ggmill_core::RawStr<'_>, &ggmill_quantize::ImatrixEntry)| {
                let weights = measured.weights();
                let is_blank = entry.to_string().contains(name);
                (entry.to_string(), if is_blank { vec![0.0; weights.len()] } else { weights })
            };
        Importance::new(
            &legacy_imatrix(&measured.entries().map(entry).collect::<Vec<_>>()),
            Some("x"),
            &ImportanceFilter::All,
        )
        .unwrap()
    };
    for name in ["", "blk.1.ffn_gate"] {
        let mut mixture = options("COPY");
        mixture.importance = Some(with_zeros_for(name));
        let fit = fitted(&fixture.path(), &mixture, Goal::BitsPerWeight(6.0));
        let gate = fit.types.get(b"blk.1.ffn_gate.weight").unwrap();
        assert!(gate != GgmlType::IQ1_S && fit.loss > 1e-4, "{name:?}: {gate}, {}", fit.loss);
        let (_, losses) = made(&fixture.path(), &with(&mixture, fit.types.clone()));
        assert!(
            (fit.loss - mean(&losses)).abs() <= fit.loss * 1e-6,
            "{name:?}: {} foreseen, {}",
            fit.loss,
            mean(&losses)
        );
        let gate = losses.iter().find(|tensor| tensor.name == b"blk.1.ffn_gate.weight").unwrap();
        assert!(
            gate.relative > 0.0 && gate.relative < 0.2 && gate.weighted_rmse.is_none(),
            "{name:?}: {gate:?}"
        );
    }
}

#[test]
fn the_result_is_just_below_the_goal() {
    let fixture = Fixture::new("mixtral");
    let weights: u64 = GgufCheckpoint::open(fixture.path()).map(|model| count(&model)).unwrap();
    for bits in [5.5, 7.0, 9.0, 40.0] {
        let fit = fitted(&fixture.path(), &options("COPY"), Goal::BitsPerWeight(bits));
        let file = quantized(&fixture.path(), &with(&options("COPY"), fit.types)).unwrap();
        let bytes: u64 = Header::parse(&file)
            .unwrap()
            .tensors()
            .iter()
            .map(|tensor| tensor.size().unwrap())
            .sum();
        let found = bytes as f64 * 8.0 / weights as f64;
        assert!(
            found <= bits && (found - fit.bits_per_weight).abs() < 1e-9,
            "{found}, expected {bits}"
        );
        // With a large goal, every tensor keeps its type.
        assert!(
            if bits > 17.0 { fit.loss == 0.0 } else { found > bits - 0.05 },
            "{found}, expected {bits}"
        );
    }
}

fn count(model: &GgufCheckpoint) -> u64 {
    ggmill_pipeline::Checkpoint::tensors(model).iter().map(|tensor| tensor.shape.elements()).sum()
}

#[test]
fn impossible_goals_name_the_smallest_size() {
    let fixture = Fixture::new("llama");
    let checkpoint = GgufCheckpoint::open(fixture.path()).unwrap();
    let refused = |goal| {
        let error =
            fit(&checkpoint, &options("COPY"), None, goal, &RunOptions::default(), &mut go_on)
                .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget);
        error.to_string()
    };
    let message = refused(Goal::Size(1000));
    assert!(
        message.starts_with("1000 B is too little: the smallest possible size of this model is "),
        "{message}"
    );
    let least: u64 = message.split(' ').rev().nth(3).unwrap().parse().unwrap();
    let smallest = fitted(&fixture.path(), &options("COPY"), Goal::Size(least));
    assert_eq!(
        quantized(&fixture.path(), &with(&options("COPY"), smallest.types)).unwrap().len() as u64,
        least
    );
    refused(Goal::Size(least - 1));

    let message = refused(Goal::BitsPerWeight(1.5));
    let least: f64 = message.split(' ').rev().nth(3).unwrap().parse().unwrap();
    fitted(&fixture.path(), &options("COPY"), Goal::BitsPerWeight(least));
    refused(Goal::BitsPerWeight(least - 0.001));
    assert_eq!(refused(Goal::BitsPerWeight(f64::NAN)), "NaN bits per weight, expected more than 0");
    refused(Goal::BitsPerWeight(-1.0));
}

/// Requested types are used, and only the other types are chosen.
#[test]
fn requested_types_are_fixed() {
    let fixture = Fixture::new("llama");
    let mut asked = options("COPY");
    asked.tensor_types = vec![r"attn_v=q8_0".parse::<TensorType>().unwrap()];
    asked.output_tensor_type = Some(GgmlType::Q5_1);
    asked.prune_layers = [0].into();
    let types = fitted(&fixture.path(), &asked, Goal::BitsPerWeight(5.0)).types;
    assert_eq!(
        ["blk.3.attn_v.weight", "output.weight", "output_norm.weight"]
            .map(|name| types.get(name.as_bytes())),
        [Some(GgmlType::Q8_0), Some(GgmlType::Q5_1), Some(GgmlType::F32)]
    );
    assert_eq!(
        (types.get(b"blk.7.attn_v.weight"), types.get(b"blk.8.attn_v.weight")),
        (Some(GgmlType::Q8_0), None)
    );
    quantized(&fixture.path(), &with(&asked, types)).unwrap();

    // Quantized tensors keep their type unless requantization is allowed.
    let once = fixture.directory.path().join("once.gguf");
    std::fs::write(&once, quantized(&fixture.path(), &options("Q4_0")).unwrap()).unwrap();
    let kind = |options: &QuantizeOptions| {
        fit(
            &GgufCheckpoint::open(&once).unwrap(),
            options,
            None,
            Goal::BitsPerWeight(4.0),
            &RunOptions::default(),
            &mut go_on,
        )
        .map_err(|error| error.kind())
    };
    assert_eq!(kind(&options("COPY")).unwrap_err(), ErrorKind::Budget);
    let mut again = options("COPY");
    again.allow_requantize = true;
    assert!(kind(&again).is_ok());
}

#[test]
fn a_plan_of_another_model_is_an_error() {
    let fixture = Fixture::new("falcon");
    let types = fitted(&fixture.path(), &options("COPY"), Goal::BitsPerWeight(5.0)).types;
    let other = Fixture::new("llama");
    let refusal = |fixture: &Fixture, options: &QuantizeOptions| {
        let error = quantized(&fixture.path(), options).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, message) = refusal(&other, &with(&options("COPY"), types));
    assert_eq!(
        (kind, &*message),
        (
            ErrorKind::Types,
            r#"tensor "blk.0.attn_qkv.weight": is in the plan, but not in the model"#
        )
    );
    let plan = |tensors: &str| {
        TypePlan::parse(format!(r#"{{"schema":"ggmill.plan/1","tensors":[{tensors}]}}"#).as_bytes())
    };
    let one = plan(r#"{"name":"blk.0.ffn_up.weight","type":"Q4_0"}"#).unwrap();
    assert_eq!(
        refusal(&fixture, &with(&options("COPY"), one.clone())).1,
        r#"tensor "blk.0.attn_norm.weight": is in the model, but not in the plan"#
    );
    // With a mixture, the plan may name only some tensors.
    let mut mixed = options("Q8_0");
    mixed.types = Some(one);
    let file = quantized(&fixture.path(), &mixed).unwrap();
    let types = ["blk.0.ffn_up.weight", "blk.1.ffn_up.weight"]
        .map(|name| Header::parse(&file).unwrap().tensor(name).unwrap().ggml_type());
    assert_eq!(types, [GgmlType::Q4_0, GgmlType::Q8_0]);
    let cases = [
        (
            r#"{"name":"output_norm.weight","type":"Q4_0"},{"name":"output_norm.weight","type":"Q4_0"}"#,
            "occurs twice in the plan",
        ),
        (r#"{"name":"output_norm.weight","type":"Q9"}"#, "\"Q9\" is not a type"),
        (r#"{"name":"output_norm.weight"}"#, "contains a tensor without a name or a type"),
        ("", "names no tensors"),
        ("]", "is not valid JSON"),
    ];
    for (tensors, words) in cases {
        let error = plan(tensors).unwrap_err().to_string();
        assert!(error.contains(words), "{error}, expected {words}");
    }
    assert!(TypePlan::parse(b"{}").unwrap_err().to_string().starts_with("is not a plan"));
    let mut odd = options("Q8_0");
    odd.types = Some(plan(r#"{"name":"blk.0.attn_norm.weight","type":"I32"}"#).unwrap());
    assert_eq!(
        refusal(&fixture, &odd).1,
        r#"tensor "blk.0.attn_norm.weight": is F32, and cannot be converted to I32"#
    );
    let llama = Fixture::new("llama");
    odd.types = Some(plan(r#"{"name":"blk.0.adapter.weight","type":"Q4_K"}"#).unwrap());
    assert_eq!(
        refusal(&llama, &odd).1,
        r#"tensor "blk.0.adapter.weight": has row length 80, which is not a multiple of the block size of Q4_K"#
    );
}

/// A goal that every tensor meets.
const ANY: Goal = Goal::BitsPerWeight(32.0);

/// An impossible goal is an error before anything is measured.
#[test]
fn tensors_are_not_measured_for_a_size_that_is_too_small() {
    let checkpoint = checkpoint_of(&Fixture::new("llama").path());
    for goal in [Goal::BitsPerWeight(1.0), Goal::Size(1000)] {
        let error = to_measure(&checkpoint, &options("COPY"), None, goal).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget);
        assert!(
            error.to_string().contains("the smallest possible size of this model is"),
            "{error}"
        );
    }
}

/// A sensitive tensor gets more bits, and the prediction is the sum of the measured divergences,
/// scaled by the errors of the types.
#[test]
fn sensitive_tensors_get_more_bits() {
    let fixture = Fixture::new("llama");
    let checkpoint = GgufCheckpoint::open(fixture.path()).unwrap();
    let tensors = to_measure(&checkpoint, &options("COPY"), None, ANY).unwrap();
    // Norms are excluded, and all other tensors are measured with a type of about 4 bits.
    assert!(tensors.iter().all(|tensor| !tensor.name.ends_with(b"norm.weight")));
    assert!(tensors.iter().any(|tensor| tensor.ggml_type == GgmlType::Q4_K), "{tensors:?}");
    let sensitive = |part: &str| {
        let found = tensors.iter().map(|tensor| {
            let name = String::from_utf8_lossy(&tensor.name);
            let divergence = if name.contains(part) { 0.1 } else { 1e-4 };
            (tensor.name.clone(), Sensitivity::new(tensor.ggml_type, divergence).unwrap())
        });
        let mut asked = options("COPY");
        asked.weighing = Weighing::Measured(found.collect());
        fitted(&fixture.path(), &asked, Goal::BitsPerWeight(5.0))
    };
    let bits = |fit: &Fit, name: &str| {
        let layout = fit.types.get(name.as_bytes()).unwrap().layout().unwrap();
        f64::from(layout.bytes) * 8.0 / f64::from(layout.elements)
    };
    let (up, down) = ("blk.3.ffn_up.weight", "blk.3.ffn_down.weight");
    let up_is_sensitive = sensitive("ffn_up");
    assert!(bits(&up_is_sensitive, up) > bits(&up_is_sensitive, down), "{up_is_sensitive:?}");
    let down_is_sensitive = sensitive("ffn_down");
    assert!(bits(&down_is_sensitive, up) < bits(&down_is_sensitive, down), "{down_is_sensitive:?}");
    assert!(up_is_sensitive.divergence.is_some_and(|predicted| predicted > 0.0));
    assert_eq!(
        fitted(&fixture.path(), &options("COPY"), Goal::BitsPerWeight(5.0)).divergence,
        None
    );

    // With the types of the measurement, the prediction is the sum of the measured divergences.
    let mut same = options("COPY");
    let types = tensors.iter().map(|tensor| {
        let name = regex_of(&String::from_utf8_lossy(&tensor.name));
        format!("{name}={}", tensor.ggml_type).parse::<TensorType>().unwrap()
    });
    same.tensor_types = types.collect();
    let found = tensors.iter().zip(1u32..).map(|(tensor, number)| {
        let divergence = f64::from(number) * 1e-3;
        (tensor.name.clone(), Sensitivity::new(tensor.ggml_type, divergence).unwrap())
    });
    same.weighing = Weighing::Measured(found.collect());
    let fit = fitted(&fixture.path(), &same, Goal::BitsPerWeight(12.0));
    let sum: f64 = (1..=tensors.len()).map(|number| number as f64 * 1e-3).sum();
    let predicted = fit.divergence.unwrap();
    assert!((predicted - sum).abs() < sum * 1e-9, "{predicted}, expected {sum}");
}

/// Returns a pattern that matches one name.
fn regex_of(name: &str) -> String {
    format!("^{}$", name.replace('.', "\\."))
}

/// A tensor without a measured sensitivity keeps its type.
#[test]
fn unmeasured_tensors_keep_their_type() {
    let fixture = Fixture::new("llama");
    let checkpoint = GgufCheckpoint::open(fixture.path()).unwrap();
    let tensors = to_measure(&checkpoint, &options("COPY"), None, ANY).unwrap();
    let found = tensors.iter().filter(|tensor| tensor.name != b"blk.3.ffn_up.weight");
    let found = found
        .map(|tensor| (tensor.name.clone(), Sensitivity::new(tensor.ggml_type, 0.01).unwrap()));
    let mut asked = options("COPY");
    asked.weighing = Weighing::Measured(found.collect());
    let types = fitted(&fixture.path(), &asked, Goal::BitsPerWeight(6.0)).types;
    assert_eq!(types.get(b"blk.3.ffn_up.weight"), Some(GgmlType::F16));
    assert_ne!(types.get(b"blk.2.ffn_up.weight"), Some(GgmlType::F16));
}

/// A tensor that was measured with its own type has no error, which does not give a weight, so it
/// keeps its type.
#[test]
fn tensors_measured_with_their_own_type_keep_it() {
    let fixture = Fixture::new("llama");
    let is_free = |name: &[u8]| String::from_utf8_lossy(name).contains("ffn_up");
    let tensors = to_measure(&checkpoint_of(&fixture.path()), &options("COPY"), None, ANY).unwrap();
    let found = tensors.iter().map(|tensor| {
        let ggml_type = if is_free(&tensor.name) { GgmlType::Q8_0 } else { tensor.ggml_type };
        (tensor.name.clone(), Sensitivity::new(ggml_type, 0.01).unwrap())
    });
    let mut asked = options("COPY");
    asked.allow_requantize = true;
    asked.weighing = Weighing::Measured(found.collect());

    let mut target = options("Q4_K_S");
    target.pure = true;
    let file = quantized(&fixture.path(), &target).unwrap();
    let path = fixture.directory.path().join("once.gguf");
    std::fs::write(&path, &file).unwrap();
    let once = Header::parse(&file).unwrap();
    let bytes: u64 = once.tensors().iter().map(|tensor| tensor.size().unwrap()).sum();
    let bits = bytes as f64 * 8.0 / count(&checkpoint_of(&path)) as f64;
    let types = fitted(&path, &asked, Goal::BitsPerWeight(bits - 0.1)).types;
    let of_type = once.tensors().iter().filter(|tensor| tensor.ggml_type() == GgmlType::Q4_K);
    let (free, others): (Vec<_>, Vec<_>) =
        of_type.map(|tensor| tensor.name().as_bytes().to_vec()).partition(|name| is_free(name));
    assert!(others.len() > 40, "{others:?}");
    for name in &others {
        assert_eq!(types.get(name), Some(GgmlType::Q4_K), "{:?}", String::from_utf8_lossy(name));
    }
    assert!(free.iter().any(|name| types.get(name) != Some(GgmlType::Q4_K)), "{types:?}");
}

fn checkpoint_of(path: &Path) -> GgufCheckpoint {
    GgufCheckpoint::open(path).unwrap()
}

/// A divergence of 0 gives a minimum weight, so a smaller error is still better.
#[test]
fn zero_divergence_has_a_minimum_weight() {
    let fixture = Fixture::new("llama");
    let tensors = to_measure(&checkpoint_of(&fixture.path()), &options("COPY"), None, ANY).unwrap();
    let with_zeros = |is_zero: &dyn Fn(&[u8]) -> bool| {
        let found = tensors.iter().map(|tensor| {
            let divergence = if is_zero(&tensor.name) { 0.0 } else { 0.01 };
            (tensor.name.clone(), Sensitivity::new(tensor.ggml_type, divergence).unwrap())
        });
        let mut asked = options("COPY");
        asked.weighing = Weighing::Measured(found.collect());
        fitted(&fixture.path(), &asked, Goal::BitsPerWeight(7.0))
    };
    let one = with_zeros(&|name| name == b"blk.3.ffn_up.weight");
    let ggml_type = one.types.get(b"blk.3.ffn_up.weight").unwrap();
    let layout = ggml_type.layout().unwrap();
    let bits = f64::from(layout.bytes) * 8.0 / f64::from(layout.elements);
    assert!(bits > 4.0, "{ggml_type}");
    let (found, least) = (one.divergence.unwrap(), one.least_divergence.unwrap());
    assert!(found > 0.0 && least <= found, "{found} {least}");
    // All tensors get larger types, because the goal allows it.
    let all = with_zeros(&|_| true);
    assert!(all.bits_per_weight > 6.5, "{}", all.bits_per_weight);
    assert!(all.divergence.is_some_and(|found| found < 1e-6), "{all:?}");
}

/// A sum of two tensors has no single source tensor, so it is listed as not measured.
#[test]
fn combined_tensors_are_listed_as_unmeasured() {
    let mut source = MemorySource::new();
    let shape = Shape::new(&[32, 2]).unwrap();
    for name in ["a", "b"] {
        let bytes: Vec<u8> = (0..64u8).flat_map(|place| f32::from(place).to_le_bytes()).collect();
        source.add(name, GgmlType::F32, shape, bytes).unwrap();
    }
    let [a, b] = ["a", "b"].map(|name| Expression::named(&source, name).unwrap());
    let encoded = |this: &Expression| this.encode(GgmlType::Q8_0, Encoding::finite()).unwrap();
    let numbers = Expression::integers(Shape::new(&[2]).unwrap(), vec![1, 2]).unwrap();
    let tensors = vec![
        RecipeTensor::new("sum", encoded(&a.sum(&b).unwrap())),
        RecipeTensor::new("numbers", numbers),
        RecipeTensor::new("a", encoded(&a)),
    ];
    let plan = Recipe::new(MetadataBuf::new(), tensors).plan(&source).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made.gguf");
    let options = RunOptions::with_threads(1);
    let file =
        run(&plan, &source, Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
    std::fs::write(&path, file).unwrap();
    let written = GgufCheckpoint::open(&path).unwrap();
    let losses =
        loss(&[&plan], &source, &written, None, &options, &mut |_| ControlFlow::Continue(()))
            .unwrap();
    assert_eq!(losses.unmeasured, [b"sum"]);
    let names: Vec<&[u8]> = losses.tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, [b"a"]);
    assert!(losses.tensors[0].rmse > 0.0);
}
