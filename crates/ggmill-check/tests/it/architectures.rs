//! Models of every described architecture are accepted or rejected like by llama.cpp.

use ggmill_arch::{Architecture, SpecifiedKey};

use crate::samples::{models, samples};
use crate::support::report;

/// Lines recorded by `cargo xtask peers architectures --load`: a model, `takes` or `refuses`, and the
/// modification.
const LOADER: &str = include_str!("../loader.tsv");

/// Keys that the loader does not require, but running the model does.
const STRICTER: &[(&str, &str)] = &[
    ("phi3", "without blk.1.attn_q.weight"),
    ("phi3", "without blk.1.attn_k.weight"),
    ("phi3", "without blk.1.attn_v.weight"),
    ("phi3 half turned", "without blk.1.attn_q.weight"),
    ("phi3 half turned", "without blk.1.attn_k.weight"),
    ("phi3 half turned", "without blk.1.attn_v.weight"),
];

#[test]
fn a_model_has_an_error_if_and_only_if_the_loader_rejects_it() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (model, architecture, keys) in
        models().iter().filter(|(_, architecture, _)| architecture.loader().is_some())
    {
        let recorded: Vec<(&str, &str)> = LOADER
            .lines()
            .filter_map(|line| line.strip_prefix(model)?.strip_prefix('\t')?.split_once('\t'))
            .flat_map(|(verdict, changes)| {
                changes.split(" | ").map(move |change| (change, verdict))
            })
            .collect();
        let made = samples(model, architecture, keys);
        let names: Vec<&str> = made.iter().map(|sample| &*sample.change).collect();
        let gone = recorded.iter().filter(|(change, _)| !names.contains(change));
        wrong.extend(gone.map(|(change, _)| format!("{model}: {change} is recorded, not made")));
        for sample in made {
            let Some((_, loader)) = recorded.iter().find(|(change, _)| *change == sample.change)
            else {
                wrong.push(format!("{model}: {} is made, not recorded", sample.change));
                continue;
            };
            let found = report(&sample.file.bytes());
            let stricter = STRICTER.contains(&(sample.model, &*sample.change));
            let expected = *loader == "refuses" || stricter;
            if found.has_errors() != expected {
                let (change, found) = (&sample.change, found.diagnostics());
                wrong.push(format!("{model}, {change}: the loader {loader} it, {found:?}"));
            }
            compared += 1;
        }
    }
    let recipe = "run cargo xtask peers architectures --load";
    assert!(wrong.is_empty(), "{recipe}:\n{}", wrong.join("\n"));
    assert!(compared > 2000, "{compared}");
}

/// Returns `true` if the specification describes the architecture and no loader supports it. For others
/// without a loader only the converter is known, which tests of conversion cover.
fn is_specified(name: &str) -> bool {
    let has_loader = Architecture::builtin(name).is_some_and(|known| known.loader().is_some());
    !has_loader && SpecifiedKey::all().any(|key| key.architecture() == name)
}

/// Deviations from the description of an architecture without a loader are warnings.
#[test]
fn deviations_without_a_loader_are_warnings() {
    for (model, architecture, keys) in
        models().iter().filter(|(_, architecture, _)| is_specified(architecture.name()))
    {
        let mut warned = 0;
        for sample in samples(model, architecture, keys) {
            let found = report(&sample.file.bytes());
            assert!(!found.has_errors(), "{model}, {}: {:?}", sample.change, found.diagnostics());
            let differs = found.counts().iter().any(|(rule, _)| rule.code == "GG1515");
            assert_eq!(
                differs,
                sample.change != "whole" && sample.change != "all",
                "{model}, {}: {:?}",
                sample.change,
                found.diagnostics()
            );
            warned += u32::from(differs);
        }
        assert!(warned > 20, "{model}: {warned}");
    }
}
