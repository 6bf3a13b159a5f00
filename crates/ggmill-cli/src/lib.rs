//! The ggmill command: the toolkit for GGUF model files.
