//! Seeds: the corpus of generated files, and the headers of real ones.

mod checkpoints;
mod formats;
mod packed;
mod texts;
mod tokenizer;

use std::fs;

use ggmill_core::GgmlType;
use ggmill_testdata::{REAL_GGUF, corpus, real};

/// Bytes of a real file in a seed: its keys and the start of its vocabulary.
const HEAD: usize = 4 << 10;

/// Piece sizes before each file for the target that reads them: as requested, byte by byte, uneven,
/// all at once.
const PIECES: [&[u8]; 4] = [&[1, 0], &[0x21, 1], &[0x33, 3, 0, 200], &[0]];

/// Returns the seeds of a target, each with a file name.
#[must_use]
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "dequantize" | "quantize" => return blocks(),
        "architecture" => return texts::descriptions(),
        "graph" => return texts::graphs(),
        "program" => return texts::programs(),
        "config" => return [texts::configurations(), packed::packed()].concat(),
        "start" => return texts::unknown_classes(),
        "file_name" => return texts::file_names(),
        "location" => return texts::locations(),
        "index" => return texts::earlier_indexes(),
        "request" => return texts::requests(),
        "manifest" => return texts::manifests(),
        "safetensors_index" => return texts::indexes(),
        "scores" => return texts::scores(),
        "type_plan" => return texts::type_plans(),
        "template" => return texts::templates(),
        "tokenizer" => return tokenizer::vocabularies(),
        "vocabulary" => return formats::vocabularies(),
        "byte_pairs" => return checkpoints::byte_pairs(),
        "model_card" => return checkpoints::model_cards(),
        "imatrix" => return formats::imatrices(),
        "journal" => return formats::journals(),
        "restore" => return formats::restorable(),
        "legacy" => return formats::legacy(),
        "npy" => return formats::npy(),
        "safetensors" => return formats::safetensors(),
        "torch" => return formats::torch(),
        _ => {}
    }
    let built = corpus::all().into_iter().map(|case| (case.name.to_owned(), case.bytes));
    let heads = REAL_GGUF.iter().filter_map(|name| {
        let mut bytes = fs::read(real(name)).ok()?;
        bytes.truncate(HEAD);
        Some((format!("{name}.head"), bytes))
    });
    let files = built.chain(heads);
    if target != "decoder_chunks" {
        return files.collect();
    }
    files
        .enumerate()
        .map(|(number, (name, file))| (name, [PIECES[number % PIECES.len()], &file].concat()))
        .collect()
}

/// Returns for every type the byte that selects it, and bytes that are finite floats and valid
/// blocks.
fn blocks() -> Vec<(String, Vec<u8>)> {
    let types = GgmlType::all()
        .filter_map(|ggml_type| Some((ggml_type.name()?, u8::try_from(ggml_type.0).ok()?)));
    types
        .flat_map(|(name, id)| {
            [0, 1].map(|weighted| {
                let numbers = (0_u8..64)
                    .flat_map(|number| (f32::from(number) * 0.37 - 11.0).sin().to_le_bytes());
                (format!("{name}.{weighted}"), [id, weighted].into_iter().chain(numbers).collect())
            })
        })
        .collect()
}
