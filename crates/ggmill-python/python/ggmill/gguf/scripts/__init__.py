"""The command-line programs of `gguf`, and the functions of theirs that other programs import."""
