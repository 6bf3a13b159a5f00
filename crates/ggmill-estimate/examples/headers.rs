//! Gives models that are only metadata the tensors that their descriptions require, for
//! `tests/reference/models.txt`: matrices are F16, all else is F32.
//!
//! ```text
//! cargo run -p ggmill-estimate --example headers < metadata.txt >> tests/reference/models.txt
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    dead_code,
    reason = "a chore stops where something is missing and says what it does"
)]

#[path = "../tests/it/models.rs"]
mod models;

use std::collections::BTreeMap;
use std::io::Read as _;

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let models = models::parse(&text);
    let texts = text.split("model ").filter(|part| !part.trim().is_empty());
    for (listed, text) in models.iter().zip(texts) {
        println!("model {}", text.trim_end());
        let metadata = listed.metadata();
        let description = listed.description().unwrap();
        let header = ggmill_core::Builder::new()
            .metadata(metadata.clone())
            .plan()
            .unwrap()
            .header()
            .to_vec();
        let file = ggmill_core::Header::parse(&header).unwrap();
        let resolved =
            description.resolve_file(file.metadata()).unwrap_or_else(|error| panic!("{error}"));
        let mut alike: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for tensor in resolved.tensors().iter().filter(|tensor| tensor.required) {
            let shape: Vec<String> =
                tensor.shape.dimensions().iter().map(ToString::to_string).collect();
            let ggml_type = if tensor.is_f32() || shape.len() < 2 { "F32" } else { "F16" };
            let kind = format!("{ggml_type} {}", shape.join("x"));
            let (name, block) = match tensor.name.strip_prefix("blk.") {
                Some(rest) => {
                    let (block, rest) = rest.split_once('.').unwrap();
                    (format!("blk.{{}}.{rest}"), block.to_owned())
                }
                None => (tensor.name.clone(), String::new()),
            };
            alike.entry((name, kind)).or_default().push(block);
        }
        for ((name, kind), blocks) in alike {
            println!("tensor {} {kind}", name.replace("{}", &format!("{{{}}}", blocks.join(","))));
        }
    }
}
