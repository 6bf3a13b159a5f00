//! The pages of tensor types, metadata types and file types.

use std::fmt::Write as _;

use ggmill_core::{FileType, GgmlType, ValueType};
use ggmill_quant::BlockDescription;

use super::drawing::{Part, draw};

/// The page of a tensor type or a metadata type.
pub(super) fn page(topic: &str) -> Option<String> {
    // I8 is a tensor type, i8 a metadata type.
    let value_type = topic.parse::<ValueType>().ok().or_else(|| specified_type(topic));
    if let Some(ggml_type) = topic.parse::<GgmlType>().ok().filter(|_| value_type.is_none()) {
        return Some(type_page(ggml_type));
    }
    value_type.or_else(|| topic.to_ascii_lowercase().parse::<ValueType>().ok()).map(value_type_page)
}

/// A metadata type by the name that the specification gives it.
fn specified_type(name: &str) -> Option<ValueType> {
    let name = name.to_ascii_lowercase();
    let start = [("uint", "u"), ("int", "i"), ("float", "f")]
        .into_iter()
        .find_map(|(long, short)| Some((short, name.strip_prefix(long)?)));
    start.and_then(|(short, bits)| format!("{short}{bits}").parse::<ValueType>().ok())
}

/// The page of a file type.
pub(super) fn file_type_page(topic: &str) -> Option<String> {
    let file_type = topic.to_ascii_uppercase().parse::<FileType>().ok()?;
    Some(format!(
        "# {file_type}\n\nFile type number {} (`general.file_type`), and a TYPE for `ggmill \
         quantize`. It is a mixture: `ggmill quantize --dry-run` shows the type of each tensor.\n{}",
        file_type.0,
        super::mixtures::advice(&file_type.to_string())
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
    page.push_str(&super::mixtures::advice(&ggml_type.to_string()));
    page
}

/// The parts of a floating-point number, and how many bits each has.
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
    // Where such a value ends nobody knows.
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
