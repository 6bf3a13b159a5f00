//! Any model card, generation configuration and file of metadata: converts a checkpoint without
//! weights.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ggmill_arch::Architecture;
use ggmill_convert::{ConvertOptions, MetadataOverride, convert};
use ggmill_core::{FileType, Header};
use ggmill_pipeline::{RunOptions, run};
use serde_json::json;

use crate::allocations::bounded;
use crate::vocabulary::split;
use crate::zeros::Zeros;

/// The parts of an input, in order; the last is the file of metadata.
const FILES: [&str; 2] = ["README.md", "generation_config.json"];

/// Converts a checkpoint with these files. A card never prevents a conversion.
pub fn model_card(data: &[u8]) {
    let parts = split(data);
    let files: BTreeMap<String, Vec<u8>> = FILES
        .into_iter()
        .zip(&parts)
        .filter(|(_, content)| !content.is_empty())
        .map(|(name, content)| (name.to_owned(), content.to_vec()))
        .collect();
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 8, "num_hidden_layers": 1, "hidden_size": 8,
        "intermediate_size": 8, "num_attention_heads": 1, "max_position_embeddings": 8,
    });
    let checkpoint = Zeros { config, tensors: Vec::new(), files };
    let architecture = Architecture::builtin("llama").expect("a built-in description");
    let mut options = ConvertOptions::new(FileType::F16);
    options.vocab_only = true;
    options.metadata =
        parts.get(FILES.len()).and_then(|text| MetadataOverride::from_json(text).ok());
    let recipe =
        bounded(data.len(), 64 << 20, 400, || convert(&checkpoint, architecture, &options))
            .expect("files beside the weights are ignored where they are wrong");
    let plan = recipe.plan(&checkpoint).expect("a recipe that was made is planned");
    let bytes = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .expect("nothing has to be read");
    let file = Header::parse(bytes).expect("what is written is read");
    assert_eq!(file.metadata().str("general.architecture").ok(), Some("llama"));
}
