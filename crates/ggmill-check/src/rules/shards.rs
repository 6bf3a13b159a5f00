//! The keys and the name of a shard.

use ggmill_core::{ShardName, Split, keys};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Fix, Input, Options};

rules! { Shards;
    NUMBER = "GG1901" Error Reference {
        summary: "Shard number out of range",
        clause: "Reported when the `split.no` of a shard (a file whose `split.count` is greater than 1) is not less than `split.count`. In split.no, llama.cpp numbers shards from 0, so the number of the last shard is split.count minus 1. llama.cpp rejects a model if the split.no of the first shard is not 0 (\"illegal split file idx\"), or if that of a later shard does not match the position of the shard in the set (\"invalid split file idx\").",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Download the shards again, or split the model again.",
        fixed: "split.no = 1, split.count = 2",
    }
    NAME = "GG1902" Error Reference {
        summary: "Shard file name does not match the split keys",
        clause: "Reported when the number or the count in a shard's file name does not match the shard's `split.no` and `split.count` keys. llama.cpp expects the name `<prefix>-<number>-of-<count>.gguf`, where the number is split.no plus 1 and the count is split.count, each with five digits; only a program that passes it a list of all shards (`llama_model_load_from_splits`) can use other names.",
        why: "llama.cpp cannot find the other shards by name, so most programs based on it cannot load the model.",
        remedy: "Rename the file so that its name matches the keys.",
        fixed: "Tiny-1K-v1.0-00001-of-00002.gguf with split.no = 0, split.count = 2",
    }
    TENSORS = "GG1903" Error Reference {
        summary: "Shard has more tensors than split.tensors.count allows",
        clause: "Reported when a single shard has more tensors than `split.tensors.count`, which is the number of tensors in all shards together. llama.cpp rejects a model whose shards do not have split.tensors.count tensors in total: \"corrupted model: %d tensors expected but %d found\".",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Download the shards again, or split the model again.",
        fixed: "split.tensors.count = 24",
    }
    LEFTOVER = "GG1904" Note Practice {
        summary: "Shard keys in a complete file",
        clause: "Reported when the file has a `split.count` of 0 or 1. Such a file contains the complete model; gguf-split sets split.count to 0 when it merges shards.",
        why: "Some programs treat any file with these keys as a shard.",
        remedy: "Remove the split.* keys.",
        fixed: "no split.* keys",
        automatic: "removes the split.* keys",
    }
    NAME_ALONE = "GG1905" Warning Practice {
        summary: "Shard file name on a file without shard keys",
        clause: "Reported when the file has the name of a shard, but no `split.count`. Every shard should have the keys split.no and split.count; llama.cpp treats a file without them as a complete model.",
        why: "Users and programs that rely on the name expect other files, which may not exist.",
        remedy: "If the file contains the complete model, rename it. If it is a shard, download it again or split the model again.",
        fixed: "Tiny-1K-v1.0.gguf",
    }
    KEYS = "GG1906" Error Reference {
        summary: "Shard lacks some of its keys",
        clause: "Reported when a shard has `split.count` but lacks `split.no` or `split.tensors.count`. llama.cpp requires split.no in every shard and split.tensors.count in the first; gguf-split writes all three keys to each shard.",
        why: "llama.cpp rejects a model whose shards lack required keys.",
        remedy: "Download the shards again, or split the model again.",
        fixed: "split.no = 0, split.count = 2, split.tensors.count = 24",
    }
    SET = "GG1907" Error Both {
        summary: "Shard set is incomplete or inconsistent",
        clause: "Reported when a shard of the set is missing or belongs to a different model. According to the specification, shards are numbered from 00001 to their total number; llama.cpp looks for the other shards in the directory of the first.",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Download the missing files into the directory of the first shard, or replace \
                 those that belong to a different model.",
        fixed: "Set-1K-v1.0-00001-of-00002.gguf and Set-1K-v1.0-00002-of-00002.gguf in the same directory",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let metadata = input.metadata();
    let name = input.name.and_then(ShardName::parse);
    // Keys that are not integers are reported by another rule.
    let Ok(split) = Split::of(&metadata) else { return };
    let Some(split) = split else {
        if let Some(name) = name.filter(|name| name.count() > 1 && input.is_whole()) {
            out.add(&NAME_ALONE, Place::FILE, || {
                format!(
                    "the file name indicates shard {} of {}, but the file has no split.count",
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
        .map_or(Place::FILE, |entry| Place::value(&entry));
    if !split.is_part() {
        for key in [keys::SPLIT_COUNT, keys::SPLIT_NO, keys::SPLIT_TENSORS_COUNT] {
            if let Some(entry) = metadata.get(key) {
                out.add_fixable(&LEFTOVER, Place::key(&entry), || {
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
            out.add(&KEYS, Place::missing(key), || "the key is missing".into());
        }
    }
    if let Some(fault) = input.set_fault {
        out.add(&SET, place, || fault.to_owned());
    }
    if split.number >= split.count {
        return out.add(&NUMBER, place, || {
            format!(
                "split.no is {}, but split.count is {}; shards are numbered from 0",
                split.number, split.count
            )
        });
    }
    if let Some(name) = name
        && (u64::from(name.number()), u64::from(name.count())) != (split.number + 1, split.count)
    {
        let (number, count) = (split.number + 1, split.count);
        out.add(&NAME, place, || {
            format!(
                "the keys specify shard {number} of {count}, but the file name specifies {} of {}",
                name.number(),
                name.count()
            )
        });
    }
    let own = input.tensors().len() as u64;
    if let Some(all) = split.tensors.filter(|&all| own > all) {
        out.add(&TENSORS, place, || {
            format!("the shard has {own} tensors, but split.tensors.count is {all}")
        });
    }
}
