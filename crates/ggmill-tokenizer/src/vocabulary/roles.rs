//! Roles and attributes that tokens have because of their text (`data/roles.txt`).

use std::collections::BTreeSet;

use ggmill_core::{Metadata, keys};

use super::load::optional;
use super::{Attributes, Vocabulary};
use crate::error::Error;

const TABLE: &str = include_str!("../../data/roles.txt");

/// Returns the words of the lines that begin with `first`, without it.
fn lines(first: &'static str) -> impl Iterator<Item = std::str::Split<'static, char>> {
    TABLE.lines().filter_map(move |line| {
        line.strip_prefix(first)?.strip_prefix(' ').map(|rest| rest.split(' '))
    })
}

/// Finds roles by text and corrects attributes, as llama.cpp does after reading the keys.
pub(crate) fn apply(found: &mut Vocabulary) {
    by_text(found);
    unused(found);
    let mut ends: BTreeSet<u32> =
        [found.special.fim_pad, found.special.fim_rep, found.special.fim_sep]
            .into_iter()
            .flatten()
            .collect();
    for text in lines("eog").flatten() {
        if let Some(id) = found.id(text.as_bytes()) {
            ends.insert(id);
            add(found, id, Attributes::CONTROL);
        }
    }
    for text in lines("always").flatten() {
        if let Some(id) = found.id(text.as_bytes()) {
            set(found, id, Attributes::USER_DEFINED);
        }
    }
    ends.extend([found.special.eos, found.special.eot, found.special.eom].into_iter().flatten());
    exceptions(found, &mut ends);
    found.end_of_generation = ends.into_iter().collect();
}

fn set(found: &mut Vocabulary, id: u32, attributes: Attributes) {
    if let Some(slot) = found.attributes.get_mut(id as usize) {
        *slot = attributes;
    }
}

fn add(found: &mut Vocabulary, id: u32, attributes: Attributes) {
    set(found, id, found.attributes(id) | attributes);
}

fn by_text(found: &mut Vocabulary) {
    for mut words in lines("role") {
        let role = words.next().unwrap_or_default();
        let special = &mut found.special;
        let slot = match role {
            "eot" => &mut special.eot,
            "eom" => &mut special.eom,
            "fim_pre" => &mut special.fim_pre,
            "fim_suf" => &mut special.fim_suf,
            "fim_mid" => &mut special.fim_mid,
            "fim_pad" => &mut special.fim_pad,
            "fim_rep" => &mut special.fim_rep,
            "fim_sep" => &mut special.fim_sep,
            _ => continue,
        };
        if slot.is_some() {
            continue;
        }
        *slot = words.find_map(|text| found.texts.get(text.as_bytes()));
        if let Some(id) = *slot {
            add(found, id, Attributes::CONTROL);
        }
    }
}

/// Marks control tokens whose text contains `unused`.
fn unused(found: &mut Vocabulary) {
    for id in 0..found.len {
        if found.attributes(id).contains(Attributes::CONTROL) {
            // llama.cpp searches a C string, which ends at a byte 0.
            let text = found.text(id).unwrap_or_default().split(|&byte| byte == 0).next();
            if text.is_some_and(|text| text.windows(6).any(|part| part == b"unused")) {
                add(found, id, Attributes::UNUSED);
            }
        }
    }
}

/// Removes tokens that do not end a generation if certain others do.
fn exceptions(found: &mut Vocabulary, ends: &mut BTreeSet<u32>) {
    let end =
        |text: &str| ends.iter().copied().find(|&id| found.shown(id) == Some(text.as_bytes()));
    let has = |text: &str| end(text).is_some();
    let calls = has("<|call|>") || has("<|calls|>");
    let turn = end("<|end|>").filter(|_| calls && (has("<|return|>") || has("<|flush|>")));
    let plain = end("</s>").filter(|_| has("<|tool_response>") || has("<|plamo:eos|>"));
    if let Some(id) = turn {
        ends.remove(&id);
        set(found, id, Attributes::USER_DEFINED);
    }
    if let Some(id) = plain {
        ends.remove(&id);
        set(found, id, Attributes::NORMAL);
    }
}

/// Sets which tokens consume adjacent whitespace, by names in the file.
pub(crate) fn strips(metadata: &Metadata<'_>, found: &mut Vocabulary) -> Result<(), Error> {
    let name = optional(metadata.raw_str(keys::GENERAL_NAME))?.unwrap_or_default();
    let name = name.as_bytes().to_ascii_lowercase();
    let architecture = optional(metadata.raw_str(keys::GENERAL_ARCHITECTURE))?.unwrap_or_default();
    let pre = optional(metadata.raw_str(keys::TOKENIZER_PRE))?.unwrap_or_default();
    for line in TABLE.lines() {
        let Some((attribute, rest)) = line
            .strip_prefix("lstrip ")
            .map(|rest| (Attributes::LSTRIP, rest))
            .or(line.strip_prefix("rstrip ").map(|rest| (Attributes::RSTRIP, rest)))
        else {
            continue;
        };
        let Some((names, tokens)) = rest.split_once(" : ") else { continue };
        let mut names = names.split(' ');
        let subject = match names.next() {
            Some("pre") => pre.as_bytes(),
            Some("arch") => architecture.as_bytes(),
            _ => &name,
        };
        let applies =
            names.any(|part| subject.windows(part.len()).any(|window| window == part.as_bytes()));
        if applies {
            for token in tokens.split(' ') {
                strip(found, attribute, token);
            }
            break;
        }
    }
    Ok(())
}

fn strip(found: &mut Vocabulary, attribute: Attributes, token: &str) {
    if token == "*" {
        for id in found.special_order.clone() {
            add(found, id, attribute);
        }
    } else if let Some(text) = token.strip_prefix('-') {
        if let Some(id) = found.id(text.as_bytes()) {
            set(found, id, found.attributes(id).without(attribute));
        }
    } else if let Some(id) = found.id(token.as_bytes()) {
        add(found, id, attribute);
    }
}
