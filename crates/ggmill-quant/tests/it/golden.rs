//! Every codec against what the reference computed (`tests/vectors`, see its README).

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use ggmill_core::GgmlType;
use ggmill_quant::{BlockCodec, codec};

use crate::inputs::{case, digest, random_bytes};

/// The committed vectors, or others made with another seed: more cases at no cost in committed
/// bytes.
fn vectors() -> PathBuf {
    std::env::var_os("GGMILL_QUANT_VECTORS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors")),
        PathBuf::from,
    )
}

macro_rules! golden {
    ($($name:ident $ggml_type:ident;)*) => {
        $(
            #[test]
            fn $name() {
                check(GgmlType::$ggml_type);
            }
        )*

        const CHECKED: &[GgmlType] = &[$(GgmlType::$ggml_type),*];
    };
}

golden! {
    f32 F32;
    f16 F16;
    bf16 BF16;
    q4_0 Q4_0;
    q4_1 Q4_1;
    q5_0 Q5_0;
    q5_1 Q5_1;
    q8_0 Q8_0;
    q8_1 Q8_1;
    q2_k Q2_K;
    q3_k Q3_K;
    q4_k Q4_K;
    q5_k Q5_K;
    q6_k Q6_K;
    q8_k Q8_K;
    iq1_s IQ1_S;
    iq1_m IQ1_M;
    iq2_xxs IQ2_XXS;
    iq2_xs IQ2_XS;
    iq2_s IQ2_S;
    iq3_xxs IQ3_XXS;
    iq3_s IQ3_S;
    iq4_nl IQ4_NL;
    iq4_xs IQ4_XS;
    tq1_0 TQ1_0;
    tq2_0 TQ2_0;
    mxfp4 MXFP4;
    nvfp4 NVFP4;
    q1_0 Q1_0;
    q2_0 Q2_0;
}

#[test]
fn no_vectors_lie_unused() {
    for entry in fs::read_dir(vectors()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let ggml_type = name.parse::<GgmlType>().unwrap();
            assert!(CHECKED.contains(&ggml_type), "{name}");
        }
    }
}

/// Checks all lines of one file and reports every one that differs, not only the first.
fn check(ggml_type: GgmlType) {
    let codec = codec(ggml_type).unwrap();
    let path = vectors().join(format!("{ggml_type}.txt"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines();
    let seed = lines.next().and_then(|line| line.strip_prefix("seed ")).unwrap().parse().unwrap();
    let mut differences = String::new();
    let mut count = 0;
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let found = match words[..] {
            ["quantize", pattern, kind, shape, _] => {
                format!("{:016x}", digest(&quantized(codec, pattern, kind, seed, shape)))
            }
            ["sample", pattern, kind, shape, _] => {
                hex(&quantized(codec, pattern, kind, seed, shape))
            }
            ["dequantize", fill, index, blocks, _] => {
                format!(
                    "{:016x}",
                    dequantized(
                        codec,
                        fill,
                        seed + index.parse::<u64>().unwrap(),
                        blocks.parse().unwrap()
                    )
                )
            }
            _ => panic!("{line}"),
        };
        count += 1;
        let (_, expected) = line.rsplit_once(' ').unwrap();
        // Where the reference aborts there is nothing to equal; that there is an answer at all is
        // the test.
        if found != expected && expected != "abort" {
            writeln!(differences, "{line}\n    found {found}").unwrap();
        }
    }
    assert!(count > 40, "{count} cases");
    assert!(
        differences.is_empty(),
        "{ggml_type}: {} of {count} cases differ\n{differences}",
        differences.lines().count() / 2
    );
}

fn quantized(codec: &dyn BlockCodec, pattern: &str, kind: &str, seed: u64, shape: &str) -> Vec<u8> {
    let (rows, row_len) = shape.split_once('x').unwrap();
    let row_len = row_len.parse().unwrap();
    let (values, weights) = case(pattern, kind, seed, rows.parse().unwrap(), row_len);
    let layout = codec.ggml_type().layout().unwrap();
    // What the room held before must not show.
    let mut out = vec![0xa5; layout.bytes_for(values.len() as u64).unwrap() as usize];
    codec.quantize(&values, row_len, weights.as_deref(), &mut out).unwrap();
    out
}

/// The digest of the values, every NaN counting as the same one.
fn dequantized(codec: &dyn BlockCodec, fill: &str, seed: u64, blocks: usize) -> u64 {
    let layout = codec.ggml_type().layout().unwrap();
    let length = blocks * layout.bytes as usize;
    let bytes = match u8::from_str_radix(fill, 16) {
        Ok(byte) => vec![byte; length],
        Err(_) => random_bytes(seed, length),
    };
    let mut out = vec![0.0; blocks * layout.elements as usize];
    codec.dequantize(&bytes, &mut out).unwrap();
    let bits = out
        .iter()
        .flat_map(|value| if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }.to_le_bytes());
    digest(&bits.collect::<Vec<u8>>())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
