//! Logits compared with those of libllama, recorded by `python3 conformance/run.py logits --record`.

use ggmill_run::{Options, Program, Runner};

use crate::models::{CASES, RECORDED, ROUNDED, UNLOADED, greatest_error, states};

#[test]
fn logits_equal_libllama() {
    let runner = Runner::new(Options::default()).unwrap();
    for case in CASES.iter() {
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let text = case.text();
        let states = states(&runner, &program, &[&text]).unwrap();
        let (mut difference, mut size) = (0.0, 0.0);
        let path = format!("{}/tests/fixtures/{}.f32", env!("CARGO_MANIFEST_DIR"), case.name);
        let recorded = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut rest = recorded.chunks_exact(4);
        for token in (0..text.len()).step_by(text.len() / RECORDED) {
            let ours = runner.output(&program, &states, 0, token..token + 1).unwrap();
            // Logits of masked tokens are not recorded.
            for ours in ours.into_iter().filter(|&number| number > f32::MIN) {
                let theirs = rest.next().unwrap().try_into().unwrap();
                let theirs = f64::from(f32::from_le_bytes(theirs));
                difference += (f64::from(ours) - theirs).powi(2);
                size += theirs.powi(2);
            }
        }
        assert_eq!(rest.len(), 0, "{}", case.name);
        let (error, limit) = (difference / size, greatest_error(&program));
        assert!(size > 0.0 && error <= limit, "{}: NMSE {error:.1e}, at most {limit:e}", case.name);
    }
}

#[test]
fn every_built_in_graph_has_a_test_model() {
    let with_graph: Vec<&str> = ggmill_arch::Architecture::builtins()
        .filter(|architecture| architecture.has_graph())
        .map(ggmill_arch::Architecture::name)
        .collect();
    for name in with_graph {
        assert!(CASES.iter().any(|case| case.architecture == name), "{name}");
    }
}

/// `logits_transformers.py` and `logits_wavtokenizer.py` record the models that libllama cannot run.
#[test]
fn models_that_libllama_cannot_run_are_test_models() {
    for name in UNLOADED.into_iter().chain([ROUNDED]) {
        assert!(CASES.iter().any(|case| case.name == name), "{name}");
    }
}
