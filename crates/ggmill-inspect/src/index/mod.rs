//! Tables of the headers of many GGUF files: a row for each file, tensor and metadata entry, with a
//! fixed schema, as NDJSON or Parquet (feature `parquet`).
//!
//! The caller opens files, several at once; their rows are written in order, in bounded memory. A file
//! that cannot be read becomes a row with its error. An update copies the rows of files whose size and
//! modification time are unchanged from the earlier index.
//!
//! ```
//! use std::ops::ControlFlow;
//! use ggmill_core::{Builder, MetadataBuf, Model};
//! use ggmill_inspect::index::{Candidate, IndexOptions, Tables, index};
//!
//! let mut metadata = MetadataBuf::new();
//! metadata.set("general.architecture", "llama");
//! let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
//! let files = [Candidate::new("tiny.gguf")];
//! let open = |_| Model::salvage(file.clone()).map_err(|error| error.to_string());
//! let mut lines = Vec::new();
//! let tables = Tables::ndjson(&mut lines, None)?;
//! let outcome =
//!     index(&files, &open, tables, &IndexOptions::default(), &mut |_, _| ControlFlow::Continue(()))?;
//! assert_eq!((outcome.files, outcome.entries), (1, 1));
//! assert!(String::from_utf8(lines)?.starts_with(r#"{"record":"file","path":"tiny.gguf","#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod candidate;
mod error;
mod in_order;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
mod previous;
mod rows;
mod run;
mod source;
mod store;
mod table;
mod tables;
mod text;
mod time;
mod value_cells;

pub use candidate::Candidate;
pub use error::{Error, Result};
pub use run::{Fault, IndexOptions, IndexOutcome, Unfinished, index};
pub use table::{Column, ColumnKind, TABLES, Table};
pub use tables::Tables;
pub use text::MAX_TEXT;
pub use value_cells::MAX_ELEMENTS;
