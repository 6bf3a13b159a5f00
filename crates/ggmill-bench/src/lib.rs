//! Benchmarks of ggmill and their recorded results.
