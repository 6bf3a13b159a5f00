#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

mod architecture;
mod assignment;
mod builtin;
mod catalogue;
mod compare;
mod compute;
mod config;
mod data;
mod declared;
mod directory;
mod distance;
mod entries;
mod error;
mod expression;
mod facts;
mod file;
mod include;
mod key;
mod key_template;
mod kinds;
mod limits;
mod memory;
mod name_rules;
mod names;
mod near;
mod operation;
mod outline;
mod parameter;
mod pattern;
mod pieces;
mod quantization;
mod requirement;
mod resolve;
mod reverse;
mod role;
mod rope_factors;
mod schema;
mod standard;
mod standard_role;
mod start;
mod tensor;
mod tensor_type;
mod terms;
mod transformers;
mod value;
mod view;
mod vocabulary;
mod vocabulary_kind;

pub use architecture::Architecture;
pub use assignment::{Assigned, Assignment};
pub use catalogue::Catalogue;
pub use compare::Difference;
pub use compute::{ComputeSpec, StepNumbers};
pub use config::configured;
pub use directory::DescriptionFiles;
pub use distance::distance;
pub use error::{Error, ErrorKind, Result, Subject};
pub use facts::CheckpointFacts;
pub use file::{Demand, KeySpec};
pub use key::{Key, KeyValue};
pub use kinds::kind_of_architecture;
pub use memory::{CacheSpec, CachedBlock, MemorySpec, StateBlock, StateSpec, TensorPlace};
pub use name_rules::NameRules;
pub use names::TensorNames;
pub use near::near_part;
pub use operation::Operation;
pub use outline::{ParameterOutline, TensorOutline};
pub use quantization::MixtureTraits;
pub use requirement::{LOADER_REVISION, LoaderKey, Refusal, SPECIFICATION_REVISION, SpecifiedKey};
pub use resolve::Resolved;
pub use reverse::ReversedConfig;
pub use role::{Role, UnknownRole};
pub use standard::StandardKey;
pub use start::StartingDescription;
pub use tensor::{Origin, Part, Source, TensorSpec};
pub use tensor_type::TensorType;
pub use value::ParameterValue;
pub use view::ModelView;
pub use vocabulary::{
    AddedTokens, PieceRules, RankRules, SpacePrefix, TokenReference, VocabularyKindSpec,
    VocabularySpec,
};
pub use vocabulary_kind::VocabularyKind;
