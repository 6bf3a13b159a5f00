//! Mistakes in published files, and correct files that look similar.

use ggmill_check::{Options, Profile, Severity};
use ggmill_core::GgmlType;
use ggmill_testdata::bytes::Value;

use crate::support::{Model, codes, report, report_named, strings};

fn numbers(values: &[u32]) -> Value {
    Value::Array(4, values.iter().map(|&value| Value::U32(value)).collect())
}

#[test]
fn licenses_are_case_insensitive() {
    let flagged = |text: &str| {
        codes(&report(&Model::llama().set("general.license", text).bytes())).contains(&"GG2001")
    };
    for text in [
        "apache-2.0",
        "Apache-2.0",
        "mit",
        "bsd-3-clause",
        "cc-by-nc-4.0",
        "CC-BY-SA-4.0",
        "unlicense",
        "gpl-3.0",
        "mit or apache-2.0",
        "LicenseRef-x",
    ] {
        assert!(!flagged(text), "{text}");
    }
    for text in ["Apache", "Apache 2.0", "MIT License", "MIT,Apache-2.0", "llama2", ""] {
        assert!(flagged(text), "{text}");
    }
}

/// A value of the wrong type, or one that is not finite, is found by the rule about that, and not
/// also called out of range.
#[test]
fn only_numbers_of_samplers_have_ranges() {
    let found = |key: &str, value: Value| {
        codes(&report(&Model::llama().set(format!("general.sampling.{key}"), value).bytes()))
    };
    assert_eq!(found("sequence", "temp;top_k".into()), Vec::<&str>::new());
    for number in [Value::U32(7), Value::F32(0.5)] {
        assert_eq!(found("sequence", number), ["GG1115"]);
    }
    for number in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        assert_eq!(found("temp", Value::F32(number)), ["GG1110"]);
    }
    assert_eq!(found("temp", Value::F32(-0.5)), ["GG1112"]);
    assert_eq!(found("temp", Value::F32(0.5)), Vec::<&str>::new());
}

#[test]
fn a_misspelled_architecture_is_an_error() {
    let severity = |model: Model, profile| {
        let found = report_named(
            "Tiny-1K-v1.0.gguf",
            &model.bytes(),
            &Options::default().with_profile(profile).with_select(vec!["GG15".parse().unwrap()]),
        );
        found.diagnostics().iter().map(|one| (one.rule.code, one.severity)).collect::<Vec<_>>()
    };
    for name in ["lama", "LLaMA", "llama ", ""] {
        assert_eq!(
            severity(Model::llama().set("general.architecture", name), Profile::All),
            [("GG1517", Severity::Error)],
            "{name:?}"
        );
    }
    // An unknown name with its own keys belongs to another program; llama.cpp rejects it too.
    let own = || {
        Model::empty()
            .set("general.architecture", "llamb")
            .set("llamb.block_count", Value::U32(1))
            .tensor("a.b", &[8], GgmlType::F32)
    };
    assert_eq!(severity(own(), Profile::All), [("GG1503", Severity::Note)]);
    assert_eq!(severity(own(), Profile::Ggml), [("GG1517", Severity::Error)]);
}

#[test]
fn assertions_of_llama_cpp_about_experts_are_errors() {
    let model = |experts: u32| Model::llama().set("llama.expert_count", Value::U32(experts));
    let used = |experts: u32, used: Value| {
        codes(&report(&model(experts).set("llama.expert_used_count", used).bytes()))
    };
    assert!(used(4, Value::U32(8)).contains(&"GG1511"));
    assert!(used(4, Value::U32(0)).contains(&"GG1511"));
    assert!(used(4, numbers(&[5])).contains(&"GG1511"));
    assert!(!used(4, Value::U32(2)).contains(&"GG1511"));
    assert!(codes(&report(&model(4).bytes())).contains(&"GG1511"));
    assert!(
        codes(&report(&model(2000).set("llama.expert_used_count", Value::U32(2)).bytes()))
            .contains(&"GG1511")
    );
}

#[test]
fn an_array_has_a_number_for_each_block() {
    let model = |lengths: &[u32]| {
        codes(&report(&Model::llama().set("llama.feed_forward_length", numbers(lengths)).bytes()))
    };
    assert_eq!(model(&[12, 12]), ["GG1511"]);
    assert_eq!(model(&[12]), Vec::<&str>::new());
}

#[test]
fn one_error_does_not_hide_the_rest() {
    let found = codes(&report(&Model::llama().set("general.architecture", "gpt2").bytes()));
    assert!(
        found.contains(&"GG1501") && found.contains(&"GG1513") && found.contains(&"GG1210"),
        "{found:?}"
    );
}

#[test]
fn a_misaligned_offset_is_reported_even_if_data_overlaps() {
    let model = Model::empty()
        .set("general.architecture", "x")
        .tensor("a.b", &[8], GgmlType::F32)
        .tensor("a.c", &[8], GgmlType::F32);
    let found = codes(&report(&model.bytes_at(&[4, 32], 64)));
    assert!(found.contains(&"GG1304") && found.contains(&"GG1310"), "{found:?}");
}

#[test]
fn numbers_in_arrays_are_checked() {
    let floats =
        |values: &[f32]| Value::Array(6, values.iter().map(|&value| Value::F32(value)).collect());
    let found =
        report(&Model::llama().set("foo.bar", floats(&[1.0, f32::NAN, f32::INFINITY])).bytes());
    assert_eq!(found.diagnostics()[0].message, "element 1 is NaN, and 1 more");
    assert!(report(&Model::llama().set("foo.bar", floats(&[1.0])).bytes()).is_clean());
}

/// A NaN or a wrong type of a key is reported once, and not again by dependent rules.
#[test]
fn one_cause_is_one_finding() {
    let epsilon = "llama.attention.layer_norm_rms_epsilon";
    assert_eq!(
        codes(&report(&Model::llama().set(epsilon, Value::F32(f32::NAN)).bytes())),
        ["GG1110"]
    );
    assert_eq!(
        codes(&report(&Model::llama().set("llama.context_length", "16").bytes())),
        ["GG1504"]
    );
}

#[test]
fn an_absurd_header_is_not_reported_as_truncated() {
    let mut bytes = Model::llama().bytes();
    bytes[16..24].copy_from_slice(&(1u64 << 60).to_le_bytes());
    let found = codes(&report(&bytes));
    assert!(found.contains(&"GG1003") && !found.contains(&"GG1002"), "{found:?}");
    let mut file = ggmill_testdata::bytes::FileBytes::v3(1, 0);
    file.u64(1 << 61).raw(&[0; 64]);
    assert!(codes(&report(&file.into_bytes())).contains(&"GG1003"));
    assert!(codes(&report(&Model::llama().bytes()[..300])).contains(&"GG1002"));
}

#[test]
fn shards_are_numbered_up_to_their_count() {
    use ggmill_check::name_fault;
    assert_eq!(name_fault("Grok-100B-v1.0-Q4_0-00003-of-00009.gguf"), None);
    assert_eq!(
        name_fault("Grok-100B-v1.0-Q4_0-00004-of-00003.gguf"),
        Some("the shard number is greater than the shard count")
    );
    assert_eq!(
        name_fault("Grok-100B-v1.0-Q4_0-00000-of-00003.gguf"),
        Some("shards are numbered from 00001")
    );
}

/// libllama writes this infinite value to every model; only one architecture uses it.
#[test]
fn an_unused_infinite_number_hides_no_findings() {
    let model = || Model::llama().set("llama.kda.gate_lower_bound", Value::F32(f32::NEG_INFINITY));
    let errors = |model: Model| {
        let found = report(&model.bytes());
        found
            .diagnostics()
            .iter()
            .filter(|one| one.severity == Severity::Error)
            .map(|one| one.rule.code)
            .collect::<Vec<_>>()
    };
    assert_eq!(errors(model()), [""; 0]);
    assert!(!codes(&report(&model().bytes())).contains(&"GG1110"));
    assert_eq!(errors(model().tensor("blk.0.ssm_in.weight", &[32, 32], GgmlType::F32)), ["GG1513"]);
    // With inconsistent numbers only names are checked, including those of the description.
    let experts = model()
        .set("llama.expert_count", Value::U32(2))
        .set("llama.expert_used_count", Value::U32(4));
    assert_eq!(errors(experts), ["GG1511"]);
}

/// llama.cpp checks the type of general.name when it loads a model, unlike general.author.
#[test]
fn the_type_of_general_name_is_required() {
    for (key, expected) in [("general.name", "GG1102"), ("general.author", "GG1103")] {
        let bytes = Model::llama().set(key, Value::U32(7)).bytes();
        assert!(codes(&report(&bytes)).contains(&expected), "{key}");
        let options = Options::default().with_profile(Profile::Ggml);
        let found = report_named("Tiny-1K-v1.0.gguf", &bytes, &options);
        assert_eq!(codes(&found).contains(&expected), expected == "GG1102", "{key}");
    }
}

/// A NUL in a key violates the specification, and llama.cpp reads a shorter key.
#[test]
fn a_key_with_a_nul_is_reported_in_every_profile() {
    let bytes = Model::llama().set("x.\0", Value::U8(0)).bytes();
    for profile in [Profile::All, Profile::Spec, Profile::Ggml] {
        let options = Options::default().with_profile(profile);
        let found = report_named("Tiny-1K-v1.0.gguf", &bytes, &options);
        assert!(codes(&found).contains(&"GG1206"), "{profile:?}");
    }
}

/// Neither another width of an integer nor a string is reported in the profile of the specification.
#[test]
fn types_that_only_llama_cpp_requires_are_not_in_the_spec_profile() {
    for value in [Value::U64(16), Value::from("16")] {
        let bytes = Model::llama().set("llama.context_length", value).bytes();
        assert!(codes(&report(&bytes)).contains(&"GG1504"));
        let options = Options::default().with_profile(Profile::Spec);
        let found = report_named("Tiny-1K-v1.0.gguf", &bytes, &options);
        assert!(!codes(&found).contains(&"GG1504"));
    }
}

#[test]
fn merges_that_are_never_applied_are_named() {
    let merges = strings(&["a b", "a bc", "b ca"]);
    let bytes = Model::llama().set("tokenizer.ggml.merges", merges).bytes();
    let options = Options::default().with_select(vec!["GG2302".parse().unwrap()]);
    let found = report_named("Tiny-1K-v1.0.gguf", &bytes, &options);
    assert_eq!(
        found.diagnostics()[0].message,
        "2 merges are never applied: those that form \"abc\" (rank 1), \"bca\" (rank 2)"
    );
}

/// Architectures of which llama.cpp's list of tensors is not recorded: names that the converter never
/// writes are errors, with the command that removes them.
#[test]
fn tensors_that_no_loader_expects_are_errors() {
    let found = |architecture: &str, names: &[&str]| {
        let model = Model::empty().set("general.architecture", architecture);
        let model = names.iter().fold(model, |model, name| model.tensor(name, &[8], GgmlType::F32));
        report_named("Tiny.gguf", &model.bytes(), &Options::default())
    };
    let help = |report: &ggmill_check::Report, code: &str| {
        let found = report.diagnostics().iter().find(|found| found.rule.code == code);
        found.map(|found| found.help.to_string())
    };
    for architecture in ["gemma4", "pockettts", "qwen3"] {
        let report = found(
            architecture,
            &["token_embd.weight", "v.blk.0.attn_q.weight", "v.patch.weight", "mm.x.weight"],
        );
        assert_eq!(report.counts().iter().filter(|(rule, _)| rule.code == "GG1513").count(), 1);
        let help = help(&report, "GG1513").unwrap();
        assert!(
            help.contains("ggmill graft Tiny.gguf --drop 'mm.*' --drop 'v.*' -o NEW.gguf"),
            "{architecture}: {help}"
        );
    }
    // A name of another architecture can be one that the table lacks.
    let report = found("pockettts", &["blk.0.ssm_in.weight"]);
    assert!(codes(&report).contains(&"GG1516") && !codes(&report).contains(&"GG1513"));
    // Names that a shell could misread are not put into a command.
    let report = found("pockettts", &["v.$(x)"]);
    assert!(!help(&report, "GG1513").unwrap().contains("graft"));
}

/// The number of layers in the file is proposed if it is the only thing wrong.
#[test]
fn the_number_of_layers_is_proposed() {
    let help = |model: Model| {
        let report = report_named("Tiny.gguf", &model.bytes(), &Options::default());
        let found = report.diagnostics().iter().find(|found| found.rule.code == "GG1506");
        found.map(|found| found.help.to_string()).unwrap()
    };
    let more = help(Model::llama().set("llama.block_count", Value::U32(3)));
    assert!(more.contains("ggmill edit Tiny.gguf --set llama.block_count=1"), "{more}");
    let gap = help(Model::llama().tensor("blk.2.attn_norm.weight", &[8], GgmlType::F32));
    assert!(!gap.contains("--set"), "{gap}");
}
