//! Any `vocab.json` and `merges.txt` with a tokenizer class: converts a checkpoint without weights.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ggmill_arch::Architecture;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, Header};
use ggmill_pipeline::{RunOptions, run};
use serde_json::json;

use crate::allocations::bounded;
use crate::vocabulary::split;
use crate::zeros::Zeros;

/// Classes that make a tokenizer of the two files, and one that does not.
const CLASSES: [&str; 9] = [
    "GPT2Tokenizer",
    "RobertaTokenizer",
    "Qwen2Tokenizer",
    "CodeGenTokenizer",
    "BartTokenizer",
    "LEDTokenizer",
    "LongformerTokenizer",
    "MvpTokenizer",
    "T5Tokenizer",
];

/// The parts of an input, in order.
const FILES: [&str; 4] =
    ["vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json"];

/// The size of the vocabulary in the configuration.
const TOKENS: usize = 600;

/// Converts the files: the first byte selects the class and its flags, and whether the
/// pre-tokenizer is named or recognized.
pub fn byte_pairs(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let choice = usize::from(choice);
    let mut files: BTreeMap<String, Vec<u8>> = FILES
        .into_iter()
        .zip(split(rest))
        .filter(|(_, content)| !content.is_empty())
        .map(|(name, content)| (name.to_owned(), content.to_vec()))
        .collect();
    let flag = |bit: usize| choice >> (5 + bit) & 1 == 1;
    let class = json!({
        "tokenizer_class": CLASSES[choice % 32 % CLASSES.len()], "add_prefix_space": flag(0), "add_bos_token": flag(1),
    });
    files.insert("tokenizer_config.json".to_owned(), class.to_string().into_bytes());
    let config = json!({
        "architectures": ["GPT2LMHeadModel"], "vocab_size": TOKENS, "n_layer": 1, "n_embd": 64, "n_head": 8, "n_positions": 64,
        "layer_norm_epsilon": 1e-5,
    });
    let checkpoint = Zeros { config, tensors: Vec::new(), files };
    let architecture = Architecture::builtin("gpt2").expect("a built-in description");
    let mut options = ConvertOptions::new(FileType::F16);
    options.vocab_only = true;
    options.pre = flag(2).then(|| "gpt-2".to_owned());
    let made = bounded(data.len(), 64 << 20, 400, || convert(&checkpoint, architecture, &options));
    let Ok(recipe) = made else { return };
    let plan = recipe.plan(&checkpoint).expect("a recipe that was made is planned");
    let bytes = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .expect("nothing has to be read");
    let file = Header::parse(bytes).expect("what is written is read");
    let metadata = file.metadata();
    if metadata.str("tokenizer.ggml.model").ok() == Some("none") {
        return;
    }
    let tokens = metadata.array("tokenizer.ggml.tokens").expect("a vocabulary has tokens");
    assert_eq!(tokens.len(), TOKENS as u64);
    let types = metadata.array("tokenizer.ggml.token_type").expect("written with them");
    assert_eq!(types.len(), tokens.len());
    if let Ok(merges) = metadata.array("tokenizer.ggml.merges") {
        for merge in merges.strings().expect("merges are text") {
            let merge = merge.expect("written as text").to_string_lossy().into_owned();
            let parts = merge.split(' ').filter(|part| !part.is_empty()).count();
            assert_eq!(parts, 2, "{merge:?}");
        }
    }
}
