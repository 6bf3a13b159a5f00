//! Every codec against recorded results of the reference: golden vectors (`tests/vectors`, see its
//! README) and digests of every grid point of the IQ types.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use ggmill_core::GgmlType;
use ggmill_quant::{BlockCodec, codec};

use crate::inputs::{case, digest, random_bytes};

/// Returns the directory of the committed vectors, or of vectors with another seed, named by
/// `GGMILL_QUANT_VECTORS`.
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
fn every_vector_file_is_tested() {
    for entry in fs::read_dir(vectors()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let ggml_type = name.parse::<GgmlType>().unwrap();
            assert!(CHECKED.contains(&ggml_type), "{name}");
        }
    }
}

/// Checks all lines of one file and reports all that differ.
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
        // Where the reference aborts, the test is only that there is a result.
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
    // The previous content of the buffer must not matter.
    let mut out = vec![0xa5; layout.bytes_for(values.len() as u64).unwrap() as usize];
    codec.quantize(&values, row_len, weights.as_deref(), &mut out).unwrap();
    out
}

/// Returns the digest of the values, with every NaN replaced by the same one.
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

/// Decodes the first `points` grid points from blocks with the lowest scales and no signs. `place`
/// stores the index of a point in a block.
fn grid_values(
    ggml_type: GgmlType,
    points: usize,
    super_scale: u16,
    place: impl Fn(&mut [u8], usize, u16),
) -> Vec<f32> {
    let layout = ggml_type.layout().unwrap();
    let width = if matches!(ggml_type, GgmlType::IQ3_XXS | GgmlType::IQ3_S) { 4 } else { 8 };
    let per_block = layout.elements as usize / width;
    let mut blocks = vec![0; points / per_block * layout.bytes as usize];
    for (block, bytes) in blocks.chunks_exact_mut(layout.bytes as usize).enumerate() {
        bytes[..2].copy_from_slice(&super_scale.to_le_bytes());
        for column in 0..per_block {
            place(bytes, column, (block * per_block + column) as u16);
        }
    }
    let mut out = vec![0.0; points * width];
    ggmill_quant::dequantize(ggml_type, &blocks, &mut out).unwrap();
    out
}

fn check_grid(grid_values: &[f32], expected: u64) {
    let bytes: Vec<u8> = grid_values.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(digest(&bytes), expected);
}

// The digests are printed by `xtask/peers/iq_tables.py --digests`, from values that the reference
// computed. The super-scales make the lowest scale exactly 1.

#[test]
fn iq2_xxs_grid() {
    let found = grid_values(GgmlType::IQ2_XXS, 256, 0x4800, |block, column, index| {
        block[2 + column / 4 * 8 + column % 4] = index as u8;
    });
    assert_eq!(
        found[..16],
        [8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 43.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    );
    check_grid(&found, 0x94e0_9288_cf09_47df);
}

#[test]
fn iq2_xs_grid() {
    let found = grid_values(GgmlType::IQ2_XS, 512, 0x4800, |block, column, index| {
        block[2 + 2 * column..][..2].copy_from_slice(&index.to_le_bytes());
    });
    check_grid(&found, 0x48e9_c708_8c64_d7df);
}

#[test]
fn iq2_s_grid() {
    let found = grid_values(GgmlType::IQ2_S, 1024, 0x4800, |block, column, index| {
        block[2 + column] = index as u8;
        block[66 + column / 4] |= ((index >> 8) as u8) << (column % 4 * 2);
    });
    check_grid(&found, 0x39e9_7fde_a876_f7df);
}

#[test]
fn iq3_xxs_grid() {
    let found = grid_values(GgmlType::IQ3_XXS, 256, 0x4400, |block, column, index| {
        block[2 + column] = index as u8;
    });
    check_grid(&found, 0x78e4_4609_b1a9_dfdf);
}

#[test]
fn iq3_s_grid() {
    let found = grid_values(GgmlType::IQ3_S, 512, 0x3c00, |block, column, index| {
        block[2 + column] = index as u8;
        block[66 + column / 8] |= ((index >> 8) as u8) << (column % 8);
    });
    check_grid(&found, 0x0e86_eaad_71b5_47df);
}

#[test]
fn iq1_s_grid() {
    let found = grid_values(GgmlType::IQ1_S, 2048, 0x3c00, |block, column, index| {
        let high = (index >> 8) << (column % 4 * 3);
        let word = &mut block[34 + column / 4 * 2..][..2];
        let joined = u16::from_le_bytes([word[0], word[1]]) | high;
        word.copy_from_slice(&joined.to_le_bytes());
        block[2 + column] = index as u8;
    });
    check_grid(&found, 0xe33f_d66f_8ef4_37df);
}
