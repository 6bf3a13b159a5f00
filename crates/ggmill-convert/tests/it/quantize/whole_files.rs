//! Whole files, byte for byte those of `llama_model_quantize`: `tests/quantize.sha256`, written by `cargo xtask peers quantize`.

use std::collections::HashMap;

use ggmill_convert::ImportanceFilter;
use ggmill_testdata::sha256;

use super::{Fixture, options, quantized};

/// What is tried here. The chore tries every type.
const PLAIN: &[&str] = &["Q4_K_M", "Q5_K_S", "Q2_K", "IQ4_XS", "Q8_0", "Q6_K", "Q4_0", "Q3_K_L", "MXFP4_MOE", "TQ1_0", "F16", "COPY"];
const WITH_IMPORTANCE: &[&str] = &["Q4_K_M", "Q4_0", "IQ2_XS", "IQ3_XXS"];

fn expected() -> HashMap<(&'static str, &'static str, &'static str), &'static str> {
    let lines = include_str!("../../quantize.sha256").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        ((word(), word(), word()), word())
    };
    lines.map(row).collect()
}

fn check(name: &str) {
    let (fixture, expected) = (Fixture::new(name), expected());
    for (types, form) in [(PLAIN, "none"), (WITH_IMPORTANCE, "imatrix")] {
        for &target in types {
            let mut options = options(target);
            options.importance = (form == "imatrix").then(|| fixture.importance(&ImportanceFilter::All));
            let file = quantized(&fixture.path(), &options).unwrap();
            assert_eq!(sha256(&file), expected[&(name, target, form)], "{name} {target} {form}");
        }
    }
}

#[test]
fn a_llama_is_the_references() {
    check("llama");
}

#[test]
fn a_mixture_of_experts_is_the_references() {
    check("mixtral");
}

#[test]
fn a_mamba_is_the_references() {
    check("mamba");
}

#[test]
fn a_falcon_is_the_references() {
    check("falcon");
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let fixture = Fixture::new("mixtral");
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| quantized(&fixture.path(), &options("Q4_K_M"))).unwrap()
    };
    assert!(on(1) == on(3));
}
