//! The name of the file.

use ggmill_core::{FileName, FileType, RawStr, keys};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Naming;
    CONVENTION = "GG1801" Note Specification {
        summary: "The file's name does not follow the naming convention",
        clause: "Specification: \"at a minimum all model files should have at least BaseName, SizeLabel, Version\"; it gives a regular expression to validate names by.",
        why: "Programs and people cannot tell model, size and quantization from the name.",
        remedy: "`ggmill name build` makes the name from the metadata.",
    }
    ENCODING = "GG1802" Warning Practice {
        summary: "The file's name says another quantization than the file",
        clause: "Specification: the Encoding in a name \"indicates the weights encoding scheme that was applied to the model\".",
        why: "People fetch and run another model than they meant.",
        remedy: "Rename the file, or set general.file_type to what the tensors are.",
    }
}

/// Why a file name does not follow the convention, or `None` when it does.
///
/// ```
/// assert_eq!(ggmill_check::name_fault("Mixtral-8x7B-v0.1-KQ2.gguf"), None);
/// assert_eq!(ggmill_check::name_fault("Hermes-2-Pro-Llama-3-8B-F16.gguf"), Some("there is no version such as v1.0 behind the size"));
/// ```
pub fn name_fault(name: &str) -> Option<&'static str> {
    if FileName::parse(name).is_some() {
        return None;
    }
    let Some(stem) = name.strip_suffix(".gguf") else { return Some("the name does not end in .gguf") };
    let decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_size = |segment: &str| {
        let number = segment.strip_suffix(|c: char| c.is_ascii_alphabetic()).unwrap_or("");
        decimal(number.split_once('x').map_or(number, |(_, number)| number))
    };
    let is_version = |segment: &str| segment.strip_prefix('v').is_some_and(decimal);
    Some(match (stem.split('-').skip(1).any(is_size), stem.split('-').any(is_version)) {
        (false, false) => "there is neither a size such as 7B nor a version such as v1.0",
        (true, false) => "there is no version such as v1.0 behind the size",
        (false, true) => "there is no size such as 7B before the version",
        (true, true) => "its parts are not those of the convention, or in another order",
    })
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let Some(text) = input.name else { return };
    if let Some(fault) = name_fault(text) {
        return out.add(&CONVENTION, Place::FILE, || format!("{}: {fault}", shown(RawStr::from(text))));
    }
    let Some(encoding) = FileName::parse(text).and_then(|name| FileType::from_name(name.encoding?)) else { return };
    if let Some(pair) = input.metadata().get(keys::GENERAL_FILE_TYPE)
        && let Some(number) = pair.value().ok().and_then(|value| value.as_u32())
        && FileType(number).without_guess() != encoding
    {
        out.add(&ENCODING, Place::value(&pair), || format!("the name says {encoding}, general.file_type {}", FileType(number)));
    }
}
