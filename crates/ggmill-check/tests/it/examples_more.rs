//! Files that violate the rules about metadata of a model.

use ggmill_core::GgmlType;
use ggmill_testdata::bytes::Value;

use crate::support::{ALONE, Model, OTHER, strings};

/// A minimal template.
const CONTENT: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";

pub(crate) fn example(code: &str) -> Option<(&'static str, Vec<u8>)> {
    let llama = Model::llama;
    let model = |model: Model| Some(("Tiny-1K-v1.0.gguf", model.bytes()));
    let template = |text: &str| Model::llama().set("tokenizer.chat_template", text);
    let split = |number: u16, count: u16, all: i32| {
        llama()
            .set("split.no", Value::U16(number))
            .set("split.count", Value::U16(count))
            .set("split.tensors.count", Value::I32(all))
    };
    // Modifies the bytes of the model; the tensor data begins at the second offset.
    let raw = |change: &dyn Fn(&mut [u8], usize)| {
        let mut bytes = llama().bytes();
        let data = bytes.len() - usize::try_from(llama().offsets().1).unwrap();
        change(&mut bytes, data);
        Some(("Tiny-1K-v1.0.gguf", bytes))
    };
    match code {
        "GG1601" => model(llama().unset("tokenizer.ggml.tokens")),
        "GG1602" => {
            model(llama().set("tokenizer.ggml.scores", Value::Array(6, vec![Value::F32(0.0)])))
        }
        "GG1603" => {
            model(llama().set("tokenizer.ggml.token_type", Value::Array(5, vec![Value::I32(1)])))
        }
        "GG1604" => {
            model(llama().set("tokenizer.ggml.token_type", Value::Array(5, vec![Value::I32(7); 5])))
        }
        "GG1605" => model(llama().set("tokenizer.ggml.bos_token_id", Value::U32(5))),
        "GG1606" => model(llama().set("tokenizer.ggml.merges", strings(&["ab"]))),
        "GG1607" => model(llama().set("tokenizer.ggml.merges", strings(&["b a"]))),
        "GG1608" => model(llama().unset("tokenizer.ggml.pre")),
        "GG1609" => model(llama().set("tokenizer.ggml.pre", "llama-4711")),
        "GG1610" => model(llama().set("tokenizer.ggml.separator_token_id", Value::U32(1))),
        "GG1611" => {
            model(llama().set("tokenizer.ggml.tokens", strings(&["<s>", "a", "b", "ab", "a"])))
        }
        "GG1612" => model(llama().set("tokenizer.ggml.model", "morse")),
        "GG1613" => model(llama().retensor("token_embd.weight", Some((&[8, 6], GgmlType::F32)))),
        "GG1614" => model(llama().unset("tokenizer.ggml.merges")),
        "GG1615" => model(llama().set("tokenizer.ggml.prefix_token_id", Value::U32(1))),
        "GG1701" => model(template("{% for message in %}")),
        "GG1702" => model(template("{{ ''.__class__ }}")),
        "GG1703" => model(template("{# \u{202e} #}")),
        "GG1704" => model(template(" ")),
        "GG1705" => model(template(&"x".repeat((1 << 20) + 1))),
        "GG1706" => model(template("{{ ''|attr(name) }}")),
        "GG1707" => model(template("{% include '/etc/passwd' %}")),
        "GG1708" => model(template("{% for i in range(10**9) %}{% endfor %}")),
        "GG1709" => Some((OTHER, llama().bytes())),
        "GG1801" => Some(("model.gguf", llama().bytes())),
        "GG1802" => Some(("Tiny-1K-v1.0-Q4_0.gguf", llama().bytes())),
        "GG1901" => model(split(2, 2, 12)),
        "GG1902" => Some(("Tiny-1K-v1.0-00002-of-00002.gguf", split(0, 2, 24).bytes())),
        "GG1903" => model(split(0, 2, 11)),
        "GG1904" => model(split(0, 0, 12)),
        "GG1905" => Some(("Tiny-1K-v1.0-00002-of-00002.gguf", llama().bytes())),
        "GG2001" => model(llama().set("general.license", "free for all")),
        "GG2002" => model(llama().set("general.languages", strings(&["english"]))),
        "GG2003" => model(llama().set("general.url", "javascript:alert(1)")),
        "GG2004" => model(llama().set("general.doi", "11.1/x")),
        "GG2005" => model(llama().set("general.uuid", "12345678")),
        "GG2006" => model(llama().set("general.base_model.count", Value::U32(1))),
        "GG2007" => model(llama().set("general.size_label", "7B")),
        "GG2008" => model(llama().set("general.name", "/tmp/x")),
        "GG1111" | "GG2009" | "GG2010" => model(llama()),
        "GG1112" => model(llama().set("general.sampling.top_p", Value::F32(1.5))),
        "GG1113" => model(
            llama()
                .set("general.tensor_extra.name", strings(&["a", "b"]))
                .set("general.tensor_extra.prec_a4", Value::Array(7, vec![Value::Bool(1)])),
        ),
        "GG1209" => model(llama().set("general.weather", "fine")),
        "GG1406" => model(Model::empty().tensor("x.weight", &[64], GgmlType::NVFP4)),
        "GG1407" => model(llama().unset("general.file_type")),
        "GG1616" => model(llama().set("tokenizer.huggingface.json", "{")),
        "GG1617" => model(
            llama()
                .set("tokenizer.ggml.separator_token_id", Value::U32(1))
                .set("tokenizer.ggml.seperator_token_id", Value::U32(2)),
        ),
        "GG1618" => model(
            llama()
                .set("tokenizer.ggml.model", "llama")
                .set("tokenizer.ggml.tokens", strings(&["<s>", "a", "b", "ab", "<0x0A>"])),
        ),
        "GG1803" => model(llama().set("general.size_label", "2K")),
        "GG1804" => Some(("Tiny-1K-v1.0-vocab.gguf", llama().bytes())),
        "GG1805" => model(llama().set("general.version", "v2.0")),
        "GG1806" => model(llama().set("general.basename", "Huge")),
        "GG1906" => model(llama().set("split.count", Value::U16(2))),
        "GG1907" => Some((ALONE, split(0, 2, 24).bytes())),
        "GG2201" => model(template("{% for m in messages %}{{ m.content.text.x }}{% endfor %}")),
        "GG2202" => model(template(
            "{% set ns = namespace(x=messages[0].content) %}{% for i in range(100) %}\
             {% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        )),
        "GG2203" => model(template(
            "{% set all = [] %}{% for m in messages %}{{ all.append(m.content) }}{{ m.content }}\
             {% endfor %}",
        )),
        "GG2204" => model(template(&format!("<|begin|>{CONTENT}"))),
        "GG2205" => model(
            template(&format!("<|b|>{CONTENT}"))
                .set("tokenizer.ggml.tokens", strings(&["<s>", "a", "<|b|>", "ab", "c"])),
        ),
        "GG2206" => model(llama().set("tokenizer.ggml.eos_token_id", Value::U32(4))),
        "GG2207" => model(
            template(&format!("{{{{ bos_token }}}}{CONTENT}"))
                .set("tokenizer.ggml.add_bos_token", Value::Bool(1)),
        ),
        "GG2208" => model(template(
            "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
             {% if add_generation_prompt %}<bot>{% endif %}",
        )),
        "GG2209" => model(template(
            "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}\
             {% endfor %}",
        )),
        "GG2210" => model(template(&format!("{CONTENT}{{% set x = enable_thinking %}}"))),
        "GG2211" => model(template(&format!("{{{{ strftime_now('%d %b %Y') }}}}{CONTENT}"))),
        "GG2212" => model(template(
            "{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}",
        )),
        "GG2213" => model(
            template(&format!("{CONTENT}{{% if add_generation_prompt %}} a{{% endif %}}"))
                .set("tokenizer.ggml.tokens", strings(&["<s>", "a", "H", "aH", "c"]))
                .set("tokenizer.ggml.merges", strings(&["a H"])),
        ),
        "GG2214" => model(llama().set("tokenizer.chat_templates", strings(&["tool_use"]))),
        "GG2101" => {
            raw(&|bytes, data| bytes[data..data + 4].copy_from_slice(&f32::NAN.to_le_bytes()))
        }
        "GG2102" => {
            let model = Model::empty().set("general.architecture", "x").tensor(
                "x.weight",
                &[32, 2],
                GgmlType::Q8_0,
            );
            let mut bytes = model.bytes();
            let at = bytes.len() - 96 + 35;
            bytes[at] = 0x7c;
            Some(("Tiny-1K-v1.0.gguf", bytes))
        }
        "GG2103" => model(Model::empty().tensor("x.weight", &[8, 2], GgmlType::F16)),
        "GG2104" => {
            raw(&|bytes, data| bytes[data..data + 4].copy_from_slice(&1e6f32.to_le_bytes()))
        }
        _ => crate::examples_vocabularies::example(code),
    }
}
