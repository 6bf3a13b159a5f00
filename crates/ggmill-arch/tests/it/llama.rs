//! The built-in description of LLaMA, with configurations written in these tests.

use ggmill_arch::{ErrorKind, KeyValue, Operation, Origin, ParameterValue, Role, Subject};
use ggmill_core::RawStr;
use serde_json::{Value as Json, json};

use crate::llama;

/// Returns the configuration of Mistral 7B.
fn mistral() -> Json {
    json!({
        "architectures": ["MistralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "max_position_embeddings": 32768, "vocab_size": 32768,
    })
}

fn with(mut config: Json, name: &str, value: Json) -> Json {
    config[name] = value;
    config
}

fn without(mut config: Json, name: &str) -> Json {
    config.as_object_mut().unwrap().remove(name);
    config
}

#[test]
fn names_come_from_either_spelling_and_heads_are_permuted() {
    let model = llama().resolve(&mistral()).unwrap();
    let q = model.tensor("blk.31.attn_q.weight").unwrap();
    let Origin::Checkpoint(alternatives) = &q.origin else { panic!() };
    let shown: Vec<_> = alternatives
        .iter()
        .map(|source| (source.names.join(" "), source.operations.clone()))
        .collect();
    let permute = vec![Operation::Permute { heads: 32 }];
    assert_eq!(
        shown,
        [
            ("model.layers.31.self_attn.q_proj.weight".into(), permute.clone()),
            ("layers.31.self_attn.q_proj.weight".into(), permute),
            ("model.layers.31.self_attn.q_proj_no_perm.weight".into(), vec![]),
            ("layers.31.attention.wq.weight".into(), vec![]),
        ]
    );
    let k = model.tensor("blk.0.attn_k.weight").unwrap();
    let source =
        k.source(|name| name == "model.layers.0.self_attn.k_proj.weight").unwrap().unwrap();
    assert_eq!(source.operations, [Operation::Permute { heads: 8 }]);
    assert_eq!((k.role, k.is_f32(), k.required), (Role::ATTENTION_K, false, true));
    assert!(model.tensor("blk.32.attn_k.weight").is_none());
}

#[test]
fn output_may_be_tied() {
    let untied = llama().resolve(&mistral()).unwrap();
    let output = untied.tensor("output.weight").unwrap();
    assert_eq!((output.required, output.tied.as_deref()), (true, Some("token_embd.weight")));
    let tied = llama().resolve(&with(mistral(), "tie_word_embeddings", true.into())).unwrap();
    assert!(!tied.tensor("output.weight").unwrap().required);
    // A model class without a head has no output tensor, whether the configuration ties it or not.
    let headless =
        llama().resolve(&with(mistral(), "architectures", json!(["LlamaModel"]))).unwrap();
    assert!(!headless.tensor("output.weight").unwrap().required);
}

#[test]
fn experts_are_stacked_in_their_order() {
    let config = with(
        with(mistral(), "architectures", json!(["MixtralForCausalLM"])),
        "num_local_experts",
        3.into(),
    );
    let model = llama().resolve(&config).unwrap();
    assert!(model.tensor("blk.0.ffn_up.weight").is_none());
    let up = model.tensor("blk.7.ffn_up_exps.weight").unwrap();
    assert_eq!(up.shape.dimensions(), [4096, 14336, 3]);
    let Origin::Checkpoint(alternatives) = &up.origin else { panic!() };
    assert_eq!(alternatives[0].operations, [Operation::Stack]);
    let names: Vec<_> = (0..3)
        .map(|expert| format!("model.layers.7.block_sparse_moe.experts.{expert}.w3.weight"))
        .collect();
    assert_eq!(alternatives[0].names, names);
    // A checkpoint with only some of the experts is an error; without any, the other source is used.
    let error = up.source(|name| name == names[0] || name == names[2]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "tensor \"blk.7.ffn_up_exps.weight\": the checkpoint has {:?} but not {:?}",
            names[0], names[1]
        )
    );
    let router = model.tensor("blk.7.ffn_gate_inp.weight").unwrap();
    assert!(router.is_f32());
}

#[test]
fn whole_numbers_may_be_floats_and_null_is_absent() {
    let config = with(with(mistral(), "num_hidden_layers", json!(2.0)), "head_dim", Json::Null);
    let model = llama().resolve(&config).unwrap();
    assert_eq!(model.parameter("block_count"), Some(&ParameterValue::Int(2)));
    assert_eq!(model.parameter("head_size"), Some(&ParameterValue::None));
    assert_eq!(model.parameter("head_length"), Some(&ParameterValue::Int(128)));
    assert_eq!(model.parameter("nonsense"), None);
    assert_eq!(model.keys()[0].value, KeyValue::U32(2));
}

#[test]
fn a_nested_text_configuration_goes_first() {
    let config = json!({ "vocab_size": 7, "text_config": mistral() });
    assert_eq!(ggmill_arch::Catalogue::new().for_checkpoint(&config).unwrap().name(), "llama");
    let model = llama().resolve(&config).unwrap();
    assert_eq!(model.parameter("vocab_size"), Some(&ParameterValue::Int(32768)));
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let heads = "tensor \"blk.{bid}.attn_q.weight\"";
    for (config, kind, message) in [
        (
            without(mistral(), "hidden_size"),
            ErrorKind::Configuration,
            "hyperparameter \"embedding_length\": missing, expected hidden_size, n_embd, dim \
             in config.json",
        ),
        (
            with(mistral(), "vocab_size", "many".into()),
            ErrorKind::Configuration,
            "hyperparameter \"vocab_size\": vocab_size is \"many\", expected an integer",
        ),
        (
            with(mistral(), "vocab_size", json!({})),
            ErrorKind::Configuration,
            "hyperparameter \"vocab_size\": vocab_size is an object, expected a value or a list \
             of values",
        ),
        (
            with(mistral(), "num_hidden_layers", json!([1, 2])),
            ErrorKind::Configuration,
            "hyperparameter \"block_count\": num_hidden_layers is [1, 2], expected an integer",
        ),
        (
            with(mistral(), "num_hidden_layers", json!(1.5)),
            ErrorKind::Configuration,
            "hyperparameter \"block_count\": num_hidden_layers is 1.5, expected an integer",
        ),
        (
            with(mistral(), "num_hidden_layers", json!(-1)),
            ErrorKind::Configuration,
            "key \"llama.block_count\": block_count is -1, expected u32",
        ),
        (
            with(mistral(), "num_attention_heads", json!(0)),
            ErrorKind::Configuration,
            "hyperparameter \"head_length\": first(head_size, embedding_length / heads) divides \
             by zero",
        ),
        (
            with(mistral(), "num_attention_heads", json!(33)),
            ErrorKind::Configuration,
            "hyperparameter \"head_length\": first(head_size, embedding_length / heads) divides \
             4096 by 33, which leaves a remainder",
        ),
        (
            with(with(mistral(), "head_dim", json!(0)), "rope_scaling", Json::Null),
            ErrorKind::Configuration,
            &format!("{heads}: shape: heads * head_length is 0, expected at least 1"),
        ),
        (
            with(mistral(), "head_dim", json!(i64::MAX)),
            ErrorKind::Configuration,
            "key \"llama.attention.key_length\": head_size is 9223372036854775807, expected u32",
        ),
        (
            with(mistral(), "rms_norm_eps", json!(1e300)),
            ErrorKind::Configuration,
            "key \"llama.attention.layer_norm_rms_epsilon\": rms_norm_epsilon is 1e300, expected \
             f32",
        ),
        (
            with(mistral(), "num_hidden_layers", json!(4_000_000_000u64)),
            ErrorKind::Limit,
            "bid from 0 to 4000000000: 4000000000 repetitions, the limit is 65536",
        ),
        (
            with(mistral(), "draft_vocab_size", json!(3)),
            ErrorKind::Unsupported,
            "config.json has draft_vocab_size, as in draft models for speculative decoding \
             (EAGLE-3), but does not have exactly one layer",
        ),
        (
            with(mistral(), "hidden_act", json!("gelu")),
            ErrorKind::Unsupported,
            "config.json has an activation (hidden_act) other than SiLU, the only one that this \
             architecture supports",
        ),
        (
            with(mistral(), "rms_norm_eps", json!(0)),
            ErrorKind::Unsupported,
            "config.json has an rms_norm_eps that is not positive, or too small for the F32 value \
             in a file",
        ),
        (
            with(mistral(), "rms_norm_eps", json!(1e-60)),
            ErrorKind::Unsupported,
            "config.json has an rms_norm_eps that is not positive, or too small for the F32 value \
             in a file",
        ),
        (
            with(mistral(), "rope_theta", json!(-1)),
            ErrorKind::Unsupported,
            "config.json has a rope_theta that is not positive",
        ),
        (
            with(mistral(), "max_position_embeddings", json!(0)),
            ErrorKind::Unsupported,
            "config.json has no positive max_position_embeddings, so the context length is unknown",
        ),
    ] {
        let error = llama().resolve(&config).unwrap_err();
        let separator =
            if message.starts_with("config") || message.starts_with("bid") { ": " } else { ", " };
        assert_eq!(error.to_string(), format!("architecture \"llama\"{separator}{message}"));
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn text_from_a_configuration_is_escaped() {
    let error = llama().resolve(&with(mistral(), "vocab_size", "\u{1b}[2J".into())).unwrap_err();
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
    assert_eq!(error.subject(), Some(Subject::Parameter(RawStr::from("vocab_size"))));
}

#[test]
fn what_a_file_cannot_express_is_named() {
    let assumed = |name: &str, value: Json| {
        let config = with(mistral(), name, value);
        let model = llama().resolve(&config).unwrap();
        model.assumed_settings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let rope =
        |rope_type: &str| assumed("rope_scaling", json!({ "rope_type": rope_type, "factor": 4.0 }));
    for known in ["default", "linear", "dynamic", "yarn", "llama3"] {
        assert_eq!(rope(known), [""; 0], "{known}");
    }
    for unknown in ["mystery", "longrope"] {
        let message =
            format!("rope_scaling.rope_type is \"{unknown}\", and programs assume default");
        assert_eq!(rope(unknown), [message]);
    }
    let yarn = |name: &str, value: Json| {
        assumed("rope_scaling", json!({ "rope_type": "yarn", "factor": 4.0, name: value }))
    };
    // Files have a factor for each dimension.
    assert_eq!(yarn("truncate", json!(false)), [""; 0]);
    assert_eq!(yarn("beta_fast", json!(16)), [""; 0]);
    // A window as long as the context has no effect.
    assert_eq!(assumed("sliding_window", json!(1 << 20)), [""; 0]);
    assert_eq!(
        assumed("sliding_window", json!(1024)),
        [
            "sliding_window is 1024, and programs assume null, which makes a difference for texts of \
             more than 1024 tokens"
        ]
    );
}

#[test]
fn checkpoints_are_known_by_class_then_by_model_type() {
    let catalogue = ggmill_arch::Catalogue::new();
    for config in [
        json!({ "architectures": ["LlamaForCausalLM"] }),
        json!({ "model_type": "mixtral" }),
        json!({ "architectures": null, "model_type": "llama" }),
    ] {
        assert_eq!(catalogue.for_checkpoint(&config).unwrap().name(), "llama", "{config}");
    }
    for (config, message) in [
        (
            json!({ "architectures": ["LlamaForSequenceClassification"], "model_type": "llama" }),
            "no description is for checkpoints of class \"LlamaForSequenceClassification\"; ",
        ),
        (
            json!({ "model_type": "\u{7}" }),
            "no description is for checkpoints of model type \"\\u{7}\"; ",
        ),
        (json!({}), "config.json names neither architectures nor model_type; "),
    ] {
        let error = catalogue.for_checkpoint(&config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown);
        assert!(error.to_string().starts_with(message), "{error}");
    }
    let config = json!({ "architectures": ["MistralForCausal"] });
    let error = catalogue.for_checkpoint(&config).unwrap_err().to_string();
    assert!(error.contains("the names most similar are MistralForCausalLM, "), "{error}");
    assert!(error.len() < 300, "{error}");
    let error = catalogue.for_checkpoint(&json!([])).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::Configuration, "config.json is a list, expected an object".to_owned())
    );
}

#[test]
fn a_value_is_not_passed_over_where_an_object_is_expected() {
    let error = llama().resolve(&with(mistral(), "rope_scaling", json!(5))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "architecture \"llama\", hyperparameter \"rope_type\": rope_scaling is a number, \
         expected an object"
    );
    llama().resolve(&with(mistral(), "rope_scaling", json!(null))).unwrap();
}

#[test]
fn a_checkpoint_may_lack_or_have_too_much() {
    let model = llama().resolve(&with(mistral(), "num_hidden_layers", json!(0))).unwrap();
    let names = [
        "model.embed_tokens.weight",
        "model.norm.weight",
        "lm_head.weight",
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.extra.weight",
    ];
    assert_eq!(model.assign(&names).unwrap().unknown, [4]);
    let error = model.assign(&names[..2]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "architecture \"llama\", tensor \"output.weight\": not in the checkpoint, expected \
         \"lm_head.weight\", \"output.weight\""
    );
}
