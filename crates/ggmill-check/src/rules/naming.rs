//! The name of the file.

use ggmill_core::{FileName, FileType, RawStr, keys};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Input, Options, Rule};

rules! { Naming;
    CONVENTION = "GG1801" Note Specification {
        summary: "File name does not follow the naming convention",
        clause: "Reported when the name of a file does not follow the naming convention. The specification says: \"At a minimum all model files should have at least BaseName, SizeLabel, Version\"; it also provides a regular expression for validating names.",
        why: "The model, its size and its quantization cannot be determined from the file name.",
        remedy: "`ggmill name build` builds the name from the metadata, or reports which key is missing.",
        fixed: "Tiny-1K-v1.0.gguf",
    }
    ENCODING = "GG1802" Warning Practice {
        summary: "Quantization in the file name differs from the metadata",
        clause: "Reported when the quantization in the file name differs from `general.file_type`. According to the specification, the Encoding in a file name \"indicates the weights encoding scheme that was applied to the model\".",
        why: "People download and run a file with a different quantization from the one they expect.",
        remedy: "Rename the file, or correct general.file_type.",
        fixed: "Tiny-1K-v1.0-F32.gguf",
    }
    SIZE = "GG1803" Warning Specification {
        summary: "Size label in the file name differs from the metadata",
        clause: "Reported when the size label in the file name differs from `general.size_label`. According to the specification, the SizeLabel in a file name \"can be derived from gguf metadata `general.size_label`\".",
        why: "People download a model of a different size from the one they expect.",
        remedy: "`ggmill name rename` renames the file to match its metadata. If the name is correct, set general.size_label to match it.",
        fixed: "general.size_label = \"1K\"",
    }
    KIND = "GG1804" Warning Specification {
        summary: "Type in the file name differs from the metadata",
        clause: "Reported when the type of file that the name indicates (model, adapter, vocabulary or projector) differs from the actual type, which is determined from `general.type` and the tensors. According to the specification, the Type in a file name is LoRA for an adapter, vocab for a vocabulary, and absent otherwise. By convention in llama.cpp, the names of projector files begin with mmproj-.",
        why: "Programs that select files by name load the wrong one.",
        remedy: "`ggmill name rename` renames the file to match its metadata.",
        fixed: "Tiny-1K-v1.0.gguf",
    }
    VERSION = "GG1805" Warning Specification {
        summary: "Version in the file name differs from the metadata",
        clause: "Reported when the version in the file name differs from `general.version`. According to the specification, the Version in a file name \"can be derived from gguf metadata `general.version`\", and is v1.0 if the model has none.",
        why: "Users can confuse two versions of a model.",
        remedy: "`ggmill name rename` renames the file to match its metadata. If the name is correct, set general.version to match it.",
        fixed: "general.version = \"v1.0\"",
    }
    BASE = "GG1806" Note Specification {
        summary: "Base name or fine-tune in the file name differs from the metadata",
        clause: "Reported when the base name in the file name differs from `general.basename`, or the fine-tune from `general.finetune`. According to the specification, the BaseName in a file name can be derived from `general.basename` and the FineTune from `general.finetune`, \"substituting spaces for dashes\".",
        why: "People cannot tell whether the file name or the metadata is correct.",
        remedy: "`ggmill name rename` renames the file to match its metadata. If the name is correct, set general.basename and general.finetune to match it.",
        fixed: "general.basename = \"Tiny\"",
    }
}

/// Returns why a file name does not follow the naming convention; `None` if it does.
///
/// ```
/// assert_eq!(ggmill_check::name_fault("Mixtral-8x7B-v0.1-KQ2.gguf"), None);
/// assert_eq!(ggmill_check::name_fault("Hermes-2-Pro-Llama-3-8B-F16.gguf"), Some("there is no version such as v1.0 after the size"));
/// ```
pub fn name_fault(name: &str) -> Option<&'static str> {
    if let Some(parsed) = FileName::parse(name) {
        let numbers = parsed.shard.and_then(|shard| shard.split_once("-of-"));
        let (number, count) = numbers
            .and_then(|(number, count)| Some((number.parse::<u32>().ok()?, count.parse().ok()?)))?;
        return match number {
            0 => Some("shards are numbered from 00001"),
            _ if number > count => Some("the shard number is greater than the shard count"),
            _ => None,
        };
    }
    let Some(stem) = name.strip_suffix(".gguf") else {
        return Some("the name does not end in .gguf");
    };
    let decimal = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    let is_size = |segment: &str| {
        let number = segment.strip_suffix(|c: char| c.is_ascii_alphabetic()).unwrap_or("");
        decimal(number.split_once('x').map_or(number, |(_, number)| number))
    };
    let is_version = |segment: &str| segment.strip_prefix('v').is_some_and(decimal);
    Some(match (stem.split('-').skip(1).any(is_size), stem.split('-').any(is_version)) {
        (false, false) => "there is neither a size such as 7B nor a version such as v1.0",
        (true, false) => "there is no version such as v1.0 after the size",
        (false, true) => "there is no size such as 7B before the version",
        (true, true) => "its parts do not match the convention, or are in a different order",
    })
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let Some(text) = input.name else { return };
    if let Some(fault) = name_fault(text) {
        return out
            .add(&CONVENTION, Place::FILE, || format!("{}: {fault}", shown(RawStr::from(text))));
    }
    let Some(name) = FileName::parse(text) else { return };
    if let Some(encoding) = name.encoding.and_then(|name| name.parse().ok())
        && let Some(entry) = input.metadata().get(keys::GENERAL_FILE_TYPE)
        && let Some(number) = entry.value().ok().and_then(|value| value.as_u32())
        && FileType(number).without_guess() != encoding
    {
        out.add(&ENCODING, Place::value(&entry), || {
            format!("the file name has {encoding}, but general.file_type is {}", FileType(number))
        });
    }
    if input.is_whole() {
        parts(input, &name, out);
        kind(input, &name, out);
    }
}

/// Removes everything but letters and digits, as spaces, hyphens and points are interchangeable.
fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Compares the parts of the name with the corresponding keys.
fn parts(input: &Input<'_>, name: &FileName<'_>, out: &mut Findings<'_>) {
    let mut compare = |rule: &'static Rule,
                       key: &'static str,
                       part: Option<&str>,
                       same: fn(&str, &str) -> bool| {
        if let (Some(part), Some(text), Some(entry)) = (
            part,
            input.text(key).filter(|text| !text.trim().is_empty()),
            input.metadata().get(key),
        ) && !same(part, text)
        {
            out.add(rule, Place::value(&entry), || {
                format!(
                    "the file name has {}, but {key} is {}",
                    shown(RawStr::from(part)),
                    shown(RawStr::from(text))
                )
            });
        }
    };
    compare(&SIZE, keys::GENERAL_SIZE_LABEL, name.size_label, |part, text| {
        plain(part) == plain(text)
    });
    compare(&VERSION, keys::GENERAL_VERSION, Some(name.version), |part, text| {
        let version =
            |text: &str| text.trim().trim_start_matches('v').trim_end_matches(".0").to_owned();
        version(part) == version(text)
    });
    compare(&BASE, keys::GENERAL_BASENAME, Some(name.base_name), |part, text| {
        plain(part) == plain(text)
    });
    compare(&BASE, keys::GENERAL_FINETUNE, name.fine_tune, |part, text| plain(part) == plain(text));
}

/// Compares the kind of file in the name with the kind of the file.
fn kind(input: &Input<'_>, name: &FileName<'_>, out: &mut Findings<'_>) {
    let says = match (name.sidecar, name.kind) {
        (Some("mmproj"), _) => "mmproj",
        // No key identifies the kind of a sidecar for prediction.
        (Some(_), _) => return,
        (None, Some("LoRA")) => "adapter",
        (None, Some("vocab")) => "vocab",
        (None, _) => "model",
    };
    let is = match input.kind() {
        // A file without tensors is a vocabulary, whatever the key says.
        "model" | "vocab" if input.model_tensors().next().is_none() => "vocab",
        "model" | "vocab" => "model",
        "mmproj" | "clip-vision" => "mmproj",
        "adapter" => "adapter",
        // The convention has no names for other kinds.
        _ => return,
    };
    if says != is && (is != "vocab" || input.is_complete()) {
        out.add(&KIND, Place::FILE, || {
            format!("the file name indicates the type {says}, but the file is of type {is}")
        });
    }
}
