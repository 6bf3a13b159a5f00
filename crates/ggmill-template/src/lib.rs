#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod builtins;
mod conversation;
mod error;
mod examine;
mod json;
mod literal;
mod meter;
mod model;
mod moment;
mod run;
mod samples;
mod source;
mod template;
mod tokens;
mod value;

pub use conversation::{Conversation, Field};
pub use error::{Error, ErrorKind};
pub use examine::{Aspect, Observation, examine};
pub use json::Json;
pub use meter::Limits;
pub use model::{ModelTemplate, model_templates, special_tokens};
pub use moment::Moment;
pub use samples::samples;
pub use template::{RenderOptions, Rendered, Segment, Template};
pub use tokens::{Refused, Tokens};
