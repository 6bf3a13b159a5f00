#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
#[cfg(feature = "tokens")]
mod behavior;
mod builtins;
mod conversation;
mod error;
#[cfg(feature = "tokens")]
mod examine;
mod file;
mod json;
mod meter;
mod moment;
mod probe;
#[cfg(feature = "tokens")]
mod prose;
mod run;
mod source;
mod template;
#[cfg(feature = "tokens")]
mod tokens;
mod value;

pub use access::{Access, accesses};
#[cfg(feature = "tokens")]
pub use behavior::{Behavior, BehaviorKind, behaviors};
pub use conversation::{Conversation, Field, samples};
pub use error::{Error, ErrorKind};
#[cfg(feature = "tokens")]
pub use examine::{Aspect, Observation, examine};
pub use file::{ModelTemplate, TemplateFile, choose_template, model_templates};
pub use json::{Json, JsonEntries};
pub use meter::Limits;
pub use moment::Moment;
pub use template::{Feature, RenderOptions, Rendered, Segment, Template};
#[cfg(feature = "tokens")]
pub use tokens::{Refused, Tokens};
