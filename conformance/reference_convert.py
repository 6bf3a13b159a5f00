"""Runs the reference converter on a checkpoint without a tokenizer.

    python reference_convert.py LLAMA_CPP DIR OUT TYPE

LLAMA_CPP is the directory `vendor/llama.cpp` of the source archive of llama-cpp-python 0.3.36; the interpreter needs torch and transformers. The converter stops
where a LLaMA checkpoint has no tokenizer, so its own step for models without a vocabulary is put in that place; everything else runs as it is. The fixtures
under crates/ggmill-testdata/expected/converted are what conformance/expect.py finds in the files this makes.
"""

import runpy
import sys

root, directory, out, kind = sys.argv[1:5]
sys.path[:0] = [root, root + "/gguf-py"]

import conversion.llama  # noqa: E402

conversion.llama.LlamaModel.set_vocab = lambda self: self._set_vocab_none()
sys.argv = ["convert_hf_to_gguf.py", directory, "--outfile", out, "--outtype", kind]
runpy.run_path(root + "/convert_hf_to_gguf.py", run_name="__main__")
