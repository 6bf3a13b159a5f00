//! Checkpoints into GGUF: sources, recipes, plans and the run that streams them.
