//! Operations on whole files.

use std::path::Path;

use ggmill::pipeline::ShardLimit;
use ggmill::text::Glob;

use crate::error::{Class, Failure, Result};

pub(crate) mod edit;
pub(crate) mod measure;
pub(crate) mod quantize;
pub(crate) mod report;

/// Returns the limit for shards; `None` if the output is one file.
fn shard_limit(max_size: Option<u64>, max_tensors: Option<u64>) -> Result<Option<ShardLimit>> {
    match (max_size, max_tensors) {
        (None, None) => Ok(None),
        (Some(bytes), None) => Ok(Some(ShardLimit::Bytes(bytes))),
        (None, Some(tensors)) => Ok(Some(ShardLimit::Tensors(tensors))),
        _ => Err(Failure::misuse("both max_size and max_tensors were given, expected one of them")),
    }
}

/// Parses glob patterns.
fn globs(patterns: &[String]) -> Result<Vec<Glob>> {
    let glob = |pattern: &String| {
        pattern.parse::<Glob>().map_err(|error| Failure::misuse(format!("{pattern:?}: {error}")))
    };
    patterns.iter().map(glob).collect()
}

/// Converts an error about the model at `path`. Errors about patterns and templates lack the path.
fn located(error: ggmill::Error, path: &Path) -> Failure {
    let lacks_path = matches!(error.kind_name(), "pattern" | "template");
    let failure = Failure::from(error);
    if lacks_path { failure.at(path) } else { failure }
}

/// Formats a document as JSON.
fn json(document: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(document)
        .map_err(|error| Failure::new(Class::FileError, "io", error.to_string()))
}
