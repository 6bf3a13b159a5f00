//! Model architectures as data: keys, tensors, shapes, roles and where each comes from.
//!
//! An [`Architecture`] is a description in a TOML file: which checkpoints it is for, which
//! hyper-parameters it reads from their `config.json`, which metadata keys a file of it has, and
//! which tensors: name, shape, role, the names they have in a checkpoint and the [`Operation`]s on
//! the way. This library reads descriptions and applies them; it knows no architecture by name. A
//! [`Catalogue`] holds the built-in descriptions and those a user adds, and finds the one
//! for a checkpoint:
//!
//! ```
//! use ggmill_arch::{Catalogue, Origin};
//! let config = serde_json::json!({
//!     "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "tie_word_embeddings": true, "num_hidden_layers": 5,
//!     "hidden_size": 64, "intermediate_size": 172, "num_attention_heads": 8, "num_key_value_heads": 4,
//! });
//! let catalogue = Catalogue::new();
//! let model = catalogue.for_checkpoint(&config)?.resolve(&config)?;
//! for tensor in model.tensors() {
//!     if let Origin::Checkpoint(alternatives) = &tensor.origin {
//!         println!("{} {} from {:?}", tensor.name, tensor.shape, alternatives[0].names);
//!     }
//! }
//! # Ok::<(), ggmill_arch::Error>(())
//! ```
//!
//! Descriptions and configurations may come from strangers: both are bounded in every count and
//! depth, arithmetic is checked, and what is wrong is an [`Error`] that names the hyper-parameter,
//! key or tensor.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

mod architecture;
mod assignment;
mod builtin;
mod catalogue;
mod compare;
mod computation;
mod config;
mod data;
mod entries;
mod error;
mod expression;
mod file;
mod include;
mod key;
mod kinds;
mod limits;
mod names;
mod operation;
mod outline;
mod parameter;
mod pattern;
mod quantization;
mod requirement;
mod resolve;
mod role;
mod schema;
mod standard;
mod standard_role;
mod tensor;
mod terms;
mod value;
mod view;
mod vocabulary;

pub use architecture::Architecture;
pub use assignment::{Assigned, Assignment};
pub use catalogue::Catalogue;
pub use compare::Difference;
pub use computation::Computation;
pub use config::configured;
pub use error::{Error, ErrorKind, Result, Subject};
pub use file::{Demand, KeySpec};
pub use key::{Key, KeyValue};
pub use kinds::kind_of_architecture;
pub use names::TensorNames;
pub use operation::Operation;
pub use outline::{ParameterOutline, TensorOutline};
pub use quantization::MixtureTraits;
pub use requirement::{LOADER_REVISION, LoaderKey, Refusal, SPECIFICATION_REVISION, SpecifiedKey};
pub use resolve::Resolved;
pub use role::{Role, UnknownRole};
pub use standard::StandardKey;
pub use tensor::{Origin, Part, Source, TensorSpec};
pub use value::ParameterValue;
pub use view::ModelView;
pub use vocabulary::{VocabularyKind, VocabularySpec};
