//! The Rust toolkit for GGUF model files: read, check, convert, quantize.
