//! Magic, version, byte order, alignment, padding, and what stands behind the end.

use ggmill_core::{Endian, ErrorKind, Subject, keys};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Fix, Input, Options, Rule};

rules! { Structure;
    NOT_GGUF = "GG1001" Error Both {
        summary: "Not a GGUF file",
        clause: "Specification: \"Must be `GGUF` at the byte level: `0x47` `0x47` `0x55` `0x46`\"; versions 1, 2 and 3 exist.",
        why: "No reader of GGUF opens it. Often it is a web page or a pointer that was saved instead of the model.",
        remedy: "Fetch the model itself, or convert it when it is a model of another format.",
    }
    HEADER_CUT = "GG1002" Error Both {
        summary: "The file ends within its header",
        clause: "Specification: the header holds `metadata_kv_count` pairs and `tensor_count` tensor infos, each whole; llama.cpp holds every length against the bytes left.",
        why: "Keys or tensors are missing. Usually a download was cut off.",
        remedy: "Fetch the rest of the file, or all of it again.",
    }
    HEADER_BROKEN = "GG1003" Error Both {
        summary: "The header cannot be read",
        clause: "Specification: a value type \"must be one of the `gguf_metadata_value_type` values\", a tensor has \"currently at most 4\" dimensions; llama.cpp refuses anything else.",
        why: "Reading stops there: what follows is lost, in this and in every other reader.",
        remedy: "Make the file again from its source; the header was damaged or written by a faulty program.",
    }
    VERSION_1 = "GG1004" Error Reference {
        summary: "Version 1, which current readers refuse",
        clause: "llama.cpp: \"GGUFv1 is no longer supported\". The specification says v2 widened counts and lengths to 64 bits.",
        why: "llama.cpp has refused version 1 since late 2023.",
        remedy: "Write the file anew as version 3: `ggmill check --fix` does.",
    }
    VERSION_2 = "GG1005" Note Specification {
        summary: "Version 2",
        clause: "Specification: the version \"must be `3` for version described in this spec\".",
        why: "Readers accept it: version 3 only added big-endian files.",
        remedy: "Nothing has to be done; writing the file anew gives version 3.",
    }
    BIG_ENDIAN = "GG1006" Warning Reference {
        summary: "Big-endian",
        clause: "llama.cpp: a file whose byte order is not that of the machine is refused. The specification allows both orders.",
        why: "The file loads on big-endian machines only.",
        remedy: "Convert the byte order for the machines that are to load it.",
    }
    SWAPPED_MAGIC = "GG1007" Error Both {
        summary: "The magic is written backwards",
        clause: "Specification: the magic is `GGUF` \"at the byte level\", whatever the byte order.",
        why: "Readers that compare the four bytes, as llama.cpp does, do not recognise the file.",
        remedy: "Replace the first four bytes, FUGG, by GGUF: `ggmill check --fix` writes the file anew with them.",
    }
    ALIGNMENT = "GG1008" Error Both {
        summary: "The alignment is not one that data can have",
        clause: "Specification: `general.alignment` is a uint32 that \"must be a multiple of 8\"; llama.cpp refuses 0 and what is no power of two.",
        why: "Nobody can tell where the tensor data begin.",
        remedy: "Make the file again with an alignment of 32; where the data of this one begin nobody can tell.",
    }
    ALIGNMENT_POWER = "GG1009" Error Reference {
        summary: "The alignment is no power of two",
        clause: "llama.cpp: the alignment must be a power of two. The specification allows every multiple of 8.",
        why: "llama.cpp refuses the file.",
        remedy: "Write the file anew with an alignment of 32: `ggmill edit FILE --set general.alignment=32` does.",
    }
    TRAILING_BYTES = "GG1010" Warning Practice {
        summary: "Bytes behind the end",
        clause: "Nothing in the specification leads to bytes behind the last tensor and its padding; no reader looks at them.",
        why: "Something was appended to the file, or its tensor directory is shorter than its data.",
        remedy: "Find out what the bytes are; a copy written anew does not have them.",
    }
    PADDING = "GG1011" Warning Specification {
        summary: "Padding that is not zero",
        clause: "Specification: \"the file is padded with `0x00` bytes to the next multiple of `general.alignment`\".",
        why: "Nobody reads padding, so it can carry things nobody sees, and two equal models get different hashes.",
        remedy: "Write the file anew, as `ggmill check --fix` does: padding is then zero.",
    }
    LAST_PADDING = "GG1012" Note Reference {
        summary: "The last tensor is not padded",
        clause: "llama.cpp pads behind the last tensor and reads that padding too when it loads all data at once. The specification says \"the space between tensors should be padded\".",
        why: "Programs that load the data in one read refuse the file; llama.cpp itself maps it and does not.",
        remedy: "Write the file anew, as `ggmill check --fix` does: the padding is then there.",
    }
    GAP = "GG1013" Warning Practice {
        summary: "Bytes between tensors that belong to none",
        clause: "Nothing in the specification leads to bytes between tensors but the zeros of their padding; llama.cpp takes no gaps at all.",
        why: "Something was hidden there, or the tensor directory gives a tensor fewer bytes than it has.",
        remedy: "Find out what the bytes are; a copy written anew does not have them.",
    }
}

pub(super) fn not_gguf() -> &'static Rule {
    &NOT_GGUF
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let index = input.index();
    if let Some(fault) = input.header_fault() {
        // Lengths that no file has are not made good by more of it.
        let absurd = fault.needed_length().is_some_and(|length| length > MAX_FILE_LEN)
            || counts_are_absurd(input);
        let rule = if fault.kind() == ErrorKind::Truncated && !absurd {
            &HEADER_CUT
        } else {
            &HEADER_BROKEN
        };
        out.add(rule, Place::fault(fault), || fault.message().to_string());
    }
    if index.has_swapped_magic() {
        out.add_fixable(&SWAPPED_MAGIC, Place::at(0), || {
            ("begins with \"FUGG\", expected \"GGUF\"".into(), rewrite(input))
        });
    }
    match index.version() {
        1 => out.add_fixable(&VERSION_1, Place::at(4), || {
            ("version 1, expected 3".into(), rewrite(input))
        }),
        2 => out.add(&VERSION_2, Place::at(4), || "version 2, the current one is 3".into()),
        _ => {}
    }
    if index.endian() == Endian::Big {
        out.add(&BIG_ENDIAN, Place::at(4), || "numbers are big-endian".into());
    }
    alignment(input, out);
    if input.faults().is_empty() {
        ends(input, out);
        padding(input, out);
        gaps(input, out);
    }
}

/// Bytes that no file has.
const MAX_FILE_LEN: u64 = 1 << 50;

/// Whether the header promises more pairs or tensors than any file has.
fn counts_are_absurd(input: &Input<'_>) -> bool {
    const MAX_COUNT: u64 = 1 << 40;
    let mut counts = [0; 16];
    let read = input.bytes().is_some_and(|bytes| bytes.read_at(8, &mut counts).is_ok());
    let little = input.index().endian() == Endian::Little;
    let count = |bytes: &[u8; 8]| {
        if little { u64::from_le_bytes(*bytes) } else { u64::from_be_bytes(*bytes) }
    };
    read && input.index().version() > 1
        && counts.as_chunks::<8>().0.iter().map(count).any(|count| count > MAX_COUNT)
}

/// A file that opens can be written anew, where nothing in it is lost by that: see
/// [`is_all_known`].
pub(super) fn rewrite(input: &Input<'_>) -> Option<Fix> {
    input.faults().is_empty().then_some(Fix::Rewrite)
}

/// Whether all bytes of the file are those of its header and its tensors, or padding: what else
/// there is, a file written anew would not have.
pub(super) fn is_all_known(input: &Input<'_>) -> bool {
    let index = input.index();
    let (Some(len), Some(ranges)) = (index.file_len(), data_ranges(input)) else { return false };
    let end = ranges.last().map_or(index.header_len(), |&(_, end)| end);
    let ends_there = index.alignment().align(end).is_some_and(|padded| len <= padded);
    ends_there
        && gap_ranges(input).is_some_and(|gaps| {
            gaps.iter().map(|(start, end)| end - start).sum::<u64>() <= MAX_GAP_BYTES
                && gaps.iter().all(|&(start, end)| {
                    looked_at(input, start, end).is_some_and(|(whole, odd)| whole && odd.is_none())
                })
        })
}

/// Bytes of gaps that are looked at.
const MAX_GAP_BYTES: u64 = 64 << 20;

/// What lies between tensors and is more than their padding.
fn gap_ranges(input: &Input<'_>) -> Option<Vec<(u64, u64)>> {
    let index = input.index();
    let ranges = data_ranges(input)?;
    let ends = std::iter::once(index.data_offset()).chain(ranges.iter().map(|&(_, end)| end));
    let gaps = ends
        .zip(ranges.iter().map(|&(start, _)| start))
        .map(|(end, start)| Some((index.alignment().align(end)?, start)));
    gaps.filter(|gap| gap.is_none_or(|(end, start)| end < start)).collect()
}

/// Looks at the beginning of a gap: whether that is all of it, and where the first byte is that is
/// not zero. `None` where the file cannot be read.
fn looked_at(input: &Input<'_>, start: u64, end: u64) -> Option<(bool, Option<u64>)> {
    const MAX_LEN: u64 = 1 << 20;
    let len = (end - start).min(MAX_LEN);
    let mut buffer = vec![0; usize::try_from(len).ok()?];
    input.bytes()?.read_at(start, &mut buffer).ok()?;
    let odd = buffer.iter().position(|&byte| byte != 0);
    Some((len == end - start, odd.map(|at| start + at as u64)))
}

fn gaps(input: &Input<'_>, out: &mut Findings<'_>) {
    if !out.wants(&GAP) {
        return;
    }
    let mut seen = 0;
    for (start, end) in gap_ranges(input).into_iter().flatten() {
        seen += end - start;
        if seen > MAX_GAP_BYTES {
            return;
        }
        if let Some((_, Some(first))) = looked_at(input, start, end) {
            out.add(&GAP, Place::at(first), || {
                format!("{} bytes between tensors, and not all of them are zero", end - start)
            });
        }
    }
}

fn alignment(input: &Input<'_>, out: &mut Findings<'_>) {
    let is_alignment = |subject: Option<Subject<'_>>| matches!(subject, Some(Subject::Key(key)) if key == keys::GENERAL_ALIGNMENT);
    if let Some(fault) =
        input.faults().iter().find(|fault| is_alignment(fault.subject()) && input.is_whole())
    {
        out.add(&ALIGNMENT, Place::fault(fault), || fault.message().to_string());
    } else if let Some(pair) = input.metadata().get(keys::GENERAL_ALIGNMENT) {
        let alignment = input.index().alignment();
        if input.is_whole() && !alignment.is_power_of_two() {
            out.add(&ALIGNMENT_POWER, Place::value(&pair), || {
                format!("alignment {alignment}, a multiple of 8 and no power of two")
            });
        }
    }
}

/// Where each tensor's data end, in the order of the data.
fn data_ranges(input: &Input<'_>) -> Option<Vec<(u64, u64)>> {
    let range = |tensor: ggmill_core::Tensor<'_>| {
        Some((tensor.offset(), tensor.offset().checked_add(tensor.size()?)?))
    };
    let mut ranges: Vec<_> = input
        .tensors()
        .iter()
        .filter(|tensor| tensor.size() != Some(0))
        .map(range)
        .collect::<Option<_>>()?;
    ranges.sort_unstable();
    Some(ranges)
}

fn ends(input: &Input<'_>, out: &mut Findings<'_>) {
    let index = input.index();
    let (Some(len), Some(ranges)) = (index.file_len(), data_ranges(input)) else { return };
    let end = ranges.last().map_or(index.header_len(), |&(_, end)| end);
    let Some(padded) = index.alignment().align(end) else { return };
    if len > padded {
        out.add(&TRAILING_BYTES, Place::at(padded), || {
            format!("{} bytes behind the end of the last tensor and its padding", len - padded)
        });
    } else if len < padded && !ranges.is_empty() {
        out.add_fixable(&LAST_PADDING, Place::at(len), || {
            (
                format!("the file ends at {len}, the padding of its last tensor at {padded}"),
                rewrite(input),
            )
        });
    }
}

/// Looks at the padding behind the header and between tensors: less than the alignment each. Gaps
/// beyond that are for another rule to tell.
fn padding(input: &Input<'_>, out: &mut Findings<'_>) {
    const MAX_LEN: u64 = 1 << 16;
    let index = input.index();
    let (Some(bytes), Some(len), Some(ranges)) =
        (input.bytes(), index.file_len(), data_ranges(input))
    else {
        return;
    };
    if ranges.is_empty() || !out.wants(&PADDING) {
        return;
    }
    let mut buffer = Vec::new();
    let ends = std::iter::once(index.header_len()).chain(ranges.iter().map(|&(_, end)| end));
    let starts = ranges.iter().map(|&(start, _)| start).chain(std::iter::once(len));
    for (end, start) in ends.zip(starts) {
        let Some(padded) = index.alignment().align(end).map(|padded| padded.min(start)) else {
            return;
        };
        let count = padded.saturating_sub(end).min(MAX_LEN);
        if count == 0 {
            continue;
        }
        buffer.resize(usize::try_from(count).unwrap_or(0), 0);
        if bytes.read_at(end, &mut buffer).is_err() {
            return;
        }
        if let Some(first) = buffer.iter().position(|&byte| byte != 0) {
            let odd = buffer.iter().filter(|&&byte| byte != 0).count();
            out.add_fixable(&PADDING, Place::at(end + first as u64), || {
                (format!("{odd} of {count} bytes of padding are not zero"), rewrite(input))
            });
        }
    }
}
