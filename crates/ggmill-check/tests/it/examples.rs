//! A small file that violates each rule.

use ggmill_check::{Authority, Options, Profile, Severity, rules};
use ggmill_core::{Endian, GgmlType};
use ggmill_testdata::bytes::{FileBytes, Value};

use crate::support::{Model, codes, report, report_named, strings};

/// Returns the name and bytes of a file that violates the rule.
pub(crate) fn example(code: &str) -> Option<(&'static str, Vec<u8>)> {
    let llama = Model::llama;
    let model = |model: Model| Some(("Tiny-1K-v1.0.gguf", model.bytes()));
    let raw = |bytes: Vec<u8>| Some(("Tiny-1K-v1.0.gguf", bytes));
    let typed = |ggml_type: GgmlType, row: u64| {
        Model::empty().tensor("x.weight", &[row], ggml_type).bytes()
    };
    match code {
        "GG1001" => raw(b"<!DOCTYPE html>".to_vec()),
        "GG1002" => raw(llama().bytes()[..100].to_vec()),
        "GG1003" => {
            let mut file = FileBytes::v3(0, 1);
            file.string("a.key").u32(13).u64(0);
            raw(file.into_bytes())
        }
        "GG1004" => model(Model { version: 1, ..llama() }),
        "GG1005" => model(Model { version: 2, ..llama() }),
        "GG1006" => {
            let mut file = FileBytes::new(3, Endian::Big);
            file.head(0, 0);
            raw(file.into_bytes())
        }
        "GG1007" => model(Model { magic: b"FUGG", ..llama() }),
        "GG1008" => model(llama().set("general.alignment", Value::U32(13))),
        "GG1009" => raw(Model::empty().set("general.alignment", Value::U32(24)).bytes()),
        "GG1010" => raw([llama().bytes(), vec![1; 5]].concat()),
        "GG1011" => {
            let mut bytes = Model::empty().tensor("a.b", &[1], GgmlType::F32).bytes();
            let last = bytes.len() - 1;
            bytes[last] = 1;
            raw(bytes)
        }
        "GG1013" => {
            let mut bytes = Model::empty()
                .tensor("a.b", &[8], GgmlType::F32)
                .tensor("a.c", &[8], GgmlType::F32)
                .bytes_at(&[0, 64], 96);
            let at = bytes.len() - 64;
            bytes[at] = b'S';
            raw(bytes)
        }
        "GG1012" => {
            let bytes = Model::empty().tensor("a.b", &[1], GgmlType::F32).bytes();
            raw(bytes[..bytes.len() - 28].to_vec())
        }
        "GG1101" => model(llama().unset("general.architecture")),
        "GG1102" => model(llama().set("general.file_type", Value::U64(0))),
        "GG1103" => model(llama().set("general.author", Value::U32(7))),
        "GG1104" => model(llama().set("llama.attention.causal", Value::Bool(2))),
        "GG1105" => model(llama().set("general.name", Value::Str(vec![0xff]))),
        "GG1106" => model(llama().set("general.name", "a\0b")),
        "GG1107" => model(llama().set("x.y", Value::Array(9, vec![strings(&["a"])]))),
        "GG1108" => model(llama().set("general.architecture", "my-model")),
        "GG1109" => model(llama().set("general.type", "recipe")),
        "GG1110" => model(llama().set("llama.rope.freq_base", Value::F32(f32::NAN))),
        "GG1114" => model(llama().set("tokenizer.ggml.token_type_count", Value::U64(2))),
        "GG1115" => model(llama().set("general.dataset.0.name", Value::U32(1))),
        "GG1201" => model(llama().push("general.name", "Other")),
        "GG1202" => model(llama().set("", Value::U8(0))),
        "GG1203" => model(llama().set("x.\u{e9}", Value::U8(0))),
        "GG1204" => model(llama().set("x.Y", Value::U8(0))),
        "GG1205" => model(llama().set(format!("x.{}", "y".repeat(65_534)), Value::U8(0))),
        "GG1206" => model(llama().set("x.\0", Value::U8(0))),
        "GG1207" => model(llama().set("general.autor", "Someone")),
        "GG1210" => model(llama().set("qwen2.block_count", Value::U32(1))),
        "GG1208" => model(llama().set("answer", Value::U8(42))),
        "GG1301" => model(llama().tensor("output.weight", &[8], GgmlType::F32)),
        "GG1302" => {
            let bytes = llama().bytes();
            raw(bytes[..bytes.len() - 200].to_vec())
        }
        "GG1303" => {
            raw(Model::empty().tensor("x.weight", &[33], GgmlType::Q8_0).bytes_at(&[0], 64))
        }
        "GG1304" => raw(Model::empty()
            .tensor("a.b", &[8], GgmlType::F32)
            .tensor("a.c", &[8], GgmlType::F32)
            .bytes_at(&[0, 0], 64)),
        "GG1305" => model(llama().tensor("x".repeat(65), &[1], GgmlType::F32)),
        "GG1306" => model(llama().tensor("x".repeat(64), &[1], GgmlType::F32)),
        "GG1307" => model(llama().tensor("a b", &[1], GgmlType::F32)),
        "GG1308" => raw(typed(GgmlType(43), 1)),
        "GG1309" => raw(typed(GgmlType::Q4_2, 16)),
        "GG1310" => raw(Model::empty().tensor("a.b", &[1], GgmlType::F32).bytes_at(&[4], 32)),
        "GG1311" => raw(Model::empty().tensor("a.b", &[1], GgmlType::F32).bytes_at(&[32], 64)),
        "GG1312" => {
            let mut file = FileBytes::v3(1, 0);
            file.tensor("a.b", &[1 << 63, 0], 0, 0).pad(32);
            raw(file.into_bytes())
        }
        "GG1313" => model(llama().tensor("a.b", &[0], GgmlType::F32)),
        "GG1314" => model(llama().tensor("a.b", &[8, 1, 1, 1, 1], GgmlType::F32)),
        "GG1401" => raw(typed(GgmlType::Q8_0, 32)),
        "GG1402" => model(llama().set("general.quantization_version", Value::U32(1))),
        "GG1403" => model(llama().set("general.file_type", Value::U32(5))),
        "GG1404" => model(llama().set("general.file_type", Value::U32(1))),
        "GG1405" => raw(typed(GgmlType::Q8_K, 256)),
        _ => crate::examples_more::example(code),
    }
}

#[test]
fn every_rule_has_a_file_that_violates_it() {
    let silent: Vec<_> = rules()
        .filter(|rule| {
            !example(rule.code)
                .is_some_and(|(name, bytes)| broken(name, &bytes).contains(&rule.code))
        })
        .collect();
    assert!(silent.is_empty(), "{:?}", silent.iter().map(|rule| rule.code).collect::<Vec<_>>());
}

fn broken(name: &str, bytes: &[u8]) -> Vec<&'static str> {
    let profile =
        |profile| codes(&report_named(name, bytes, &Options::default().with_profile(profile)));
    // `Authority::Letter` is checked only in the profile of the specification.
    let letter =
        |code: &&str| rules().any(|rule| rule.code == *code && rule.authority == Authority::Letter);
    // Rules about the name of a file, and those that run a template or the tokenizer, are checked on
    // request.
    let on_request = ["naming", "rendering", "segmentation", "threat"]
        .map(|group| group.parse().unwrap())
        .to_vec();
    let naming = Options::default().with_select(on_request);
    let named = codes(&report_named(name, bytes, &naming));
    // A requirement of only llama.cpp is not in the profile of the specification.
    let all = [Profile::All, Profile::Ggml].into_iter().flat_map(profile);
    all.chain(named).chain(profile(Profile::Spec).into_iter().filter(letter)).collect()
}

#[test]
fn a_valid_model_has_no_findings() {
    let options = Options::default().with_profile(Profile::Run);
    let found = report_named("Tiny-1K-v1.0.gguf", &Model::llama().bytes(), &options);
    assert_eq!(codes(&found), Vec::<&str>::new(), "{:?}", found.diagnostics());
    let found = report(&Model::llama().bytes());
    assert_eq!(codes(&found), Vec::<&str>::new(), "{:?}", found.diagnostics());
}

/// llama.cpp accepts this for one pre-tokenizer.
#[test]
fn merges_may_be_missing_if_llama_cpp_does_not_need_them() {
    for (pre, expected) in [("kimi-k2", false), ("llama-bpe", true)] {
        let model =
            Model::llama().set("tokenizer.ggml.pre", pre).unset("tokenizer.ggml.merges").bytes();
        assert_eq!(codes(&report(&model)).contains(&"GG1614"), expected, "{pre}");
    }
}

#[test]
fn findings_are_capped_and_counted() {
    let mut model = Model::llama();
    for number in 0..50 {
        model = model.set(format!("X{number}"), Value::U8(0));
    }
    let found = report_named(
        "Tiny-1K-v1.0.gguf",
        &model.bytes(),
        &Options::default().with_findings_per_rule(3),
    );
    assert_eq!((found.diagnostics().len(), found.count(Severity::Warning)), (3, 50));
}

/// Requirements with "must" are errors in the profile of the specification.
#[test]
fn musts_are_errors_in_the_spec_profile() {
    for code in ["GG1104", "GG1105", "GG1203", "GG1204", "GG1205", "GG1401", "GG1502"] {
        let (name, bytes) = example(code).unwrap();
        let severity = |profile| {
            let found = report_named(
                name,
                &bytes,
                &Options::default().with_profile(profile).with_select(vec![code.parse().unwrap()]),
            );
            (found.diagnostics()[0].severity, found.has_errors())
        };
        assert_eq!(
            (severity(Profile::All), severity(Profile::Spec)),
            ((Severity::Warning, false), (Severity::Error, true)),
            "{code}"
        );
    }
}

#[test]
fn profiles_and_selections() {
    use ggmill_check::Profile::{Ggml, Spec};
    // The file is padded to 32 bytes, more than its alignment requires.
    let broken = |options: Options| {
        let bytes = Model::empty()
            .set("general.architecture", "x")
            .set("general.alignment", Value::U32(24))
            .set("x.Y", Value::U8(0))
            .bytes();
        codes(&report_named("Tiny-1K-v1.0.gguf", &bytes, &options))
    };
    let selected = |code: &str| vec![code.parse().unwrap()];
    assert!(broken(Options::default().with_profile(Spec)).contains(&"GG1204"));
    assert!(!broken(Options::default().with_profile(Spec)).contains(&"GG1009"));
    assert!(broken(Options::default().with_profile(Ggml)).contains(&"GG1009"));
    assert_eq!(broken(Options::default().with_select(selected("keys"))), ["GG1204"]);
    assert_eq!(broken(Options::default().with_select(selected("GG10"))), ["GG1009", "GG1010"]);
    assert_eq!(
        broken(
            Options::default().with_select(selected("structure")).with_ignore(selected("gg1009"))
        ),
        ["GG1010"]
    );
}
