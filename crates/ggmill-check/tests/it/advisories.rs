//! For each advisory a minimal file with the property that triggers the flaw, recognized by its rule. The
//! files are made here: none is an exploit.

use ggmill_check::{Advisory, Options, Profile, rule_page, rules};
use ggmill_core::{Endian, GgmlType};
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::every_gguf;

use crate::examples::example;
use crate::examples_threats::{adapter, byte_token, bytes, projector};
use crate::support::{Model, codes, report_named};

fn threats(bytes: &[u8]) -> Vec<&'static str> {
    let options = Options::default().with_profile(Profile::Threat);
    codes(&report_named("Tiny-1K-v1.0.gguf", bytes, &options))
}

/// Returns a header with these counts and nothing after them.
fn counts(tensors: u64, pairs: u64) -> Vec<u8> {
    FileBytes::v3(tensors, pairs).into_bytes()
}

/// Returns a file with one entry whose value claims `length`: a string, or an array of `element`.
fn long(element: Option<u32>, length: u64) -> Vec<u8> {
    let mut file = FileBytes::v3(0, 1);
    file.string("a.key");
    match element {
        Some(element) => file.u32(9).array(element, length),
        None => file.u32(8).length(length),
    };
    file.into_bytes()
}

/// Returns a file whose tensor claims this number of dimensions.
fn dimensions(count: u32) -> Vec<u8> {
    let mut file = FileBytes::v3(1, 0);
    file.string("a.b").u32(count);
    for _ in 0..count.min(64) {
        file.u64(1);
    }
    file.u32(0).u64(0).pad(32).raw(&[0; 64]);
    file.into_bytes()
}

/// Returns a file with tensors of these dimensions and offsets, and 64 bytes of data.
fn tensors(all: &[(&[u64], u64)]) -> Vec<u8> {
    let mut file = FileBytes::v3(all.len() as u64, 0);
    for (number, (shape, offset)) in all.iter().enumerate() {
        file.tensor(format!("a.{number}"), shape, 0, *offset);
    }
    file.pad(32).raw(&[0; 64]);
    file.into_bytes()
}

/// Returns a file of version 1 whose string has 4 GiB.
fn string_of_version_1() -> Vec<u8> {
    let mut file = FileBytes::new(1, Endian::Little);
    file.head(0, 1).string("a.key").u32(8).length(u64::from(u32::MAX));
    file.into_bytes()
}

/// Returns the files that have the property of an advisory.
fn files(id: &str) -> Option<Vec<Vec<u8>>> {
    let llama = Model::llama;
    let one = |bytes: Vec<u8>| Some(vec![bytes]);
    let model = |model: Model| Some(vec![model.bytes()]);
    let of = |code: &str| example(code).map(|(_, bytes)| bytes);
    match id {
        "CVE-2024-21825" | "CVE-2024-25668" => one(long(Some(8), u64::MAX / 16 + 2)),
        "CVE-2024-23496" | "CVE-2024-25665" => one(long(None, u64::MAX)),
        "CVE-2025-66960" => one(string_of_version_1()),
        "CVE-2025-66959" => Some(vec![long(None, 1 << 63), long(Some(4), (1 << 63) + 1)]),
        "CVE-2024-25667" | "gguf-py#27188" => one(long(Some(4), 1 << 63)),
        "mlx#4213" => Some(vec![long(None, 4 << 20), long(Some(4), 1 << 20)]),
        "CVE-2024-12055" => one(long(None, 1000)),
        "CVE-2024-21802" | "sparkinfer#11" => Some(vec![dimensions(12), dimensions(5)]),
        "mlx#3358" | "gguf-tools#25" | "openvino.genai#4170" => one(dimensions(9)),
        "CVE-2024-21836" | "CVE-2024-25666" => one(counts(u64::MAX / 48, 0)),
        "CVE-2024-23605" | "CVE-2024-25664" => one(counts(0, u64::MAX / 48)),
        "CVE-2025-0315" | "ferrox#24" => one(counts(0, 500_000_000)),
        "ollama#17042" => Some(vec![counts(1 << 40, 0), long(Some(8), 1 << 33)]),
        "CVE-2024-32878" | "CVE-2025-0312" => one(llama().bytes()[..120].to_vec()),
        "CVE-2024-41130" => {
            let mut file = FileBytes::v3(1, 0);
            file.length(64).raw(b"blk");
            one(file.into_bytes())
        }
        "CVE-2024-39720" => one(b"GGUF".to_vec()),
        // Sizes that add up to 2^64, and one that overflows by itself.
        "CVE-2025-53630" | "CVE-2026-27940" => {
            one(tensors(&[(&[1 << 61], 0), (&[1 << 61], 1 << 63), (&[8], 0)]))
        }
        "CVE-2026-33298" => one(tensors(&[(&[1 << 32, 1 << 31], 0)])),
        "gguf-py#25378" => Some(vec![tensors(&[(&[1 << 32, 1 << 31], 0)]), dimensions(5)]),
        "llama.cpp#26318" => one(tensors(&[(&[(1 << 62) - 1], 0)])),
        "CVE-2026-7482" | "sparkinfer#25" | "llama.cpp#18991" | "mlx#4136" => {
            one(tensors(&[(&[64], 0)]))
        }
        "llama.cpp#27056" => {
            let whole = adapter([1, 1]).bytes();
            one(whole[..whole.len() - 64].to_vec())
        }
        "llama.cpp#24263" => {
            Some(vec![tensors(&[(&[1, 0], 0)]), Model::empty().set("", Value::U8(0)).bytes()])
        }
        "llama.cpp#24997" => one(of("GG2407")?),
        "llama.cpp#19856" => Some(vec![of("GG1009")?, of("GG1201")?]),
        "CVE-2025-49847" => one(of("GG2406")?),
        "GHSA-g4cc-763q-h9h6" | "llama.cpp#25508" => model(llama()),
        "llama.cpp#25969" => {
            Some(["<0x-1>", "<0x-f>", "<0xZZ>"].map(|name| byte_token(name).bytes()).to_vec())
        }
        "llama.cpp#27226" => model(byte_token("<0x+1>")),
        "llama.cpp#26690" => {
            let of_bytes = |key| llama().set(key, bytes(&[0; 5])).bytes();
            let keys = ["scores", "token_type", "suppress_tokens", "merges"];
            Some(keys.map(|key| of_bytes(format!("tokenizer.ggml.{key}"))).to_vec())
        }
        "llama.cpp#26690-vocabulary" => one(of("GG2403")?),
        "llama.cpp#20735" => Some(vec![of("GG1602")?, of("GG1603")?]),
        "llama.cpp#25258" => {
            let table = |values: &[u8]| {
                llama().set("tokenizer.ggml.precompiled_charsmap", bytes(values)).bytes()
            };
            Some(vec![table(&[1, 2]), table(&[255, 255, 255, 255, 0, 0]), table(&[1, 0, 0, 0, 0])])
        }
        "llama.cpp#25513" | "llama.cpp#25821" => model(
            Model::empty()
                .set("general.architecture", "gemma2")
                .set("gemma2.block_count", Value::U32(100_000)),
        ),
        "llama.cpp#26892" => model(
            Model::empty()
                .set("general.architecture", "wavtokenizer-dec")
                .set("wavtokenizer-dec.block_count", Value::U32(1))
                .set("wavtokenizer-dec.posnet.block_count", Value::U32(2)),
        ),
        "LLAMA_MAX_LAYERS" => {
            let with = |key: &str, number| llama().set(key, Value::U32(number)).bytes();
            Some(vec![
                with("llama.block_count", 0),
                with("llama.block_count", 513),
                with("llama.nextn_predict_layers", 2),
            ])
        }
        "rope_sections" => {
            let with = |sections: &[i32]| {
                let all = sections.iter().map(|&section| Value::I32(section)).collect();
                llama().set("llama.rope.dimension_sections", Value::Array(5, all)).bytes()
            };
            Some(vec![with(&[1, 1, 1, 1, 1]), with(&[0, 0, 0, 0])])
        }
        "llama.cpp#2247" => one(of("GG1531")?),
        "llama.cpp#11378" | "LLAMA_MAX_EXPERTS" => model(
            llama()
                .set("llama.expert_count", Value::U32(1025))
                .set("llama.expert_used_count", Value::U32(2)),
        ),
        "llama.cpp#29128" => model(adapter([8, 4])),
        "llama.cpp#27225" => model(projector("vision.projector.scale_factor", 0)),
        "llama.cpp#24085" => model(
            projector("vision.attention.head_count", 0)
                .set("clip.vision.block_count", Value::U32(2)),
        ),
        "llama.cpp#27224" => model(projector("vision.image_min_pixels", 46_340 * 46_340)),
        "llama.cpp#27223" => {
            Some([0, 65_537].map(|size| projector("audio.chunk_size", size).bytes()).to_vec())
        }
        "llama.cpp#27166" => {
            model(projector("vision.image_size", 4096).set("clip.vision.patch_size", Value::U32(2)))
        }
        "llama.cpp#26237" => model(projector("vision.preproc_max_tiles", 200_000_000)),
        "lmstudio#2289" => Some(vec![of("GG1619")?, of("GG2409")?, of("GG2410")?]),
        "keys-as-C-strings" => model(llama().set("tokenizer.chat_template\0", "{{ 1 }}")),
        "CVE-2024-8063" => Some(
            ["llama.block_count", "llama.attention.head_count"]
                .map(|key| llama().set(key, "1").bytes())
                .to_vec(),
        ),
        "CVE-2025-0317" => one(alignment(0)),
        "gguf-tools#28" => Some(vec![alignment(0), long(None, 1 << 40)]),
        "CVE-2024-34359" | "CVE-2026-5760" => Some(vec![of("GG1702")?, of("GG1706")?]),
        "template-include" => one(of("GG1707")?),
        "template-bomb" => Some(vec![of("GG1705")?, of("GG1708")?]),
        "pillar-templates" => Some(vec![of("GG2215")?, of("GG2216")?, of("GG2219")?]),
        "c4nary-inventory" => {
            Some(vec![of("GG1703")?, of("GG2215")?, of("GG2217")?, of("GG2218")?])
        }
        "undetermined-template" => Some(vec![of("GG1701")?, of("GG2220")?]),
        "CVE-2025-62609" => Some(
            [GgmlType(43), GgmlType::Q4_2]
                .map(|kind| Model::empty().tensor("x.weight", &[16], kind).bytes())
                .to_vec(),
        ),
        "mlx#4245" => one(of("GG2413")?),
        "gguf-py#28880" | "huggingface.js#2028" => {
            let mut nested = Value::Array(4, vec![Value::U32(1)]);
            let mut files = Vec::new();
            for depth in 0..40 {
                nested = Value::Array(9, vec![nested]);
                if depth == 0 || depth == 39 {
                    files.push(Model::empty().set("a.key", nested.clone()).bytes());
                }
            }
            Some(files)
        }
        "acestep.cpp#98" => one(of("GG2411")?),
        "whisper.cpp#3944" | "whisper.cpp#4059" | "whisper.cpp#3780" => {
            one(b"lmgg\x02\0\0\0".repeat(8))
        }
        _ => None,
    }
}

fn alignment(number: u32) -> Vec<u8> {
    Model::empty().set("general.alignment", Value::U32(number)).bytes()
}

#[test]
fn a_file_for_every_advisory_is_recognized() {
    let mut missed = Vec::new();
    for advisory in Advisory::all() {
        let Some(files) = files(advisory.id) else {
            missed.push(format!("{}: no file", advisory.id));
            continue;
        };
        for (number, file) in files.iter().enumerate() {
            let found = threats(file);
            if !found.iter().any(|code| advisory.is_recognized_by(code)) {
                missed.push(format!("{} {number}: {found:?}", advisory.id));
            }
        }
        // Every rule that the advisory names recognizes one of its files, except for the two rules
        // about headers and the three about sizes, of which one is enough.
        for code in advisory.rules().filter(|code| !ALTERNATIVES.contains(code)) {
            if !files.iter().any(|file| threats(file).contains(&code)) {
                missed.push(format!("{}: no file for {code}", advisory.id));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

const ALTERNATIVES: [&str; 5] = ["GG1002", "GG1003", "GG1302", "GG1304", "GG1312"];

#[test]
fn pages_cite_the_advisories() {
    for rule in rules() {
        let page = rule_page(rule);
        for advisory in rule.advisories() {
            assert!(page.contains(&format!("[{}]({})", advisory.id, advisory.address)), "{page}");
        }
        let has_section = page.contains("\n## Advisories\n");
        assert_eq!(has_section, rule.advisories().next().is_some(), "{}", rule.code);
    }
}

#[test]
fn real_files_are_no_threat() {
    let more = std::env::var_os("GGMILL_VOCABULARIES").map(std::path::PathBuf::from);
    let more = more.into_iter().flat_map(|directory| std::fs::read_dir(directory).unwrap());
    let more = more.map(|entry| entry.unwrap().path());
    let more = more.filter(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    let mut alarms = Vec::new();
    for path in every_gguf().into_iter().chain(more) {
        let found = threats(&std::fs::read(&path).unwrap());
        alarms.extend(found.into_iter().map(|code| format!("{}: {code}", path.display())));
    }
    assert!(alarms.is_empty(), "{alarms:#?}");
}

/// The variable with the number of changed files to check, and the number without it.
const FUZZED: &str = "GGMILL_FUZZED_FILES";
const FEW: u32 = 1_000;

/// Files with changed bytes get a verdict, the same one each time.
#[test]
fn changed_files_are_answered() {
    let count = std::env::var(FUZZED).map_or(FEW, |count| count.parse().unwrap());
    let mut seeds: Vec<Vec<u8>> =
        Advisory::all().filter_map(|advisory| files(advisory.id)).flatten().collect();
    // Long inputs would only repeat one value.
    seeds.retain(|seed| seed.len() < 20_000);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    for number in 0..count {
        let mut file = seeds[random(seeds.len())].clone();
        for _ in 0..=random(8) {
            let at = random(file.len());
            match random(4) {
                0 => file[at] = [0, 1, 0x7f, 0x80, 0xff][random(5)],
                1 => file[at] ^= 1 << random(8),
                2 => {
                    file.remove(at);
                }
                _ => file.insert(at, b"{}%|'\"<"[random(7)]),
            }
            if file.is_empty() {
                file.push(0);
            }
        }
        let found = threats(&file);
        if number % 64 == 0 {
            assert_eq!(found, threats(&file));
        }
    }
}
