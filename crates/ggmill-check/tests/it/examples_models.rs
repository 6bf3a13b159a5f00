//! Files that violate the rules about architectures and about files that are not models.

use ggmill_core::GgmlType;
use ggmill_testdata::bytes::Value;

use crate::support::Model;

pub(crate) fn example(code: &str) -> Option<(&'static str, Vec<u8>)> {
    let llama = Model::llama;
    let model = |model: Model| Some(("Tiny-1K-v1.0.gguf", model.bytes()));
    let kind =
        |kind: &str| Model::empty().set("general.architecture", "llama").set("general.type", kind);
    match code {
        "GG1501" => model(llama().unset("llama.context_length")),
        "GG1502" => model(llama().unset("llama.rope.dimension_count")),
        "GG1503" => model(Model::empty().set("general.architecture", "mobilenet").tensor(
            "a.b",
            &[8],
            GgmlType::F32,
        )),
        "GG1504" => model(llama().set("llama.context_length", Value::U64(16))),
        "GG1505" => model(llama().set("llama.attention.head_count", Value::U32(3))),
        "GG1506" => model(llama().set("llama.block_count", Value::U32(2))),
        "GG1507" => model(llama().set("llama.rope.scaling.type", "sideways")),
        "GG1508" => model(llama().set("llama.rope.scaling.type", "yarn")),
        "GG1509" => model(llama().set("llama.rope.scale_linear", Value::F32(2.0))),
        "GG1510" => model(Model { tensors: Vec::new(), ..llama() }),
        "GG1511" => model(llama().set("llama.rope.dimension_count", Value::U32(2))),
        "GG1512" => model(llama().retensor("blk.0.ffn_up.weight", None)),
        "GG1513" => model(llama().tensor("blk.0.ffn_side.weight", &[8], GgmlType::F32)),
        "GG1514" => model(llama().retensor("blk.0.ffn_up.weight", Some((&[8, 16], GgmlType::F32)))),
        "GG1515" => model(llama().set("general.architecture", "gptj")),
        "GG1516" => model(llama().set("general.architecture", "pockettts").tensor(
            "blk.0.ssm_in.weight",
            &[8],
            GgmlType::F32,
        )),
        "GG1530" => model(llama().set("llama.block_count", Value::U32(513))),
        "GG1531" => model(llama().set("llama.attention.head_count", Value::U32(0))),
        "GG1529" => model(llama().set("llama.context_length", Value::U32(0))),
        "GG1528" => model(
            llama()
                .set("ggmill.graph.version", Value::U32(1))
                .set("ggmill.graph", Value::Array(8, vec!["v0 = rows('embd', tokens)".into()])),
        ),
        "GG1517" => model(llama().set("general.architecture", "lama")),
        "GG1518" => model(llama().set("general.architecture", "gpt2")),
        "GG1519" => model(llama().set("general.architecture", "falcon")),
        "GG1526" => model(
            kind("adapter")
                .set("adapter.type", "lora")
                .set("adapter.lora.alpha", Value::F32(1.0))
                .tensor("blk.0.attn_q.weight.lora_a", &[32, 4], GgmlType::F32)
                .tensor("blk.0.attn_q.weight.lora_b", &[8, 32], GgmlType::F32),
        ),
        "GG1527" => model(
            kind("adapter")
                .set("adapter.type", "lora")
                .set("adapter.lora.alpha", Value::F32(1.0))
                .tensor("output.weight", &[8], GgmlType::F32),
        ),
        "GG1520" => model(kind("adapter")),
        "GG1521" => model(kind("adapter").set("adapter.type", "lora")),
        "GG1522" => {
            model(kind("adapter").tensor("blk.0.attn_q.weight.lora_a", &[1], GgmlType::F32))
        }
        "GG1523" => {
            model(kind("imatrix").tensor("blk.0.attn_q.weight.counts", &[1], GgmlType::F32))
        }
        "GG1524" => model(Model::empty().set("general.architecture", "controlvector").tensor(
            "direction.0",
            &[1],
            GgmlType::F32,
        )),
        "GG1525" => model(Model::empty().set("general.architecture", "clip")),
        _ => crate::examples_threats::example(code),
    }
}
