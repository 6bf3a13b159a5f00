#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod attributes;
mod batch;
mod charsmap;
mod compare;
mod decode;
#[cfg(feature = "json")]
mod document;
mod error;
mod explain;
mod explained;
mod fitting;
mod flags;
mod load;
mod memory;
mod models;
mod options;
mod pre;
mod read;
mod reason;
mod roles;
mod sink;
mod spaces;
mod special;
mod special_ids;
mod stream;
mod symbols;
mod texts;
mod token_map;
mod tokenizer;
#[cfg(feature = "tokenizer-json")]
pub mod tokenizer_json;
mod trie;
mod unicode;
mod unreachable;
mod vocabulary;
mod vocabulary_fit;
mod word_cache;

pub use attributes::Attributes;
pub use compare::{Comparison, Difference, compare};
pub use decode::DecodeOptions;
pub use error::{Error, ErrorKind};
pub use explained::{
    Explained, ExplainedMerge, ExplainedPass, ExplainedText, ExplainedWord, MergeOrder,
};
pub use fitting::{Advice, Fit, Fitting, fitting_pre_tokenizers};
pub use flags::Flags;
pub use options::{EncodeOptions, LoadOptions};
pub use pre::{
    allows_no_merges as pre_tokenizer_allows_no_merges, names as pre_tokenizer_names,
    rules as pre_tokenizer_rules,
};
pub use reason::Reason;
pub use sink::Piece;
pub use special_ids::SpecialIds;
pub use stream::Decoder;
pub use tokenizer::Tokenizer;
pub use unreachable::IdleMerge;
pub use vocabulary::{Kind, Vocabulary};
pub use vocabulary_fit::{TokenFit, VocabularyFit};
