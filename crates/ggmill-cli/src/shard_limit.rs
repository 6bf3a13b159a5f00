//! How large a shard may be, as commands that write a whole model and may split it take it.

use ggmill_pipeline::{ShardLimit, SplitOptions};

use crate::byte_size::byte_size;

#[derive(Debug, clap::Args)]
pub(crate) struct ShardLimitArgs {
    /// Write shards with at most this many bytes of tensor data each: OUT-00001-of-00009.gguf, …
    #[arg(long, alias = "max-size", value_name = "N(K|M|G)", value_parser = byte_size, conflicts_with = "split_max_tensors", help_heading = "Shards")]
    split_max_size: Option<u64>,
    /// Write shards with at most this many tensors each
    #[arg(long, alias = "max-tensors", value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Shards")]
    split_max_tensors: Option<u64>,
}

impl ShardLimitArgs {
    /// How to split, if at all.
    pub(crate) fn options(&self) -> Option<SplitOptions> {
        let bytes = self.split_max_size.map(ShardLimit::Bytes);
        bytes.or(self.split_max_tensors.map(ShardLimit::Tensors)).map(SplitOptions::new)
    }
}
