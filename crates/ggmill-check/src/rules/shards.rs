//! The keys and the name of a shard.

use ggmill_core::{ShardName, Split, keys};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Fix, Input, Options};

rules! { Shards;
    NUMBER = "GG1901" Error Reference {
        summary: "A shard's number is beyond their count",
        clause: "llama.cpp counts split.no from 0 and holds each shard to its place among split.count.",
        why: "llama.cpp refuses the set.",
        remedy: "Split the model again.",
    }
    NAME = "GG1902" Error Reference {
        summary: "A shard's name and its keys disagree",
        clause: "llama.cpp finds the shards by `<prefix>-<number>-of-<count>.gguf`, numbered from 00001, and holds the names against split.no and split.count.",
        why: "llama.cpp refuses the set, or loads the shards in the wrong order.",
        remedy: "Rename the file to the numbers its keys have.",
    }
    TENSORS = "GG1903" Error Reference {
        summary: "A shard has more tensors than the whole set",
        clause: "llama.cpp: \"corrupted model: expected tensors\" when the shards together have not split.tensors.count.",
        why: "llama.cpp refuses the set.",
        remedy: "Split the model again.",
    }
    LEFTOVER = "GG1904" Note Practice {
        summary: "A whole file with keys of a shard",
        clause: "The reference's merge leaves split.count at 0; a count of 0 or 1 means a whole model.",
        why: "Some programs take any file with the key for a shard.",
        remedy: "Remove the split.* keys: `ggmill check --fix` does.",
    }
    NAME_ALONE = "GG1905" Warning Practice {
        summary: "A shard's name on a file that is none",
        clause: "A shard has split.no and split.count; llama.cpp looks for the siblings that they promise.",
        why: "People and programs look for the other files of the set.",
        remedy: "Rename the file, or fetch the shard again if it should have the keys.",
    }
    KEYS = "GG1906" Error Reference {
        summary: "A shard without all of its keys",
        clause: "llama.cpp reads split.no of every shard, and gguf-split writes split.no, split.count and split.tensors.count into each.",
        why: "llama.cpp takes the shard for the first, and refuses the set.",
        remedy: "Split the model again.",
    }
    SET = "GG1907" Error Both {
        summary: "The set of shards is not whole",
        clause: "Specification: shards are numbered from 00001 to their total; llama.cpp opens each beside the first and refuses the model when one is missing or another's.",
        why: "llama.cpp refuses the model.",
        remedy: "Fetch the files that are missing or belong to another set, into the directory of the first.",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let metadata = input.metadata();
    let name = input.name.and_then(ShardName::parse);
    // Keys that are no integers are told by another rule.
    let Ok(split) = Split::of(&metadata) else { return };
    let Some(split) = split else {
        if let Some(name) = name.filter(|name| name.count() > 1 && input.is_whole()) {
            out.add(&NAME_ALONE, Place::FILE, || {
                format!(
                    "the name says {} of {}, the file has no split.count",
                    name.number(),
                    name.count()
                )
            });
        }
        return;
    };
    let place = metadata
        .get(keys::SPLIT_NO)
        .or_else(|| metadata.get(keys::SPLIT_COUNT))
        .map_or(Place::FILE, |pair| Place::value(&pair));
    if !split.is_part() {
        for key in [keys::SPLIT_COUNT, keys::SPLIT_NO, keys::SPLIT_TENSORS_COUNT] {
            if let Some(pair) = metadata.get(key) {
                out.add_fixable(&LEFTOVER, Place::key(&pair), || {
                    (
                        format!("split.count is {}", split.count),
                        Some(Fix::Unset { key: key.into() }),
                    )
                });
            }
        }
        return;
    }
    for key in [keys::SPLIT_NO, keys::SPLIT_TENSORS_COUNT] {
        if metadata.get(key).is_none() && input.is_whole() {
            out.add(&KEYS, Place::missing(key), || "there is no such key".into());
        }
    }
    if let Some(fault) = input.set_fault {
        out.add(&SET, place, || fault.to_owned());
    }
    if split.number >= split.count {
        return out.add(&NUMBER, place, || {
            format!("number {} of {}, counted from 0", split.number, split.count)
        });
    }
    if let Some(name) = name
        && (u64::from(name.number()), u64::from(name.count())) != (split.number + 1, split.count)
    {
        let (number, count) = (split.number + 1, split.count);
        out.add(&NAME, place, || {
            format!(
                "the keys say {number} of {count}, the name {} of {}",
                name.number(),
                name.count()
            )
        });
    }
    let own = input.tensors().len() as u64;
    if let Some(all) = split.tensors.filter(|&all| own > all) {
        out.add(&TENSORS, place, || format!("{own} tensors here, {all} in all"));
    }
}
