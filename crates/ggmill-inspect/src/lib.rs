//! What is in a GGUF file: view models with text and JSON renderers.
