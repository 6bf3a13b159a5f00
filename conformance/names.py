"""Prints how gguf reads model names, for crates/ggmill-convert/tests/names.txt.

id | parameters | name | version | organization | finetune | basename | size label
"""
import gguf

IDS = [
    ("stories260K", 260032), ("Llama-3.2-1B-Instruct", 1235814400), ("Llama-3.2-1B-Instruct", 260032), ("my-model", 1000),
    ("Mixtral-8x7B-v0.1", 46702792704), ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46702792704), ("Mistral-7B-Instruct-v0.3", 7248023552),
    ("Phi-3-mini-4k-instruct", 3821079552), ("Phi-3-medium-128k-instruct", 13960238080), ("bloom-7b1", 7069016064), ("gpt2-xl", 1557611200),
    ("bert-base-uncased", 109482240), ("Qwen2.5-0.5B", 494032768), ("qwen1.5-moe-a2.7b-chat", 14315784192), ("TinyLlama-1.1B-Chat-v1.0", 1100048384),
    ("tiny-random-LlamaForCausalLM", 1000000), ("Hermes-2-Pro-Llama-3-8B", 8030261248), ("Nous-Hermes-2-Mixtral-8x7B-DPO", 46702792704),
    ("DeepSeek-R1-Distill-Qwen-32B", 32763876352), ("falcon-40b", 41303293952), ("SmolLM2-135M-Instruct", 134515008), ("llama-2-7b-hf", 6738415616),
    ("A sentence with 7B in it", 7000000000), ("./local-model", 1000), ("Meta-Llama-3-8B-Instruct-fp16", 8030261248), ("starcoder2-3b-iter10", 3030371328),
    ("-leading-dash", 10), ("xl", 10), ("model-q4_k_m-v2", 10), ("v2", 10), ("OLMo-1B-0724-hf", 1279787008), ("model_1", 5), ("Yi-1_5-6B", 6061035520),
]
for model_id, parameters in IDS:
    name, org, base, tune, version, size = gguf.Metadata.get_model_id_components(model_id, parameters)
    title = gguf.Metadata.id_to_title
    fields = [model_id, str(parameters), name and title(name), version, org and title(org), tune, base, size]
    print("|".join(field or "" for field in fields))
