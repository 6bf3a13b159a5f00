//! Shards are checked as one model: findings about the whole occur once, in the file that contains the
//! subject.

use ggmill_check::{Input, Options, Profile, Report, check_set};
use ggmill_core::GgmlType;
use ggmill_testdata::bytes::Value;

use crate::support::{Model, codes, report_named};

/// Splits a model like the reference: all metadata in the first file, only `split.*` in the others, and
/// the given number of tensors in each.
fn split(model: &Model, most: usize) -> Vec<Model> {
    let parts: Vec<_> = model.tensors.chunks(most).collect();
    let number = |number: usize| u16::try_from(number).unwrap();
    let part = |(place, tensors): (usize, &&[_])| {
        let keys = if place == 0 { model.clone() } else { Model::empty() };
        Model { tensors: tensors.to_vec(), ..keys }
            .set("split.no", Value::U16(number(place)))
            .set("split.count", Value::U16(number(parts.len())))
            .set("split.tensors.count", Value::I32(number(model.tensors.len()).into()))
    };
    parts.iter().enumerate().map(part).collect()
}

fn reports(shards: &[Model], profile: Profile) -> Vec<Report> {
    let files: Vec<_> = shards
        .iter()
        .map(|shard| ggmill_core::Model::open_damaged(shard.bytes()).unwrap())
        .collect();
    let inputs: Vec<_> = files.iter().map(|file| Input::new(&file.parts()[0])).collect();
    check_set(&inputs, &Options::default().with_profile(profile))
}

fn all_codes(shards: &[Model]) -> Vec<Vec<&'static str>> {
    reports(shards, Profile::All).iter().map(codes).collect()
}

fn lists(codes: [&[&'static str]; 3]) -> Vec<Vec<&'static str>> {
    codes.map(<[_]>::to_vec).to_vec()
}

#[test]
fn a_complete_set_has_no_findings() {
    for profile in [Profile::All, Profile::Ggml] {
        let found = reports(&split(&Model::llama(), 4), profile);
        assert_eq!(
            found.iter().map(codes).collect::<Vec<_>>(),
            lists([&[], &[], &[]]),
            "{found:?}"
        );
    }
}

#[test]
fn missing_tensors_are_searched_in_all_shards() {
    let model = Model::llama().retensor("blk.0.attn_v.weight", None);
    assert_eq!(all_codes(&split(&model, 4)), lists([&["GG1512"], &[], &[]]));
    let model = Model::llama().unset("llama.context_length");
    assert_eq!(all_codes(&split(&model, 4)), lists([&["GG1501"], &[], &[]]));
}

#[test]
fn findings_about_a_tensor_are_reported_for_its_file() {
    let model = Model::llama().retensor("blk.0.attn_v.weight", Some((&[8, 8], GgmlType::F32)));
    assert_eq!(all_codes(&split(&model, 4)), lists([&[], &["GG1514"], &[]]));
    let model = Model::llama().retensor("blk.0.ffn_up.weight", Some((&[8, 12], GgmlType::Q8_K)));
    let found = all_codes(&split(&model, 4));
    assert!(found[2].contains(&"GG1405") && !found[0].contains(&"GG1405"), "{found:?}");
}

#[test]
fn metadata_of_the_first_shard_is_checked_against_all_tensors() {
    let model = Model::llama().retensor("token_embd.weight", Some((&[8, 6], GgmlType::F32)));
    let mut last_first = split(&model, 4);
    let moved = last_first[0].tensors.remove(0);
    last_first[2].tensors.push(moved);
    assert!(all_codes(&last_first)[0].contains(&"GG1613"));
    let model = Model::llama().retensor("blk.0.ffn_up.weight", Some((&[32, 12], GgmlType::Q8_0)));
    assert!(all_codes(&split(&model, 4))[0].contains(&"GG1401"));
}

#[test]
fn a_single_shard_is_checked_as_a_shard() {
    let shards = split(&Model::llama(), 4);
    let found = |number: usize| {
        report_named(
            "Tiny-1K-v1.0-00002-of-00003.gguf",
            &shards[number].bytes(),
            &Options::default(),
        )
    };
    assert_eq!(codes(&found(1)), Vec::<&str>::new());
    // The keys of the first shard are checked; missing tensors can be in the others.
    assert_eq!(codes(&found(0)), ["GG1902"]);
}
