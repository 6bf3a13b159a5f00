//! Weights, caches and states equal those of libllama to the byte. `python3 conformance/run.py estimate --record`
//! writes `tests/reference/bytes.tsv`.

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

/// Returns the options of a name, as in `conformance/estimate.py`.
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

/// Listed compute buffers are within 1 % of the reference, and the total with lowered ones from 1 % below
/// to 5 % above it. Prints a table by architecture.
#[test]
fn compute_buffers_match_the_reference() {
    /// Cases, known ones, equal ones, minimum and maximum.
    struct Row(usize, usize, usize, f64, f64);
    let models = models();
    let (mut table, mut wrong) = (BTreeMap::new(), Vec::new());
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
        let is_near = if found.lowered == Some(true) { total <= 0.05 } else { part.abs() <= 0.01 };
        if !is_near || total < -0.01 {
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
    // What is known must not shrink by accident.
    assert!(
        known.len() >= 135 && cases >= 4193 && equal >= 4134,
        "{} {cases} {equal}",
        known.len()
    );
}

#[test]
fn weights_caches_and_states_equal_the_reference() {
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
    // The record must not shrink by accident.
    assert!(architectures.len() >= 130 && cases >= 2400, "{} {cases}", architectures.len());
}
