#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batch;
mod buffers;
mod charsmap;
mod compare;
mod decode;
mod error;
mod examination;
mod explain;
mod models;
#[cfg(feature = "tokenizer-json")]
mod normalization;
mod occurrences;
mod pre;
mod special;
mod symbols;
mod tokenizer;
#[cfg(feature = "tokenizer-json")]
pub mod tokenizer_json;
mod trie;
mod unicode;
mod vocabulary;
mod word_cache;
mod work;

pub use compare::{Advice, Comparison, Difference, Fit, Fitting, IdDifference, Reason};
pub use compare::{compare, compare_ids, fitting_pre_tokenizers};
pub use decode::{DecodeOptions, Decoder};
pub use error::{Error, ErrorKind};
pub use examination::{IdleMerge, TokenFit, VocabularyFit};
pub use explain::{
    Explained, ExplainedMerge, ExplainedPass, ExplainedText, ExplainedWord, MergeOrder,
};
pub use pre::{
    allows_no_merges as pre_tokenizer_allows_no_merges, names as pre_tokenizer_names,
    rules as pre_tokenizer_rules,
};
pub use tokenizer::{EncodeOptions, Piece, Tokenizer};
pub use vocabulary::load::LoadOptions;
pub use vocabulary::{Attributes, Flags, Kind, SpecialIds, Vocabulary};
