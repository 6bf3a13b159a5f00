//! Valid and broken GGUF files, built byte by byte, and real ones with their provenance.
