//! Pages of tensor types, metadata types and file types.

use std::fmt::Write as _;

use ggmill_core::{FileType, GgmlType, ValueType};
use ggmill_quant::BlockDescription;

/// Returns the page of a tensor type or a metadata type.
pub(super) fn page(topic: &str) -> Option<String> {
    // `I8` is a tensor type, `i8` a metadata type.
    let value_type = topic.parse::<ValueType>().ok().or_else(|| specified_type(topic));
    if let Some(ggml_type) = topic.parse::<GgmlType>().ok().filter(|_| value_type.is_none()) {
        return Some(type_page(ggml_type));
    }
    value_type.or_else(|| topic.to_ascii_lowercase().parse::<ValueType>().ok()).map(value_type_page)
}

/// Parses the name of a metadata type in the specification.
fn specified_type(name: &str) -> Option<ValueType> {
    let name = name.to_ascii_lowercase();
    let start = [("uint", "u"), ("int", "i"), ("float", "f")]
        .into_iter()
        .find_map(|(long, short)| Some((short, name.strip_prefix(long)?)));
    start.and_then(|(short, bits)| format!("{short}{bits}").parse::<ValueType>().ok())
}

/// Returns the page of a file type.
pub(super) fn file_type_page(topic: &str) -> Option<String> {
    let file_type = topic.to_ascii_uppercase().parse::<FileType>().ok()?;
    Some(format!(
        "# {file_type}\n\nFile type number {} (`general.file_type`), and a TYPE for `ggmill \
         quantize`. It is a mixture: `ggmill quantize --dry-run` shows the type of each tensor.\n{}",
        file_type.0,
        advice(&file_type.to_string())
    ))
}

fn type_page(ggml_type: GgmlType) -> String {
    let mut page = format!("# {ggml_type}\n\nTensor type number {}.", ggml_type.0);
    if let Some(layout) = ggml_type.layout() {
        let (elements, bytes) = (layout.elements, layout.bytes);
        let plural = |number: u32| if number == 1 { "" } else { "s" };
        let _ = write!(
            page,
            "\n\n{elements} element{} in {bytes} byte{}: {} bits per weight.",
            plural(elements),
            plural(bytes),
            layout.bits_per_weight()
        );
        if elements > 1 {
            let _ = write!(page, " Row lengths must be multiples of {elements}.");
        }
    }
    if ggml_type.is_retired() {
        page.push_str("\n\nThis type was removed: current readers reject it.");
    }
    page.push('\n');
    if let Some(block) = BlockDescription::of(ggml_type) {
        let parts: Vec<_> =
            block.fields.iter().map(|field| Part { name: field.name, size: field.bytes }).collect();
        let _ = write!(page, "\n## Block layout in bytes\n\n{}\n", draw(&parts));
        let widest = block.fields.iter().map(|field| field.name.len()).max().unwrap_or(0);
        for field in block.fields {
            let bytes = if field.bytes == 1 {
                format!("{}", field.start)
            } else {
                format!("{}–{}", field.start, field.start + field.bytes - 1)
            };
            let _ = writeln!(page, "    {bytes:>7}  {:<widest$}  {}", field.name, field.what);
        }
        let _ = write!(
            page,
            "\nA weight is {}. Multi-byte numbers are in the byte order of the file.\n",
            block.formula
        );
    } else if let Some(bits) = bits(ggml_type) {
        let parts = bits.map(|(name, size)| Part { name, size });
        let _ = write!(page, "\n## Layout in bits, most significant first\n\n{}", draw(&parts));
    }
    page.push_str(&advice(&ggml_type.to_string()));
    page
}

/// Returns the fields of a floating-point number and their bits.
fn bits(ggml_type: GgmlType) -> Option<[(&'static str, u32); 3]> {
    let (exponent, fraction) = match ggml_type {
        GgmlType::F16 => (5, 10),
        GgmlType::BF16 => (8, 7),
        GgmlType::F32 => (8, 23),
        GgmlType::F64 => (11, 52),
        _ => return None,
    };
    Some([("sign", 1), ("exponent", exponent), ("fraction", fraction)])
}

fn value_type_page(value_type: ValueType) -> String {
    let size = match value_type.fixed_size() {
        Some(1) if value_type == ValueType::BOOL => "one byte: 0 is false and 1 is true".to_owned(),
        Some(1) => "one byte".to_owned(),
        Some(size) => format!("{size} bytes"),
        None if value_type == ValueType::STRING => {
            "its length in bytes as u64, then the bytes: UTF-8, without a terminating NUL"
                .to_owned()
        }
        None => {
            "the element type as u32, the number of elements as u64, then the elements".to_owned()
        }
    };
    let picture = match value_type {
        ValueType::STRING => draw(&[
            Part { name: "length", size: 8 },
            Part { name: "the bytes of the text …", size: 24 },
        ]),
        ValueType::ARRAY => draw(&[
            Part { name: "type", size: 4 },
            Part { name: "count", size: 8 },
            Part { name: "the elements …", size: 24 },
        ]),
        _ => String::new(),
    };
    // The end of a string or array is not fixed, so the offset after the last part is removed.
    let picture = picture.lines().enumerate().fold(String::new(), |out, (number, line)| {
        let line = if number == 0 {
            line.rsplit_once(' ').map_or(line, |(line, _)| line.trim_end())
        } else {
            line
        };
        out + line + "\n"
    });
    let gap = if picture.is_empty() { "" } else { "\n" };
    let width = if value_type.fixed_size().is_none() {
        " Version 1 uses 32-bit lengths and counts."
    } else {
        ""
    };
    format!(
        "# {value_type}\n\nMetadata value type number {}.\n\nIn the file: \
         {size}.{width}\n{gap}{picture}",
        value_type.0
    )
}

/// The width of a drawing in columns.
const WIDTH: usize = 68;

/// A part of a drawing, with its size in the unit of the drawing.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    name: &'a str,
    size: u32,
}

/// Draws parts in a row, with widths proportional to their sizes and at least those of their names, and
/// with their offsets above:
///
/// ```text
///     0    2                             34
///     ┌────┬─────────────────────────────┐
///     │ d  │ qs                          │
///     └────┴─────────────────────────────┘
/// ```
fn draw(parts: &[Part<'_>]) -> String {
    let total: u32 = parts.iter().map(|part| part.size).sum();
    let mut starts = Vec::with_capacity(parts.len());
    let end = parts.iter().fold(0, |at, part| {
        starts.push(at);
        at + part.size
    });
    let digits = |number: u32| number.to_string().len();
    let least: Vec<usize> = parts
        .iter()
        .zip(&starts)
        .map(|(part, &start)| (part.name.chars().count() + 2).max(digits(start)))
        .collect();
    let room = WIDTH.saturating_sub(least.iter().sum::<usize>() + parts.len() + 1);
    let share = |part: &Part<'_>| room * part.size as usize / (total as usize).max(1);
    let widths: Vec<usize> =
        parts.iter().zip(&least).map(|(part, least)| least + share(part)).collect();

    let mut rows = [String::new(), String::from("┌"), String::from("│"), String::from("└")];
    for (number, ((part, &width), start)) in parts.iter().zip(&widths).zip(&starts).enumerate() {
        let is_end = number + 1 == parts.len();
        let line = "─".repeat(width);
        // Writing to a string cannot fail.
        let _ = write!(rows[0], "{start:<column$}", column = width + 1);
        let _ = write!(rows[1], "{line}{}", if is_end { "┐" } else { "┬" });
        let _ = write!(rows[2], " {:<rest$}│", part.name, rest = width - 1);
        let _ = write!(rows[3], "{line}{}", if is_end { "┘" } else { "┴" });
    }
    let _ = write!(rows[0], "{end}");
    rows.iter().fold(String::new(), |picture, row| picture + "    " + row + "\n")
}

/// A target type of quantization.
struct Mixture {
    name: &'static str,
    /// Bits per weight of Llama 3.1 8B quantized to it, from the reference's documentation
    /// (`tools/quantize/README.md`). `None` for types that it does not list.
    bits: Option<f64>,
    advice: &'static str,
}

const NEARLY_LOSSLESS: &str = "Nearly lossless: for comparisons, for small models, or if there \
                               is plenty of memory.";
const VERY_GOOD: &str = "Very small quality loss; larger types are rarely worth their size.";
const GOOD: &str = "Small quality loss: the next step up if Q4_K_M is not good enough.";
const USUAL: &str = "The usual choice: a good balance of size and quality for most models.";
const SMALLER: &str = "Slightly smaller than Q4_K_M, with slightly more quality loss. An importance \
                       matrix reduces the loss.";
const NOTICEABLE: &str = "Noticeable quality loss: if Q4_K_M does not fit. Use an importance matrix \
                          (`--imatrix`), and compare with a smaller model at more bits.";
const STRONG: &str = "Large quality loss: only for large models that do not fit otherwise, and only \
                      with an importance matrix (`--imatrix`).";
const LEGACY: &str = "An older type: Q4_K_M, Q5_K_M or IQ4_NL have lower error at the same size. \
                      Useful if row lengths are not multiples of 256, or for backends that \
                      support no other types.";
const TERNARY: &str = "For models trained with ternary weights, such as BitNet; other models \
                       become unusable.";
const MICROSCALING: &str = "For models trained in this format, such as gpt-oss; for other models, \
                            Q4_K_M has lower error.";

const fn mixture(name: &'static str, bits: f64, advice: &'static str) -> Mixture {
    Mixture { name, bits: Some(bits), advice }
}

const fn unmeasured(name: &'static str, advice: &'static str) -> Mixture {
    Mixture { name, bits: None, advice }
}

const MIXTURES: [Mixture; 31] = [
    mixture("Q8_0", 8.5008, NEARLY_LOSSLESS),
    mixture("Q6_K", 6.5633, VERY_GOOD),
    mixture("Q5_K_M", 5.7036, GOOD),
    mixture("Q5_K_S", 5.5704, GOOD),
    mixture("Q4_K_M", 4.8944, USUAL),
    mixture("Q4_K_S", 4.6672, SMALLER),
    mixture("IQ4_NL", 4.6818, SMALLER),
    mixture("IQ4_XS", 4.4597, SMALLER),
    mixture("Q3_K_L", 4.2979, NOTICEABLE),
    mixture("Q3_K_M", 3.9960, NOTICEABLE),
    mixture("Q3_K_S", 3.6429, NOTICEABLE),
    mixture("IQ3_M", 3.7628, NOTICEABLE),
    mixture("IQ3_S", 3.6606, NOTICEABLE),
    mixture("IQ3_XS", 3.4977, NOTICEABLE),
    mixture("IQ3_XXS", 3.2548, NOTICEABLE),
    mixture("Q2_K", 3.1593, STRONG),
    mixture("Q2_K_S", 2.9697, STRONG),
    mixture("IQ2_M", 2.9294, STRONG),
    mixture("IQ2_S", 2.7403, STRONG),
    mixture("IQ2_XS", 2.5882, STRONG),
    mixture("IQ2_XXS", 2.3824, STRONG),
    mixture("IQ1_M", 2.1460, STRONG),
    mixture("IQ1_S", 2.0042, STRONG),
    unmeasured("Q4_0", LEGACY),
    unmeasured("Q4_1", LEGACY),
    unmeasured("Q5_0", LEGACY),
    unmeasured("Q5_1", LEGACY),
    unmeasured("TQ1_0", TERNARY),
    unmeasured("TQ2_0", TERNARY),
    unmeasured("MXFP4_MOE", MICROSCALING),
    unmeasured("NVFP4", MICROSCALING),
];

fn mixture_of(name: &str) -> Option<&'static Mixture> {
    MIXTURES.iter().find(|mixture| mixture.name.eq_ignore_ascii_case(name))
}

/// Returns the section of a page about choosing this type; empty without advice.
fn advice(name: &str) -> String {
    let Some(Mixture { name, bits, advice }) = mixture_of(name) else { return String::new() };
    let bits = bits.map_or_else(String::new, |bits| {
        let size = bits * 8.03 / 8.0;
        format!("For Llama 3.1 8B: {bits:.2} bits per weight, {size:.1} GB. ")
    });
    format!(
        "\n## When to choose it\n\n{bits}{advice}\n\n`ggmill quantize MODEL --compare {name},…` \
         compares the size and bits per weight for several types.\n"
    )
}

/// Returns the line about a target type in the list of topics.
pub(super) fn mixture_summary(name: &str) -> String {
    mixture_of(name)
        .and_then(|mixture| mixture.bits)
        .map_or_else(String::new, |bits| format!("about {bits:.2} bits per weight"))
}

/// Returns the names of the mixtures that are not tensor types.
pub(super) fn mixture_names() -> impl Iterator<Item = &'static str> {
    MIXTURES.iter().map(|mixture| mixture.name).filter(|name| name.parse::<GgmlType>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_equally_wide_and_names_fit() {
        let parts = [
            Part { name: "d", size: 2 },
            Part { name: "scales", size: 12 },
            Part { name: "qs", size: 128 },
        ];
        let picture = draw(&parts);
        let widths: Vec<usize> = picture.lines().skip(1).map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|&width| width == widths[0] && width <= WIDTH + 4), "{picture}");
        assert!(
            picture.contains("│ scales") && picture.lines().next().unwrap().ends_with("142"),
            "{picture}"
        );
    }

    #[test]
    fn every_mixture_is_a_file_type() {
        for Mixture { name, .. } in &MIXTURES {
            assert!(name.parse::<FileType>().is_ok(), "{name}");
        }
    }
}
