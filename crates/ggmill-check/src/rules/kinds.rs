//! Files that are no models: adapters, control vectors, importance matrices, projectors.

use ggmill_core::ValueType;

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Architecture;
    ADAPTER_TYPE = "GG1520" Error Reference {
        summary: "An adapter does not say of which type it is",
        clause: "llama.cpp: adapter.type must be \"lora\".",
        why: "llama.cpp refuses the adapter.",
        remedy: "Set adapter.type to lora, if that is what it is.",
    }
    ADAPTER_ALPHA = "GG1521" Error Reference {
        summary: "A LoRA adapter without its alpha",
        clause: "llama.cpp scales an adapter by adapter.lora.alpha, a float, over its rank.",
        why: "The strength of the adapter is not known.",
        remedy: "Set adapter.lora.alpha as f32 to lora_alpha of the adapter's configuration.",
    }
    ADAPTER_PAIR = "GG1522" Error Reference {
        summary: "Half of a LoRA pair is missing",
        clause: "llama.cpp: \"missing lora_a or lora_b\" is refused; tensors come as `<name>.lora_a` and `<name>.lora_b`.",
        why: "llama.cpp refuses the adapter.",
        remedy: "Convert the adapter again.",
    }
    MATRIX_PAIR = "GG1523" Error Reference {
        summary: "Half of an importance pair is missing",
        clause: "llama-quantize: entries come as `<name>.in_sum2` and `<name>.counts`; one without the other is \"mismatched sums and counts\".",
        why: "llama-quantize refuses the file.",
        remedy: "Compute the importance matrix again.",
    }
    DIRECTION = "GG1524" Error Reference {
        summary: "A control vector has a tensor that is no direction",
        clause: "llama.cpp: tensors of a control vector are named direction.N, with N from 1, and are F32 of one dimension.",
        why: "llama.cpp refuses the control vector.",
        remedy: "Make the control vector again.",
    }
    ENCODER = "GG1525" Error Reference {
        summary: "A projector says of no encoder that it has it",
        clause: "llama.cpp reads clip.has_vision_encoder and clip.has_audio_encoder and needs one of them.",
        why: "llama.cpp refuses the projector.",
        remedy: "Set the key of the encoder that is in the file to true.",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    if !input.is_whole() || !input.is_first() {
        return;
    }
    match input.kind() {
        "adapter" => {
            if input.text("adapter.type") != Some("lora") {
                out.add(&ADAPTER_TYPE, Place::missing("adapter.type"), || "is not lora".into());
            } else if input.metadata().get("adapter.lora.alpha").is_none_or(|pair| pair.value_type() != ValueType::F32) {
                out.add(&ADAPTER_ALPHA, Place::missing("adapter.lora.alpha"), || "there is no such f32".into());
            }
            halves(input, [".lora_a", ".lora_b"], &ADAPTER_PAIR, out);
        }
        "imatrix" => halves(input, [".in_sum2", ".counts"], &MATRIX_PAIR, out),
        "controlvector" => directions(input, out),
        "mmproj" => {
            let has = |key: &str| input.value(key).and_then(|value| value.as_bool()).unwrap_or(false);
            if !["clip.has_vision_encoder", "clip.has_audio_encoder", "clip.has_gen_audio_encoder"].into_iter().any(has) && input.architecture() == Some("clip")
            {
                out.add(&ENCODER, Place::missing("clip.has_vision_encoder"), || "neither a vision nor an audio encoder is said to be there".into());
            }
        }
        _ => {}
    }
}

fn halves(input: &Input<'_>, ends: [&str; 2], rule: &'static crate::Rule, out: &mut Findings<'_>) {
    for (shard, tensor) in input.model_tensors() {
        for (end, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            if let Some(stem) = tensor.name().as_bytes().strip_suffix(end.as_bytes())
                && input.is_complete()
                && input.model_tensor(&[stem, other.as_bytes()].concat()).is_none()
            {
                out.add(rule, Place::info(&tensor).in_shard(shard), || format!("there is no tensor {other} to this one"));
            }
        }
    }
}

fn directions(input: &Input<'_>, out: &mut Findings<'_>) {
    for (shard, tensor) in input.model_tensors() {
        let number = tensor.name().to_str().ok().and_then(|name| name.strip_prefix("direction.")?.parse::<u32>().ok());
        let fits = tensor.ggml_type() == ggmill_core::GgmlType::F32 && tensor.shape().dimensions().len() == 1;
        if number.is_none_or(|number| number == 0) || !fits {
            out.add(&DIRECTION, Place::info(&tensor).in_shard(shard), || format!("is {} of dimensions {}", tensor.ggml_type(), tensor.shape()));
        }
    }
}
