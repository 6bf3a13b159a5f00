//! LLaMA models in the formats before GGUF, with pseudorandom weights: one for each container and each
//! block layout.

use ggmill_core::Endian;

use crate::bytes::FileBytes;
use crate::models::random;

/// A file in a format before GGUF.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LegacyModel {
    /// The file name, from which the name of the model is derived.
    pub name: &'static str,
    /// The bytes of the file.
    pub file: Vec<u8>,
    /// If true, the reference converts it. The reference rejects blocks whose layout has changed since.
    pub is_taken_by_reference: bool,
}

/// Returns every file.
pub fn legacy_models() -> Vec<LegacyModel> {
    let model = |name,
                 magic: &[u8; 4],
                 version,
                 file_type,
                 type_id,
                 block: (u64, usize),
                 is_taken_by_reference| LegacyModel {
        name,
        file: file(*magic, version, file_type, type_id, block),
        is_taken_by_reference,
    };
    vec![
        model("ggml-f32.bin", b"lmgg", None, 0, 0, (1, 4), true),
        model("ggml-f16.bin", b"lmgg", None, 1, 1, (1, 2), true),
        model("ggmf-f16.bin", b"fmgg", Some(1), 1, 1, (1, 2), true),
        model("ggjt1-f16.bin", b"tjgg", Some(1), 1, 1, (1, 2), true),
        model("ggjt2-q5_1.bin", b"tjgg", Some(2), 9, 7, (32, 24), true),
        model("ggjt3-q4_0.bin", b"tjgg", Some(3), 2, 2, (32, 18), true),
        model("ggjt3-q8_0.bin", b"tjgg", Some(3), 7, 8, (32, 34), true),
        model("ggmf-q4_0.bin", b"fmgg", Some(1), 2, 2, (32, 20), false),
        model("ggjt1-q4_1.bin", b"tjgg", Some(1), 3, 3, (32, 24), false),
        model("ggjt1-q5_0.bin", b"tjgg", Some(1), 8, 6, (32, 22), false),
        model("ggjt1-q8_0.bin", b"tjgg", Some(1), 7, 8, (32, 36), false),
        model("ggjt2-q4_0.bin", b"tjgg", Some(2), 2, 2, (32, 20), false),
    ]
}

fn file(
    magic: [u8; 4],
    version: Option<u32>,
    file_type: u32,
    type_id: u32,
    block: (u64, usize),
) -> Vec<u8> {
    const VOCABULARY: u32 = 300;
    const EMBEDDING: u64 = 64;
    const LAYERS: u32 = 2;
    let mut file = FileBytes::new(3, Endian::Little);
    file.raw(&magic);
    if let Some(version) = version {
        file.u32(version);
    }
    for parameter in [VOCABULARY, 64, 32, 4, LAYERS, 16, file_type] {
        file.u32(parameter);
    }
    for token in 0..VOCABULARY {
        let text = match token {
            5 => Vec::new(),
            3..=258 => vec![u8::try_from(token - 3).unwrap_or(0)],
            _ => format!(" token {token}").into_bytes(),
        };
        file.u32(u32::try_from(text.len()).unwrap_or(0)).raw(&text);
        if magic != *b"lmgg" {
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            file.f32(-(token as f32));
        }
    }
    let mut seed = 0;
    let mut tensor = |name: String, dimensions: &[u64]| {
        let (type_id, block) = if dimensions.len() == 1 { (0, (1, 4)) } else { (type_id, block) };
        file.u32(u32::try_from(dimensions.len()).unwrap_or(0))
            .u32(u32::try_from(name.len()).unwrap_or(0))
            .u32(type_id);
        for dimension in dimensions {
            file.u32(u32::try_from(*dimension).unwrap_or(0));
        }
        file.raw(name.as_bytes());
        if magic == *b"tjgg" {
            file.pad(32);
        }
        seed += 1;
        let blocks = dimensions.iter().product::<u64>() / block.0;
        for bits in random(seed).take(usize::try_from(blocks).unwrap_or(0)) {
            file.raw(&data(bits, type_id, block.1));
        }
    };
    tensor("tok_embeddings.weight".to_owned(), &[EMBEDDING, VOCABULARY.into()]);
    tensor("norm.weight".to_owned(), &[EMBEDDING]);
    tensor("output.weight".to_owned(), &[EMBEDDING, VOCABULARY.into()]);
    for layer in 0..LAYERS {
        let of = |part: &str| format!("layers.{layer}.{part}.weight");
        for part in ["wq", "wk", "wv", "wo"] {
            tensor(of(&format!("attention.{part}")), &[EMBEDDING, EMBEDDING]);
        }
        tensor(of("attention_norm"), &[EMBEDDING]);
        tensor(of("feed_forward.w1"), &[EMBEDDING, 96]);
        tensor(of("feed_forward.w2"), &[96, EMBEDDING]);
        tensor(of("feed_forward.w3"), &[EMBEDDING, 96]);
        tensor(of("ffn_norm"), &[EMBEDDING]);
    }
    file.into_bytes()
}

/// Returns one number or block. Scales in f32 are exact in half precision, so that conversion need not
/// lose precision.
fn data(bits: u64, type_id: u32, len: usize) -> Vec<u8> {
    let fill: Vec<u8> = random(bits >> 32).flat_map(u64::to_le_bytes).take(len).collect();
    #[expect(clippy::cast_precision_loss, reason = "ten bits")]
    let scale = ((bits & 0x3ff) as f32 + 1.0) / 4096.0;
    let half = (0x2000 | (bits & 0x3ff) as u16).to_le_bytes();
    let scales: Vec<u8> = match (type_id, len) {
        (0, _) | (2, 20) | (8, 36) => scale.to_le_bytes().to_vec(),
        (3, 24) => [scale.to_le_bytes(), (-8.0 * scale).to_le_bytes()].concat(),
        (1 | 2 | 6 | 8, _) => half.to_vec(),
        _ => [half, half].concat(),
    };
    [&*scales, fill.get(scales.len()..).unwrap_or_default()].concat()
}
