//! GGUF files on disk: memory maps, positioned reads, shard sets, atomic writes.
