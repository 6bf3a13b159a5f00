//! Estimates for the host and one or two devices match libllama. `conformance/estimate.py devices` writes
//! `tests/reference/devices.tsv`, and `overrides` writes `overrides.tsv`.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::Architecture;
use ggmill_core::{Endian, GgmlType, Model};
use ggmill_estimate::{Companions, Device, Estimate, Options, Placement, estimate, fit};

use crate::models::Listed;
use crate::reference::{lines, models, options};
use crate::table::Table;

/// A line of the record.
pub(crate) struct Case {
    pub(crate) model: String,
    pub(crate) placement: String,
    /// Weights, context and compute buffers of the host and of two devices.
    pub(crate) expected: [[u64; 3]; 3],
}

pub(crate) fn cases(record: &str) -> Vec<Case> {
    let parse = |line: &String| {
        let words: Vec<_> = line.split('\t').collect();
        let [model, placement, ref numbers @ ..] = words[..] else { panic!("{line}") };
        let mut expected = [[0; 3]; 3];
        assert_eq!(numbers.len(), 9, "{line}");
        for (number, text) in expected.iter_mut().flatten().zip(numbers) {
            *number = text.parse().unwrap();
        }
        Case { model: model.to_owned(), placement: placement.to_owned(), expected }
    };
    lines(record).iter().map(parse).collect()
}

/// Returns the options of a placement, as in `conformance/estimate.py`.
pub(crate) fn placed(name: &str) -> Options {
    let (layers, shares, name) = match name {
        "first" => (99, vec![1.0, 0.0], "plain"),
        "both" => (99, vec![1.0, 1.0], "plain"),
        "some" => (3, vec![1.0, 3.0], "plain"),
        "output" => (1, vec![1.0, 1.0], "plain"),
        "both-sequences-off" => (99, vec![1.0, 1.0], "sequences-off"),
        "one" => (99, vec![1.0], "plain"),
        "one-half" => (2, vec![1.0], "plain"),
        "half-q8_0" => (2, vec![1.0, 1.0], "q8_0"),
        "half-small-batch" => (2, vec![1.0, 1.0], "small-batch"),
        _ => panic!("{name}"),
    };
    let mut options = options(name);
    // The default of libllama, which differs from that of its programs.
    options.full_windows = true;
    (options.placement.layers, options.placement.shares) = (layers, shares);
    options
}

fn found(models: &BTreeMap<String, Listed>, case: &Case) -> (Vec<Device>, bool) {
    let listed = &models[&case.model];
    let model = listed.open(Endian::Little);
    let found = estimate(&model, listed.description(), &placed(&case.placement)).unwrap();
    let known = !found.unknown.iter().any(|unknown| unknown.part() == "compute");
    (found.devices, known)
}

/// Models whose weights are on other devices in some placements, because blocks have unusual names that
/// descriptions do not cover.
const ELSEWHERE: &[(&str, &[&str])] = &[(
    "WavTokenizerDec",
    &["both", "some", "output", "both-sequences-off", "one-half", "half-q8_0", "half-small-batch"],
)];

/// Compares weights and context of the host and each device for placements of layers.
#[test]
fn weights_and_context_by_device_equal_the_reference() {
    let models = models();
    let (mut count, mut wrong) = (0, Vec::new());
    for case in cases("devices.tsv") {
        let elsewhere = ELSEWHERE.iter().any(|&(model, placements)| {
            case.model == model && placements.contains(&&*case.placement)
        });
        let found = found(&models, &case).0;
        let found: Vec<_> = found.iter().map(|found| [found.weights, found.context()]).collect();
        let expected = case.expected.map(|[weights, context, _]| [weights, context]);
        if (found[..] != expected[..found.len()]) != elsewhere {
            wrong.push(format!(
                "{}, {}: {found:?}, expected {expected:?}",
                case.model, case.placement
            ));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count}\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 2800, "{count}");
}

/// Returns the options of a placement with a pattern for a model, as in `conformance/estimate.py`.
pub(crate) fn overridden(model: &Model, name: &str) -> Options {
    let (layers, shares, name, pattern) = match name {
        "experts-one" => (99, vec![1.0], "plain", "exps=CPU"),
        "experts-both" => (99, vec![1.0, 1.0], "plain", "exps=CPU"),
        "experts-one-sequences-off" => (99, vec![1.0], "sequences-off", "exps=CPU"),
        "experts-one-q8_0" => (99, vec![1.0], "q8_0", "exps=CPU"),
        "experts-half-small-batch" => (2, vec![1.0], "small-batch", "exps=CPU"),
        "experts-of-one" => (99, vec![1.0], "plain", r"blk\.0\.ffn_.*_exps=CPU"),
        "experts-elsewhere" => (99, vec![1.0, 0.0], "plain", "exps=GPU1"),
        "up-and-down-one" => (99, vec![1.0], "plain", "ffn_(up|down)_exps=CPU"),
        "feed-forward-one" => (99, vec![1.0], "plain", "ffn_.*=CPU"),
        "feed-forward-both" => (99, vec![1.0, 1.0], "plain", "ffn_.*=CPU"),
        "feed-forward-one-off" => (99, vec![1.0], "off", "ffn_.*=CPU"),
        "blocks-one" => (99, vec![1.0], "plain", r"blk\.[01]\.=CPU"),
        "blocks-both" => (99, vec![1.0, 1.0], "plain", r"blk\.[01]\.=CPU"),
        "blocks-one-off" => (99, vec![1.0], "off", r"blk\.[01]\.=CPU"),
        "attention-one" => (99, vec![1.0], "plain", "attn_.*=CPU"),
        _ => panic!("{name}"),
    };
    let mut options = options(name);
    options.full_windows = true;
    let pattern = pattern.parse().unwrap();
    options.placement = Placement::of(model, layers, &shares, &[pattern]);
    options
}

/// Compares weights and context of the host and each device for placements by patterns.
#[test]
fn weights_and_context_with_patterns_equal_the_reference() {
    let models = models();
    let (mut architectures, mut count, mut wrong) = (BTreeSet::new(), 0, Vec::new());
    for case in cases("overrides.tsv") {
        let listed = &models[&case.model];
        let model = listed.open(Endian::Little);
        let options = overridden(&model, &case.placement);
        let found = estimate(&model, listed.description(), &options).unwrap();
        let found: Vec<_> =
            found.devices.iter().map(|found| [found.weights, found.context()]).collect();
        let expected = case.expected.map(|[weights, context, _]| [weights, context]);
        if found[..] != expected[..found.len()] {
            wrong.push(format!(
                "{}, {}: {found:?}, expected {expected:?}",
                case.model, case.placement
            ));
        }
        architectures.insert(listed.architecture().to_owned());
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count}\n{}", wrong.len(), wrong.join("\n"));
    assert!(architectures.len() >= 30 && count >= 700, "{} {count}", architectures.len());
}

/// Totals with known compute buffers are from 1 % below the reference to 5 % above it. Prints a table by
/// architecture.
#[test]
fn compute_buffers_of_devices_match_the_reference() {
    let models = models();
    let mut table = Table::default();
    for case in cases("devices.tsv") {
        let (found, known) = found(&models, &case);
        let architecture = models[&case.model].architecture();
        table.add(architecture, &case, known.then_some(&found[..]), 0.05);
    }
    let found = table.print();
    assert!(table.wrong.is_empty(), "{} wrong\n{}", table.wrong.len(), table.wrong.join("\n"));
    // What is known must not shrink by accident.
    assert!(
        found.architectures >= 133
            && found.known >= 2969
            && found.equal >= 7320
            && found.near >= 7411
            && found.far <= 16,
        "{found:?}"
    );
}

/// With patterns, totals are within the same bounds.
#[test]
fn compute_buffers_with_patterns_match_the_reference() {
    let models = models();
    let mut table = Table::default();
    for case in cases("overrides.tsv") {
        let listed = &models[&case.model];
        let model = listed.open(Endian::Little);
        let options = overridden(&model, &case.placement);
        let found = estimate(&model, listed.description(), &options).unwrap();
        let why = found.unknown.iter().find(|unknown| unknown.part() == "compute");
        assert!(why.is_none(), "{}, {}: {why:?}", case.model, case.placement);
        table.add(listed.architecture(), &case, Some(&found.devices), 0.05);
    }
    let found = table.print();
    assert!(table.wrong.is_empty(), "{} wrong\n{}", table.wrong.len(), table.wrong.join("\n"));
    // What is known must not shrink by accident.
    assert!(
        found.architectures >= 38
            && found.known >= 773
            && found.equal >= 1696
            && found.near >= 1729
            && found.far <= 2,
        "{found:?}"
    );
}

/// The description of a looped model that lists what is computed, and does not map layers to weights.
fn looped() -> Architecture {
    let text = Architecture::builtin_text("nanbeige").unwrap();
    let said = "weights_of = \"bid % given_blocks\"\n";
    assert!(text.contains(said));
    let steps = "\n[[memory.compute]]\nsteps = [\"ids = input(tokens)\", \"x = result(4, ids)\"]\n";
    Architecture::parse(&(text.replace(said, "computed = true\n") + steps)).unwrap()
}

#[test]
fn unsupported_placements_leave_compute_buffers_unknown() {
    let models = models();
    let listed = models.values().find(|model| model.architecture() == "llama").unwrap();
    let model = listed.open(Endian::Little);
    let found = |options: &Options| estimate(&model, listed.description(), options).unwrap();
    let on_host = found(&options("plain"));
    assert!(on_host.unknown.is_empty() && on_host.devices[0].compute > 0);
    let mut options = placed("one");
    assert!(found(&options).unknown.is_empty());
    // A device without layers computes nothing.
    options.placement.layers = 0;
    let without = found(&options);
    let computed: Vec<u64> = without.devices.iter().map(|device| device.compute).collect();
    assert_eq!(computed, [on_host.devices[0].compute, 0]);
    let unknown = |options: &Options| {
        let found = found(options);
        assert!(found.devices.iter().all(|device| device.compute == 0));
        found.unknown.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let mut options = placed("one");
    options.placement.context_on_host = true;
    let why = "compute buffers: unknown where the caches of layers on GPUs are on the host";
    assert_eq!(unknown(&options), [why]);
    // The operation on a tensor is unknown if no step names it.
    let listed = models.values().find(|model| model.architecture() == "rwkv7").unwrap();
    let model = listed.open(Endian::Little);
    let mut options = placed("one");
    options.placement.overrides.insert("output_norm.weight".to_owned(), 0);
    let found = estimate(&model, listed.description(), &options).unwrap();
    let found: Vec<_> = found.unknown.iter().map(ToString::to_string).collect();
    assert!(matches!(&*found, [why] if why.contains("unknown with tensor \"blk.0.")), "{found:?}");
    // The description of a looped model can map layers to weights.
    let listed = models.values().find(|model| model.architecture() == "nanbeige").unwrap();
    let model = listed.open(Endian::Little);
    let other = looped();
    let found = |options: &Options, description: &Architecture| {
        let found = estimate(&model, Some(description), options).unwrap();
        found.unknown.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let on_two = placed("both");
    assert_eq!(found(&on_two, listed.description().unwrap()), [""; 0]);
    let why =
        "compute buffers: unknown on several devices for a model with more layers than blocks";
    assert_eq!(found(&on_two, &other), [why]);
    let mut options = placed("one");
    assert_eq!(found(&options, &other), [""; 0]);
    options.placement = Placement::of(&model, 99, &[1.0], &["output_norm=CPU".parse().unwrap()]);
    let why = "compute buffers: unknown where patterns place tensors of a model with more layers than \
               blocks";
    assert_eq!(found(&options, &other), [why]);
}

/// Buffers that only some GPU backends need are listed as unknown.
#[test]
fn additional_buffers_of_gpus_are_unknown() {
    let models = models();
    let listed = models.values().find(|model| model.architecture() == "llama").unwrap();
    let model = listed.open(Endian::Little);
    let parts = |options: &Options| {
        let found = estimate(&model, listed.description(), options).unwrap();
        assert!(found.devices.iter().all(|device| device.compute > 0));
        found
            .unknown
            .iter()
            .map(|unknown| (unknown.part(), unknown.to_string()))
            .collect::<Vec<_>>()
    };
    let mut options = placed("one");
    assert_eq!(parts(&options), []);
    options.key_type = GgmlType::Q8_0;
    options.value_type = GgmlType::Q8_0;
    let found = parts(&options);
    assert!(matches!(&*found, [("backend", what)] if what.contains("F16 copies")), "{found:?}");
    // A pattern leaves weights on the host, of a layer on a device.
    let mut overridden = placed("one");
    overridden.placement.overrides.insert("blk.0.ffn_up.weight".to_owned(), 0);
    let found = parts(&overridden);
    assert!(matches!(&*found, [("backend", what)] if what.contains("op offload")), "{found:?}");
    options.placement.layers = 1;
    let found = parts(&options);
    assert!(
        matches!(&*found, [("backend", what), ("backend", _)] if what.contains("op offload")),
        "{found:?}"
    );
}

/// Placements with unknown compute buffers seem to need less than their neighbors. For each size at which
/// one of them seems to fit, the maximum number of layers that are known to fit is found.
#[test]
fn placements_with_unknown_buffers_are_not_chosen() {
    let is_known = |found: &Estimate| found.unknown.iter().all(|it| it.part() != "compute");
    let (mut unknown, mut found_none) = (0, 0);
    let looped = looped();
    for listed in models().values() {
        let model = listed.open(Endian::Little);
        let is_looped = listed.architecture() == looped.name();
        let description = if is_looped { Some(&looped) } else { listed.description() };
        let at = |layers: u64| {
            let mut placed = options("plain");
            placed.placement.shares = vec![1.0];
            placed.placement.layers = layers;
            estimate(&model, description, &placed).unwrap()
        };
        let placements: Vec<Estimate> = (0..=at(0).layer_count()).map(at).collect();
        if !placements.last().is_some_and(is_known) {
            continue;
        }
        for seeming in placements.iter().filter(|placement| !is_known(placement)) {
            unknown += 1;
            // A size that exactly holds the known parts of this placement.
            let size = seeming.devices[1].total();
            let fits =
                |placement: &&Estimate| is_known(placement) && placement.devices[1].total() <= size;
            let most = placements.iter().rev().find(fits).map(Estimate::layers_on_devices);
            let found =
                fit(&model, description, &options("plain"), &[size], &Companions::default());
            let found = found.ok().flatten().map(|found| found.estimate);
            found_none += u64::from(found.is_none());
            assert!(found.as_ref().is_none_or(is_known), "{}, {size} bytes", listed.name);
            let layers = found.as_ref().map(Estimate::layers_on_devices);
            assert_eq!(layers, most, "{}, {size} bytes", listed.name);
        }
    }
    println!("{unknown} unknown placements, in {found_none} of which nothing fits");
    assert!(unknown > 0);
}
