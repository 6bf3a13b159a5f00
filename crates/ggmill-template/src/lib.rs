#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod builtins;
mod conversation;
#[cfg(feature = "tokens")]
mod document;
mod error;
#[cfg(feature = "tokens")]
mod examine;
mod feature;
mod file;
mod json;
mod literal;
mod markers;
mod meter;
mod model;
mod moment;
mod options;
mod run;
mod samples;
mod source;
mod template;
#[cfg(feature = "tokens")]
mod tokens;
mod value;

pub use access::{Access, accesses};
pub use conversation::{Conversation, Field};
pub use error::{Error, ErrorKind};
#[cfg(feature = "tokens")]
pub use examine::{Aspect, Observation, examine};
pub use feature::Feature;
pub use file::TemplateFile;
pub use json::Json;
pub use meter::Limits;
pub use model::{ModelTemplate, choose_template, model_templates};
pub use moment::Moment;
pub use options::RenderOptions;
pub use samples::samples;
pub use template::{Rendered, Segment, Template};
#[cfg(feature = "tokens")]
pub use tokens::{Refused, Tokens};
