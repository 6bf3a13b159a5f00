//! Files that are not models: adapters, control vectors, importance matrices, projectors.

use ggmill_arch::kind_of_architecture;
use ggmill_core::ValueType;

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Architecture;
    ADAPTER_TYPE = "GG1520" Error Reference {
        summary: "Adapter type is missing or is not lora",
        clause: "Reported when `adapter.type` is missing or is not `lora`. llama.cpp accepts no other type of adapter: \"expect adapter.type to be 'lora'\".",
        why: "The adapter does not load.",
        remedy: "Set adapter.type to lora if the adapter is a LoRA.",
        fixed: "adapter.type = \"lora\"",
    }
    ADAPTER_ALPHA = "GG1521" Error Reference {
        summary: "LoRA adapter has no alpha",
        clause: "Reported when a LoRA adapter has no `adapter.lora.alpha` of type f32. llama.cpp multiplies the adapter's changes by alpha divided by the rank. If the key is missing, it omits this factor; if the key has a different type, it aborts.",
        why: "llama.cpp applies the adapter with the wrong strength, or aborts.",
        remedy: "Set adapter.lora.alpha (f32) to lora_alpha from the adapter's configuration.",
        fixed: "adapter.lora.alpha = 16.0",
    }
    ADAPTER_PAIR = "GG1522" Error Reference {
        summary: "Incomplete LoRA tensor pair",
        clause: "Reported when an adapter has only one of the tensors `<name>.lora_a` and `<name>.lora_b`, the low-rank matrices whose product is the update to the tensor `<name>`. llama.cpp rejects the adapter: \"is missing one component\".",
        why: "The adapter does not load.",
        remedy: "Convert the adapter again from its checkpoint.",
        fixed: "tensors \"blk.0.attn_q.weight.lora_a\" and \"blk.0.attn_q.weight.lora_b\"",
    }
    ADAPTER_RANK = "GG1526" Error Reference {
        summary: "LoRA ranks differ",
        clause: "Reported when the tensors `<name>.lora_a` and `<name>.lora_b` of an adapter have different ranks. The rank is the second dimension of lora_a (for token_embd.weight, the first) and the first dimension of lora_b. If the ranks of a tensor other than token_embd.weight differ, llama.cpp rejects the adapter: \"lora_a tensor is not transposed\". If those of token_embd.weight differ, it aborts when it applies the adapter.",
        why: "llama.cpp does not load the adapter or, for token_embd.weight, cannot apply it.",
        remedy: "Convert the adapter again from its checkpoint.",
        fixed: "lora_a: dimensions [32, 4]; lora_b: dimensions [4, 32]",
    }
    ADAPTER_TENSOR = "GG1527" Error Reference {
        summary: "LoRA adapter has an unexpected tensor",
        clause: "Reported when the name of a tensor in an adapter does not end in .lora_a, .lora_b or _norm.weight. llama.cpp rejects the adapter: \"has unexpected suffix\".",
        why: "The adapter does not load.",
        remedy: "Train or export the adapter without full copies of weights (PEFT's modules_to_save), and convert it again.",
        fixed: "no tensor \"output.weight\"",
    }
    MATRIX_PAIR = "GG1523" Error Reference {
        summary: "Incomplete importance matrix entry",
        clause: "Reported when an entry of an importance matrix has only one of the tensors `<name>.in_sum2` and `<name>.counts`. llama-quantize rejects the file: \"mismatched sums and counts\".",
        why: "The importance matrix cannot be used for quantization.",
        remedy: "Compute the importance matrix again.",
        fixed: "tensors \"blk.0.attn_q.weight.in_sum2\" and \"blk.0.attn_q.weight.counts\"",
    }
    DIRECTION = "GG1524" Error Reference {
        summary: "Invalid control vector tensor",
        clause: "Reported when a tensor of a control vector is not named `direction.N` with a layer number N of at least 1, is not F32, or has more than one dimension. llama.cpp rejects a control vector that contains such a tensor.",
        why: "The control vector does not load.",
        remedy: "Create the control vector again.",
        fixed: "tensor \"direction.1\": F32, dimensions [1]",
    }
    ENCODER = "GG1525" Error Reference {
        summary: "Projector declares no encoder",
        clause: "Reported when none of `clip.has_vision_encoder`, `clip.has_audio_encoder` and `clip.has_gen_audio_encoder` is true in a projector file (mmproj). llama.cpp loads only the encoders that these keys declare, and rejects a file without any.",
        why: "The projector does not load.",
        remedy: "Set the key of each encoder that the file contains to true.",
        fixed: "clip.has_vision_encoder = true",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    if !input.is_whole() || !input.is_first() {
        return;
    }
    match input.kind() {
        "adapter" => {
            if input.text("adapter.type") != Some("lora") {
                out.add(&ADAPTER_TYPE, Place::missing("adapter.type"), || {
                    "the key is missing or is not lora".into()
                });
            } else if input
                .metadata()
                .get("adapter.lora.alpha")
                .is_none_or(|entry| entry.value_type() != ValueType::F32)
            {
                out.add(&ADAPTER_ALPHA, Place::missing("adapter.lora.alpha"), || {
                    "the key is missing or is not f32".into()
                });
            }
            halves(input, [".lora_a", ".lora_b"], &ADAPTER_PAIR, out);
            ranks(input, out);
        }
        "imatrix" => halves(input, [".in_sum2", ".counts"], &MATRIX_PAIR, out),
        "controlvector" => directions(input, out),
        "mmproj" => {
            let has =
                |key: &str| input.value(key).and_then(|value| value.as_bool()).unwrap_or(false);
            if !["clip.has_vision_encoder", "clip.has_audio_encoder", "clip.has_gen_audio_encoder"]
                .into_iter()
                .any(has)
                && input.architecture().and_then(kind_of_architecture) == Some("mmproj")
            {
                out.add(&ENCODER, Place::missing("clip.has_vision_encoder"), || {
                    "no clip.has_*_encoder key is true".into()
                });
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
                out.add(rule, Place::info(&tensor).in_shard(shard), || {
                    format!("the matching {other} tensor is missing")
                });
            }
        }
    }
}

/// Checks that both tensors of a pair have the same rank, and that all tensors belong to pairs.
fn ranks(input: &Input<'_>, out: &mut Findings<'_>) {
    for (shard, tensor) in input.model_tensors() {
        let name = tensor.name().as_bytes();
        if ![b".lora_a".as_slice(), b".lora_b", b"_norm.weight"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            out.add(&ADAPTER_TENSOR, Place::info(&tensor).in_shard(shard), || {
                "the name does not end in .lora_a, .lora_b or _norm.weight".into()
            });
        }
        let Some(stem) = name.strip_suffix(b".lora_a") else { continue };
        let Some((_, other)) = input.model_tensor(&[stem, b".lora_b"].concat()) else { continue };
        let dimension = |tensor: &ggmill_core::Tensor<'_>, number: usize| {
            tensor.shape().dimensions().get(number).copied().unwrap_or(1)
        };
        let (rank, place) =
            (dimension(&other, 0), usize::from(!stem.ends_with(b"token_embd.weight")));
        if dimension(&tensor, place) != rank {
            let (own, others) = (tensor.shape(), other.shape());
            out.add(&ADAPTER_RANK, Place::info(&tensor).in_shard(shard), || {
                format!(
                    "rank {} (dimensions {own}), but the matching .lora_b has rank {rank} (dimensions {others})",
                    dimension(&tensor, place)
                )
            });
        }
    }
}

/// Returns why a tensor is not a direction of a control vector.
fn direction_fault(tensor: &ggmill_core::Tensor<'_>) -> Option<String> {
    let Some(number) = tensor.name().to_str().ok().and_then(|name| name.strip_prefix("direction."))
    else {
        return Some("the name is not direction.N".into());
    };
    match number.parse::<u32>() {
        Err(_) => return Some("the name is not direction.N with a number N".into()),
        Ok(0) => return Some("direction 0, but layers are numbered from 1".into()),
        Ok(_) => {}
    }
    let fits =
        tensor.ggml_type() == ggmill_core::GgmlType::F32 && tensor.shape().dimensions().len() == 1;
    (!fits).then(|| {
        format!(
            "{} with dimensions {}, expected F32 with one dimension",
            tensor.ggml_type(),
            tensor.shape()
        )
    })
}

fn directions(input: &Input<'_>, out: &mut Findings<'_>) {
    for (shard, tensor) in input.model_tensors() {
        if let Some(fault) = direction_fault(&tensor) {
            out.add(&DIRECTION, Place::info(&tensor).in_shard(shard), || fault);
        }
    }
}
