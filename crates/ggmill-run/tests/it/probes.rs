//! Probes: runs on a few tokens, and comparison with recorded logits.

use ggmill_core::{Builder, GgmlType, Model, Shape};
use ggmill_run::{Error, ErrorKind, Options, Probe, Program, RecordedLogits, Runner, probe};

use crate::models::{CASES, Change, SOURCE, TOKENS, source_vectors, states};
use crate::stored::{invented, named};

fn runner() -> Runner {
    Runner::new(Options::default()).unwrap()
}

/// Returns recorded logits; with `turned`, with the two dimensions exchanged.
fn record(tokens: &[u32], logits: &[f32], turned: bool) -> RecordedLogits {
    read(tokens, logits, turned).unwrap()
}

fn read(tokens: &[u32], logits: &[f32], turned: bool) -> Result<RecordedLogits, Error> {
    read_with(tokens, logits, turned, None)
}

/// Reads recorded logits with an encoder input: its tensor name, type and bytes.
fn read_with(
    tokens: &[u32],
    logits: &[f32],
    turned: bool,
    source: Option<(&str, GgmlType, Vec<u8>)>,
) -> Result<RecordedLogits, Error> {
    let width = logits.len() / tokens.len();
    let shape = |dimensions: &[usize]| {
        let dimensions: Vec<u64> = dimensions.iter().map(|&size| size as u64).collect();
        Shape::new(&dimensions).unwrap()
    };
    let of_logits = if turned { [tokens.len(), width] } else { [width, tokens.len()] };
    let mut builder = Builder::new()
        .tensor("tokens", GgmlType::I32, shape(&[tokens.len()]))
        .tensor("logits", GgmlType::F32, shape(&of_logits));
    if let Some((name, ggml_type, bytes)) = &source {
        builder = builder.tensor(*name, *ggml_type, shape(&[bytes.len() / 4]));
    }
    let plan = builder.plan().unwrap();
    let mut file = vec![0; usize::try_from(plan.total_len()).unwrap()];
    file[..plan.header().len()].copy_from_slice(plan.header());
    let data = [
        tokens.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<u8>>(),
        logits.iter().flat_map(|logit| logit.to_le_bytes()).collect(),
    ];
    let data = data.into_iter().chain(source.map(|(.., bytes)| bytes));
    for (planned, bytes) in plan.tensors().iter().zip(data) {
        let start = usize::try_from(planned.offset()).unwrap();
        file[start..start + bytes.len()].copy_from_slice(&bytes);
    }
    RecordedLogits::read(&Model::open(file).unwrap())
}

#[test]
fn a_record_has_the_input_of_an_encoder() {
    for (name, tensor) in [("t5", "source"), ("whisper", "source_vectors")] {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let runner = runner();
        let states = states(&runner, &program, &[&TOKENS]).unwrap();
        let logits = runner.output(&program, &states, 0, 0..TOKENS.len()).unwrap();
        let (ggml_type, bytes): (_, Vec<u8>) = match program.source_width() {
            Some(width) => {
                let numbers = source_vectors(width);
                (GgmlType::F32, numbers.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
            None => (GgmlType::I32, SOURCE.iter().flat_map(|token| token.to_le_bytes()).collect()),
        };
        let source = Some((tensor, ggml_type, bytes));
        let recorded = read_with(&TOKENS, &logits, false, source).unwrap();
        let found = probe(&runner, &program, Some(&recorded)).unwrap().difference.unwrap();
        assert_eq!((found.nmse, found.same_top), (0.0, 1.0), "{name}");
        // A record with a source is required for this model, and rejected for a model without an encoder.
        let without = read(&TOKENS, &logits, false).unwrap();
        let error = probe(&runner, &program, Some(&without)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source, "{name}");
        let plain = CASES[0].model();
        let plain = Program::of(&plain, CASES[0].described()).unwrap();
        let error = probe(&runner, &plain, Some(&recorded)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source, "{name}");
    }
}

#[test]
fn recorded_logits_are_finite() {
    let mut logits = vec![0.5; 4 * 259];
    read(&[1, 2, 3, 4], &logits, false).unwrap();
    for found in [f32::NEG_INFINITY, f32::INFINITY, f32::NAN] {
        logits[2 * 259 + 7] = found;
        let error = read(&[1, 2, 3, 4], &logits, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFinite);
        let expected = format!("token 2: recorded logit 7 is {found}, expected a finite number");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn the_nmse_of_recorded_logits_is_reported() {
    let case = &CASES[0];
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let states = runner().states(&program, &[&TOKENS]).unwrap();
    let mut logits = runner().output(&program, &states, 0, 0..TOKENS.len()).unwrap();
    for turned in [false, true] {
        let found = probe(&runner(), &program, Some(&record(&TOKENS, &logits, turned))).unwrap();
        let difference = found.difference.unwrap();
        assert_eq!((difference.nmse, difference.same_top), (0.0, 1.0));
        assert!(difference.divergence.abs() < 1e-12);
        assert_eq!((found.tokens, found.faults().len()), (24, 0));
    }
    // An error of a tenth of each logit is an NMSE of a hundredth.
    for logit in &mut logits {
        *logit /= 0.85;
    }
    let found = probe(&runner(), &program, Some(&record(&TOKENS, &logits, false))).unwrap();
    let difference = found.difference.unwrap();
    assert!((difference.nmse - 0.0225).abs() < 1e-4, "{difference:?}");
    assert!((difference.same_top - 1.0).abs() < 1e-9 && difference.divergence > 0.0);
    assert!(found.faults()[0].contains("NMSE of 2.2e-2"), "{:?}", found.faults());
    let narrow = record(&TOKENS, &logits[..24 * 100], false);
    let error = probe(&runner(), &program, Some(&narrow)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Vocabulary);
    let beyond = record(&[300], &logits[..259], false);
    let error = probe(&runner(), &program, Some(&beyond)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tokens);
}

/// Masked logits (`f32::MIN`) would dominate the NMSE.
#[test]
fn masked_tokens_are_excluded() {
    let case = CASES.iter().find(|case| case.name == "chameleon").unwrap();
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let states = runner().states(&program, &[&TOKENS]).unwrap();
    let logits = runner().output(&program, &states, 0, 0..TOKENS.len()).unwrap();
    assert_eq!(logits.iter().filter(|&&logit| logit <= f32::MIN).count(), 8192 * TOKENS.len());
    // Only one program masks the token; the other logits differ.
    let given: Vec<f32> = logits.iter().map(|&x| if x <= f32::MIN { 50.0 } else { x }).collect();
    let off: Vec<f32> = logits.iter().map(|&x| if x <= f32::MIN { x } else { x / 0.85 }).collect();
    for (record_of, nmse) in [(logits, 0.0), (given, 0.0), (off, 0.0225)] {
        let recorded = record(&TOKENS, &record_of, false);
        let found = probe(&runner(), &program, Some(&recorded)).unwrap();
        let difference = found.difference.unwrap();
        assert!((difference.nmse - nmse).abs() < 1e-4, "{difference:?}");
        assert!(difference.same_top > 0.999, "{difference:?}");
        let is_equal = nmse == 0.0;
        assert!(difference.divergence.is_finite() && found.range.0 > -100.0, "{found:?}");
        assert_eq!(is_equal, difference.divergence.abs() < 1e-9, "{difference:?}");
    }
}

#[test]
fn implausible_outputs_are_reported() {
    for case in CASES.iter() {
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let found = probe(&runner(), &program, None).unwrap();
        assert_eq!(found.tokens, Probe::TOKENS);
        assert!(found.faults().is_empty(), "{}: {:?}", case.name, found.faults());
        assert!(found.range.0 < found.range.1 && found.root_mean_square > 0.0);
    }
    let model = CASES[0].model();
    let of_end = |end: &str| {
        let mut metadata = named();
        metadata.set("ggmill.graph.version", 1u32);
        let steps = ["v0 = rows('token_embd', tokens)", "v1 = linear('output', v0)", end];
        metadata.set("ggmill.graph", &steps[..]);
        let other = Model::open(invented(&model, metadata)).unwrap();
        let program = Program::stored(&other).unwrap();
        probe(&runner(), &program, None)
    };
    let faults = of_end("logits = v1 * 0.0").unwrap().faults();
    assert!(faults[0].contains("all outputs are equal for 16 tokens"), "{faults:?}");
    let faults = of_end("logits = v1 * 1000000.0").unwrap().faults();
    assert!(faults[0].contains("root mean square"), "{faults:?}");
    assert_eq!(of_end("logits = v1 / 0.0").unwrap_err().kind(), ErrorKind::NotFinite);
    let nan = Some(("output.weight", 5));
    let broken = Model::open(CASES[0].changed(&Change { nan, ..Change::default() })).unwrap();
    let program = Program::of(&broken, CASES[0].described()).unwrap();
    assert_eq!(probe(&runner(), &program, None).unwrap_err().kind(), ErrorKind::NotFinite);
    let error = RecordedLogits::read(&model).unwrap_err();
    assert!(error.to_string().contains("tokens"), "{error}");
}

#[test]
fn a_file_that_changed_is_an_error() {
    let model = CASES[0].changing();
    let program = Program::of(&model, CASES[0].described()).unwrap();
    let error = probe(&runner(), &program, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Read);
    assert!(error.to_string().contains("the file changed"), "{error}");
}
