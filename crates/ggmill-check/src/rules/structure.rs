//! Magic, version, byte order, alignment, padding, and trailing data.

use ggmill_core::{Endian, ErrorKind, Subject, keys};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Fix, Input, Options, Rule};

rules! { Structure;
    NOT_GGUF = "GG1001" Error Both {
        summary: "Not a GGUF file",
        clause: "Reported when a file does not begin with the magic followed by a known version number. The specification says of the magic: \"Must be `GGUF` at the byte level: `0x47` `0x47` `0x55` `0x46`\". Versions 1, 2 and 3 exist.",
        why: "No GGUF reader can open the file. Often, a web page or a Git LFS pointer was saved instead of the model.",
        remedy: "Download the model itself. If the file is a model in a different format, convert it to GGUF.",
        fixed: "the file begins with the bytes 47 47 55 46 (GGUF), followed by version 3",
    }
    HEADER_CUT = "GG1002" Error Both {
        summary: "File ends inside the header",
        clause: "Reported when the file ends within the header, or when a count in the header implies more bytes than remain in the file. According to the specification, the file has `metadata_kv_count` metadata entries and `tensor_count` tensor infos; llama.cpp checks every length against the remaining bytes.",
        why: "Metadata keys or tensor infos are missing. The usual cause is an interrupted download.",
        remedy: "Resume the download, or download the file again.",
        fixed: "the file contains all the metadata entries and tensor infos that its header declares",
    }
    HEADER_BROKEN = "GG1003" Error Both {
        summary: "Header is malformed",
        clause: "Reported when a field of the header has an invalid value, such as an unknown value type or a number of dimensions greater than 8. According to the specification, a value type \"must be one of the `gguf_metadata_value_type` values\", and the number of dimensions is \"currently at most 4\" (5 to 8: GG1314); llama.cpp rejects any other value.",
        why: "Parsing stops at this field, in ggmill and in llama.cpp; the rest of the header is not read.",
        remedy: "Download the file again. If that does not help, convert the model again: the program that wrote the file may have a bug.",
        fixed: "key \"a.key\": value type 4 (u32)",
    }
    VERSION_1 = "GG1004" Error Reference {
        summary: "GGUF version 1 is no longer supported",
        clause: "Reported when the file uses version 1 of the format, which llama.cpp rejects: \"GGUFv1 is no longer supported\". According to the specification, version 2 widened counts and lengths to 64 bits.",
        why: "Programs based on llama.cpp cannot load the file: llama.cpp has rejected version 1 since late 2023.",
        remedy: "Convert the file to version 3.",
        fixed: "version 3",
        rewrite: "rewrites the file as version 3",
    }
    VERSION_2 = "GG1005" Note Specification {
        summary: "GGUF version 2 is outdated",
        clause: "Reported when the file uses version 2 of the format. The specification says that the version \"must be `3` for version described in this spec\".",
        why: "Version 2 is no longer the current version. Readers accept it, because version 3 only added support for big-endian files.",
        remedy: "No change is needed. To write a copy in version 3, use `ggmill repack FILE -o OUT --format-version 3`.",
        fixed: "version 3",
    }
    BIG_ENDIAN = "GG1006" Warning Reference {
        summary: "File is big-endian",
        clause: "Reported when the file is big-endian. llama.cpp rejects a file whose byte order differs from the machine's. The specification allows both byte orders.",
        why: "llama.cpp loads the file only on big-endian machines.",
        remedy: "Convert the file to the byte order of the machines that will load it, for example with `ggmill repack FILE -o OUT --endian little`.",
        fixed: "version 3, little-endian",
    }
    SWAPPED_MAGIC = "GG1007" Error Both {
        summary: "Magic is byte-swapped",
        clause: "Reported when the bytes of the magic are in reverse order. According to the specification, the magic is `GGUF` \"at the byte level\" in both byte orders.",
        why: "Readers that compare the four bytes, as llama.cpp does, do not recognize the file.",
        remedy: "Replace the first four bytes, FUGG, with GGUF.",
        fixed: "the file begins with GGUF",
        rewrite: "rewrites the file with the correct magic",
    }
    ALIGNMENT = "GG1008" Error Both {
        summary: "Invalid alignment",
        clause: "Reported when `general.alignment` is not a positive multiple of 8 below 2^32. According to the specification, `general.alignment` is a uint32 that \"must be a multiple of 8\"; llama.cpp rejects 0 and every value that is not a power of two, but accepts 1, 2 and 4.",
        why: "Readers that reject the value cannot open the file; others may disagree about where the tensor data starts.",
        remedy: "Regenerate the file, for example by converting the model again with an alignment of 32. The file cannot be repaired, because the offset of its tensor data is unknown.",
        fixed: "general.alignment = 32",
    }
    ALIGNMENT_POWER = "GG1009" Error Reference {
        summary: "Alignment is not a power of two",
        clause: "Reported when `general.alignment` is a multiple of 8 but not a power of two. llama.cpp requires a power of two; the specification allows any multiple of 8.",
        why: "Programs based on llama.cpp cannot load the file.",
        remedy: "Rewrite the file with an alignment of 32: `ggmill edit FILE --set general.alignment=32`.",
        fixed: "general.alignment = 32",
    }
    TRAILING_BYTES = "GG1010" Warning Practice {
        summary: "Trailing data after the last tensor",
        clause: "Reported when a file continues after the padding of its last tensor. The specification defines nothing after the tensor data, and readers ignore any bytes there.",
        why: "The bytes may be hidden data, or a sign that tensors are missing from the header.",
        remedy: "Find out what these bytes are. If they are not needed, rewrite the file with `ggmill repack FILE -o OUT`, which discards them.",
        fixed: "the file ends after the padding of its last tensor",
    }
    PADDING = "GG1011" Warning Specification {
        summary: "Padding contains nonzero bytes",
        clause: "Reported when a padding byte is not 0. The specification says: \"Where required, the file is padded with `0x00` bytes to the next multiple of `general.alignment`\".",
        why: "Readers skip padding, so data can be hidden in it. Files that differ only in their padding also have different hashes.",
        remedy: "Fill the padding with zeros.",
        fixed: "28 bytes of padding, all zero",
        rewrite: "rewrites the file with zero padding",
    }
    LAST_PADDING = "GG1012" Note Reference {
        summary: "Last tensor is not padded",
        clause: "Reported when the padding after the last tensor is missing or incomplete. ggml writes this padding, and expects it when it loads the tensor data of a file with a single read (`gguf_init_from_file` with `no_alloc = false`). The specification asks for padding only between tensors: \"the space between tensors should be padded\".",
        why: "The file is rejected by programs that let ggml load all tensor data with a single read. llama.cpp's model loader reads or maps each tensor separately and loads the file without complaint.",
        remedy: "Add the missing padding.",
        fixed: "the file ends at a multiple of the alignment",
        rewrite: "rewrites the file and adds the missing padding",
    }
    GAP = "GG1013" Warning Practice {
        summary: "Unused bytes between tensors",
        clause: "Reported when the gap between two tensors is larger than the alignment requires \
                 and contains nonzero bytes. The specification defines nothing between tensors \
                 except padding, and llama.cpp rejects any larger gap.",
        why: "The bytes may be hidden data, or the shape or type of the preceding tensor may be wrong.",
        remedy: "Find out what these bytes are. If they are not needed, rewrite the file with `ggmill repack FILE -o OUT`, which discards them.",
        fixed: "only zero padding between the two tensors",
    }
}

pub(super) fn not_gguf() -> &'static Rule {
    &NOT_GGUF
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let header = input.part;
    if let Some(fault) = input.header_fault() {
        // A more complete download does not help with absurd lengths.
        let absurd = fault.needed_length().is_some_and(|length| length > MAX_FILE_LEN);
        let rule = if fault.kind() == ErrorKind::Truncated && !absurd {
            &HEADER_CUT
        } else {
            &HEADER_BROKEN
        };
        out.add(rule, Place::fault(fault), || fault.message().to_string());
    }
    if header.has_swapped_magic() {
        out.add_fixable(&SWAPPED_MAGIC, Place::at(0), || {
            ("begins with \"FUGG\", expected \"GGUF\"".into(), rewrite(input))
        });
    }
    match header.version() {
        1 => out.add_fixable(&VERSION_1, Place::at(4), || {
            ("version 1, expected 3".into(), rewrite(input))
        }),
        2 => out.add(&VERSION_2, Place::at(4), || "version 2, but the current version is 3".into()),
        _ => {}
    }
    if header.endian() == Endian::Big {
        out.add(&BIG_ENDIAN, Place::at(4), || "the byte order is big-endian".into());
    }
    alignment(input, out);
    if input.faults().is_empty() {
        ends(input, out);
        padding(input, out);
        gaps(input, out);
    }
}

/// The maximum plausible length of a file, in bytes.
const MAX_FILE_LEN: u64 = 1 << 50;

/// Returns the fix of rewriting the file, if it opens without faults. It is removed later if the file has
/// other bytes: see [`has_only_known_bytes`].
pub(super) fn rewrite(input: &Input<'_>) -> Option<Fix> {
    input.faults().is_empty().then_some(Fix::Rewrite)
}

/// Returns `true` if all bytes of the file belong to its header, its tensors or padding. A rewritten file
/// would lack any other bytes.
pub(super) fn has_only_known_bytes(input: &Input<'_>) -> bool {
    let header = input.part;
    let (Some(len), Some(ranges)) = (header.file_len(), data_ranges(input)) else { return false };
    let end = ranges.last().map_or(header.header_len(), |&(_, end)| end);
    let ends_there = header.alignment().align(end).is_some_and(|padded| len <= padded);
    ends_there
        && gap_ranges(input).is_some_and(|gaps| {
            gaps.iter().map(|(start, end)| end - start).sum::<u64>() <= MAX_GAP_BYTES
                && gaps.iter().all(|&(start, end)| {
                    examine_gap(input, start, end)
                        .is_some_and(|(whole, odd)| whole && odd.is_none())
                })
        })
}

/// The maximum number of bytes of gaps that are examined.
const MAX_GAP_BYTES: u64 = 64 << 20;

/// Returns the gaps between tensors after their padding.
fn gap_ranges(input: &Input<'_>) -> Option<Vec<(u64, u64)>> {
    let header = input.part;
    let ranges = data_ranges(input)?;
    let ends = std::iter::once(header.data_offset()).chain(ranges.iter().map(|&(_, end)| end));
    let gaps = ends
        .zip(ranges.iter().map(|&(start, _)| start))
        .map(|(end, start)| Some((header.alignment().align(end)?, start)));
    gaps.filter(|gap| gap.is_none_or(|(end, start)| end < start)).collect()
}

/// Examines the start of a gap. Returns whether that is all of it, and the offset of the first nonzero
/// byte; `None` if the file cannot be read.
fn examine_gap(input: &Input<'_>, start: u64, end: u64) -> Option<(bool, Option<u64>)> {
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
        if let Some((_, Some(first))) = examine_gap(input, start, end) {
            out.add(&GAP, Place::at(first), || {
                format!("{} bytes between tensors, not all zero", end - start)
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
    } else if let Some(entry) = input.metadata().get(keys::GENERAL_ALIGNMENT) {
        let alignment = input.part.alignment();
        if input.is_whole() && !alignment.is_power_of_two() {
            out.add(&ALIGNMENT_POWER, Place::value(&entry), || {
                format!("alignment {alignment} is not a power of two")
            });
        }
    }
}

/// Returns the ranges of the tensor data, in the order of the data.
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
    let header = input.part;
    let (Some(len), Some(ranges)) = (header.file_len(), data_ranges(input)) else { return };
    let end = ranges.last().map_or(header.header_len(), |&(_, end)| end);
    let Some(padded) = header.alignment().align(end) else { return };
    if len > padded {
        out.add(&TRAILING_BYTES, Place::at(padded), || {
            format!("{} bytes of trailing data", len - padded)
        });
    } else if len < padded && !ranges.is_empty() {
        out.add_fixable(&LAST_PADDING, Place::at(len), || {
            (
                format!("the file ends at byte {len}, expected padding up to {padded}"),
                rewrite(input),
            )
        });
    }
}

/// Examines the padding after the header and between tensors, which is shorter than the alignment. Longer
/// gaps are reported by another rule.
fn padding(input: &Input<'_>, out: &mut Findings<'_>) {
    const MAX_LEN: u64 = 1 << 16;
    let header = input.part;
    let (Some(bytes), Some(len), Some(ranges)) =
        (input.bytes(), header.file_len(), data_ranges(input))
    else {
        return;
    };
    if ranges.is_empty() || !out.wants(&PADDING) {
        return;
    }
    let mut buffer = Vec::new();
    let ends = std::iter::once(header.header_len()).chain(ranges.iter().map(|&(_, end)| end));
    let starts = ranges.iter().map(|&(start, _)| start).chain(std::iter::once(len));
    for (end, start) in ends.zip(starts) {
        let Some(padded) = header.alignment().align(end).map(|padded| padded.min(start)) else {
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
                let verb = if odd == 1 { "is" } else { "are" };
                (format!("{odd} of {count} padding bytes {verb} nonzero"), rewrite(input))
            });
        }
    }
}
