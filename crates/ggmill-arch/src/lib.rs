#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

mod catalogue;
mod checkpoint;
mod data;
mod description;
mod error;
pub mod graph;
mod language;
mod limits;
mod lower;
mod memory;
mod parameters;
mod reference;
mod resolve;
mod reverse;
mod spelling;
mod value;
mod view;

pub use catalogue::Catalogue;
pub use catalogue::directory::DescriptionFiles;
pub use catalogue::refused_classes;
pub use catalogue::start::StartingDescription;
pub use checkpoint::name_rules::NameRules;
pub use checkpoint::operation::Operation;
pub use checkpoint::vocabulary::{
    AddedTokens, PieceRules, RankRules, SpacePrefix, TokenReference, VocabularyKindSpec,
    VocabularySpec,
};
pub use checkpoint::vocabulary_kind::VocabularyKind;
pub use data::tables::{MixtureTraits, TensorNames};
pub use description::architecture::Architecture;
pub use description::architecture::kind_of_architecture;
pub use description::tensor::TensorOutline;
pub use description::tensor::{Origin, Source, SourcePart, TensorSpec, UnusedElements};
pub use error::{Error, ErrorKind, Result, Subject};
pub use language::block::block_of;
pub use language::facts::CheckpointFacts;
pub use memory::compute::{ComputeKind, ComputeLayer, ComputeNode, ComputeNumbers, ComputeSpec};
pub use memory::{CacheSpec, CachedBlock, MemorySpec, StateBlock, StateSpec, TensorPlace};
pub use parameters::ParameterOutline;
pub use parameters::config::configured;
pub use parameters::key::{Key, KeyValue};
pub use parameters::settings::AssumedSetting;
pub use reference::keys::StandardKey;
pub use reference::keys::{
    LOADER_REVISION, LoaderKey, Refusal, SPECIFICATION_REVISION, SpecifiedKey,
};
pub use reference::role::{Role, UnknownRole};
pub use reference::tensor_type::TensorType;
pub use resolve::Resolved;
pub use resolve::assignment::{Assigned, Assignment};
pub use resolve::compare::Difference;
pub use resolve::file::{KeySpec, RequiredBy};
pub use reverse::ReversedConfig;
pub use spelling::{distance, near_part};
pub use value::ParameterValue;
pub use view::ModelView;
