"""The command-line programs of `gguf`, and the functions that other programs import from them."""
