//! Weights, caches and states, to the byte as libllama accounts for them: `cargo xtask peers
//! estimate --record` writes `tests/reference/bytes.tsv`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ggmill_core::{Endian, GgmlType};
use ggmill_estimate::{FlashAttention, Options, estimate};

use crate::models::{Listed, listed};

/// The lines of a record.
pub(crate) fn lines(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(name);
    let table = fs::read_to_string(path).unwrap();
    table.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// The models of the records, by their names.
pub(crate) fn models() -> BTreeMap<String, Listed> {
    listed().into_iter().map(|model| (model.name.clone(), model)).collect()
}

/// The options of a name, as `xtask/peers/estimate.py` has them.
pub(crate) fn options(name: &str) -> Options {
    let mut options = Options::default();
    options.context = Some(4096);
    match name {
        "trained" => options.context = None,
        "plain" => {}
        "off" => options.flash_attention = FlashAttention::Off,
        "short" => {
            options.context = Some(700);
            options.flash_attention = FlashAttention::On;
        }
        "sequences" => (options.context, options.sequences) = (Some(6000), 3),
        "sequences-off" => {
            (options.context, options.sequences) = (Some(6000), 3);
            options.flash_attention = FlashAttention::Off;
        }
        "shared" => (options.sequences, options.unified) = (4, true),
        "small-batch" => {
            (options.context, options.micro_batch, options.sequences) = (Some(8192), 64, 2);
        }
        "full-windows" => (options.sequences, options.full_windows) = (2, true),
        "q8_0" => {
            options.context = Some(8192);
            (options.key_type, options.value_type) = (GgmlType::Q8_0, GgmlType::Q8_0);
        }
        "q8_0-f16-off" => {
            options.key_type = GgmlType::Q8_0;
            options.flash_attention = FlashAttention::Off;
        }
        "q4_0" => {
            options.context = Some(32768);
            (options.key_type, options.value_type) = (GgmlType::Q4_0, GgmlType::Q4_0);
        }
        "f32" => {
            (options.key_type, options.value_type) = (GgmlType::F32, GgmlType::F32);
            options.micro_batch = 128;
        }
        _ => panic!("{name}"),
    }
    options
}

/// What is off by more than 5 %: vectors that do not fit where the reference has them, and small
/// models of an architecture whose large ones are near.
const APART: &[(&str, &str)] = &[
    ("falcon-sized", "off"),
    ("JambaForCausalLM-spm-wide", "short"),
    ("JambaForCausalLM-spm-wide", "full-windows"),
    ("OpenELMForCausalLM-vocabulary-wide", "q8_0"),
    ("gemma4-E2B", "plain"),
    ("gemma4-E2B", "sequences"),
    ("gemma4-E2B", "small-batch"),
    ("gemma4-E2B", "full-windows"),
    ("gemma4-inputs", "short"),
    ("gemma3n-E4B", "trained"),
    ("mixtures/Cohere2ForCausalLM", "q8_0"),
    ("mixtures/Cohere2ForCausalLM", "q4_0"),
    ("Lfm2ForCausalLM-plain-bpe", "trained"),
    ("Lfm2ForCausalLM-plain-bpe", "short"),
    ("plamo-sized", "q8_0"),
    ("StableLMEpochForCausalLM", "trained"),
    ("StableLMEpochForCausalLM", "plain"),
    ("StableLMEpochForCausalLM", "short"),
    ("StableLMEpochForCausalLM", "sequences"),
    ("StableLMEpochForCausalLM", "shared"),
    ("StableLMEpochForCausalLM", "small-batch"),
    ("StableLMEpochForCausalLM", "full-windows"),
];

/// What is more than 1 % too little in total: models of 1 MB and one of 11 MB.
const BELOW: &[(&str, &str)] = &[
    ("Gemma4ForCausalLM-layers", "q8_0-f16-off"),
    ("gemma4-inputs", "plain"),
    ("gemma4-inputs", "off"),
    ("gemma4-inputs", "short"),
    ("gemma4-inputs", "sequences"),
    ("gemma4-inputs", "sequences-off"),
    ("gemma4-inputs", "full-windows"),
    ("gemma4-inputs", "q8_0-f16-off"),
    ("gemma3n-small", "off"),
    ("gemma3n-small", "q8_0-f16-off"),
];

/// Within 5 %, and never more than 1 % too little in total for models of 1 MB or more, wherever the
/// compute buffers are known. Prints a table by architecture.
#[test]
fn compute_buffers_are_those_of_the_reference() {
    /// Cases, those that are known, those that are equal, and the least and the most.
    struct Row(usize, usize, usize, f64, f64);
    let models = models();
    let (mut table, mut wrong, mut excused) = (BTreeMap::new(), Vec::new(), 0);
    for line in &lines("bytes.tsv") {
        let words: Vec<_> = line.split('\t').collect();
        let [name, option, weights, context, compute] = words[..] else { continue };
        let [weights, context, compute]: [u64; 3] =
            [weights, context, compute].map(|number| number.parse().unwrap());
        let listed = &models[name];
        let model = listed.open(Endian::Little);
        let found = estimate(&model, listed.description(), &options(option)).unwrap();
        let row = table.entry(listed.architecture().to_owned()).or_insert(Row(
            0,
            0,
            0,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ));
        row.0 += 1;
        if found.unknown.iter().any(|unknown| unknown.part() == "compute") {
            continue;
        }
        let device = &found.devices[0];
        #[expect(clippy::cast_precision_loss, reason = "a quotient is wanted")]
        let (part, total) = (
            device.compute as f64 / compute as f64 - 1.0,
            (device.total() - device.output) as f64 / (weights + context + compute) as f64 - 1.0,
        );
        row.1 += 1;
        row.2 += usize::from(device.compute == compute);
        (row.3, row.4) = (row.3.min(part), row.4.max(part));
        let is_apart = APART.contains(&(name, option));
        let is_below = BELOW.contains(&(name, option));
        excused += usize::from(is_apart) + usize::from(is_below);
        let too_little = weights >= 1_000_000 && total < -0.01;
        if (part.abs() > 0.05) != is_apart || too_little != is_below {
            wrong.push(format!("{name}, {option}: {part:+.3} of compute, {total:+.4} of all"));
        }
    }
    println!(
        "| architecture | cases | known | equal | least | most |\n|---|---:|---:|---:|---:|---:|"
    );
    for (architecture, Row(cases, known, equal, least, most)) in &table {
        if *known > 0 {
            let (least, most) = (least * 100.0, most * 100.0);
            println!(
                "| {architecture} | {cases} | {known} | {equal} | {least:+.2} % | {most:+.2} % |"
            );
        }
    }
    let known: Vec<_> = table.values().filter(|row| row.1 > 0).collect();
    let sum = |of: fn(&Row) -> usize| known.iter().map(|row| of(row)).sum::<usize>();
    let (cases, equal) = (sum(|row| row.1), sum(|row| row.2));
    println!("{} architectures, {cases} cases known, {equal} equal", known.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What is known is not to shrink by accident.
    assert!(
        known.len() >= 118 && cases >= 3777 && equal >= 3534,
        "{} {cases} {equal}",
        known.len()
    );
    assert_eq!(excused, APART.len() + BELOW.len(), "an exception is not in the record any more");
}

#[test]
fn weights_caches_and_states_are_those_of_the_reference_to_the_byte() {
    let models = models();
    let (mut cases, mut architectures, mut wrong) = (0, BTreeMap::new(), Vec::new());
    for line in &lines("bytes.tsv") {
        let words: Vec<_> = line.split('\t').collect();
        let [name, option, weights, context, _] = words[..] else {
            assert_eq!(words[2], "refused", "{line}");
            continue;
        };
        let listed = &models[name];
        for endian in [Endian::Little, Endian::Big] {
            let model = listed.open(endian);
            let found = estimate(&model, listed.description(), &options(option));
            let found = found.map(|found| (found.devices[0].weights, found.devices[0].context()));
            let expected = (weights.parse().unwrap(), context.parse().unwrap());
            if found != Ok(expected) {
                wrong.push(format!("{name}, {option}: {found:?}, expected {expected:?}"));
            }
        }
        *architectures.entry(listed.architecture().to_owned()).or_insert(0) += 1;
        cases += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The record is not to shrink by accident.
    assert!(architectures.len() >= 130 && cases >= 2400, "{} {cases}", architectures.len());
}
