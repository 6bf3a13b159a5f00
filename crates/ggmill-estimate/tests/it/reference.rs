//! Weights, caches and states, to the byte as libllama accounts for them: `cargo xtask peers
//! estimate --record` writes `tests/reference/bytes.tsv`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ggmill_core::{Endian, GgmlType};
use ggmill_estimate::{FlashAttention, Options, estimate};

use crate::models::{Listed, listed};

/// The lines of a record.
fn lines(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(name);
    let table = fs::read_to_string(path).unwrap();
    table.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// The models of the records, by their names.
fn models() -> BTreeMap<String, Listed> {
    listed().into_iter().map(|model| (model.name.clone(), model)).collect()
}

/// The options of a name, as `xtask/peers/estimate.py` has them.
fn options(name: &str) -> Options {
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

/// From 5 % less to 6.5 % more, and with all the rest never more than 1 % too little, for models of
/// real sizes whose description has it.
#[test]
fn compute_buffers_are_near_those_of_the_reference() {
    let models = models();
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in &lines("bytes.tsv") {
        let words: Vec<_> = line.split('\t').collect();
        let [name, option, weights, context, compute] = words[..] else { continue };
        let [weights, context, compute]: [f64; 3] =
            [weights, context, compute].map(|number| number.parse().unwrap());
        let listed = &models[name];
        let model = listed.open(Endian::Little);
        let found = estimate(&model, listed.description(), &options(option)).unwrap();
        if weights < 1e9 || found.unknown.iter().any(|unknown| unknown.part() == "compute") {
            continue;
        }
        cases += 1;
        let device = &found.devices[0];
        #[expect(clippy::cast_precision_loss, reason = "a quotient is wanted")]
        let (part, total) = (
            device.compute as f64 / compute,
            (device.total() - device.output) as f64 / (weights + context + compute),
        );
        if !(0.95..=1.065).contains(&part) || total < 0.99 {
            wrong.push(format!("{name}, {option}: {part:.3} of compute, {total:.4} of all"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases >= 600, "{cases}");
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

/// Where layers are on two devices: weights and context of the host and of each.
#[test]
fn devices_have_what_they_have_in_the_reference() {
    let models = models();
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in &lines("devices.tsv") {
        let words: Vec<_> = line.split('\t').collect();
        let [name, placement, ref numbers @ ..] = words[..] else { panic!("{line}") };
        // Its rotary factors are only where blocks without a window are, which no description says.
        if (name, placement) == ("Gemma4ForCausalLM-layers", "some") {
            continue;
        }
        let mut options = options("plain");
        // The default of the library, which is not that of its programs.
        options.full_windows = true;
        (options.placement.layers, options.placement.shares) = match placement {
            "first" => (99, vec![1.0, 0.0]),
            "both" => (99, vec![1.0, 1.0]),
            "some" => (3, vec![1.0, 3.0]),
            "output" => (1, vec![1.0, 1.0]),
            _ => panic!("{line}"),
        };
        let listed = &models[name];
        let model = listed.open(Endian::Little);
        let found = estimate(&model, listed.description(), &options).unwrap();
        let found: Vec<u64> =
            found.devices.iter().flat_map(|device| [device.weights, device.context()]).collect();
        let expected: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
        if found != expected {
            wrong.push(format!("{name}, {placement}: {found:?}, expected {expected:?}"));
        }
        cases += 1;
    }
    assert!(wrong.is_empty(), "{} of {cases}\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases >= 600, "{cases}");
}
