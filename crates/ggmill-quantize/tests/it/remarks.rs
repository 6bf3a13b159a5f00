//! Notes about quantizations that may not be what the user intended, and messages of invalid
//! options.

use ggmill_core::{GgmlType, Header};
use ggmill_pipeline::{ErrorKind, GgufCheckpoint};
use ggmill_quantize::{
    Imatrix, Importance, ImportanceFilter, Override, QuantizeOptions, RoleRule, TensorType,
    TypePlan, quantize,
};

use crate::support::{Fixture, legacy_imatrix, options, quantized, refusal};

fn notes(fixture: &Fixture, options: &QuantizeOptions) -> Vec<String> {
    quantize(&GgufCheckpoint::open(fixture.path()).unwrap(), options).unwrap().notes().to_vec()
}

/// Returns the measured importance of a model, with each entry changed.
fn importance(
    fixture: &Fixture,
    change: impl Fn(&str, Vec<f32>) -> Option<(String, Vec<f32>)>,
) -> Importance {
    let measured = Imatrix::parse(&fixture.model.imatrix()).unwrap();
    let entries: Vec<_> = measured
        .entries()
        .filter_map(|(name, entry)| change(&name.to_string(), entry.weights()))
        .collect();
    Importance::new(&legacy_imatrix(&entries), Some("x"), &ImportanceFilter::All).unwrap()
}

#[test]
fn missing_and_unusual_importance_gives_notes() {
    let fixture = Fixture::new("llama");
    let mut options = options("Q4_K_M");
    options.importance = Some(fixture.importance(&ImportanceFilter::All));
    assert!(!notes(&fixture, &options).iter().any(|note| note.contains("importance")));

    options.importance = Some(importance(&fixture, |name, mut weights| match name {
        "blk.2.ffn_up.weight" => None,
        "blk.3.ffn_up.weight" => Some(("blk.33.ffn_up.weight".to_owned(), weights)),
        "blk.4.ffn_up.weight" => Some((name.to_owned(), vec![0.0; weights.len()])),
        "blk.5.ffn_up.weight" => {
            weights[7] = -1.0;
            Some((name.to_owned(), weights))
        }
        _ => Some((name.to_owned(), weights)),
    }));
    let found = notes(&fixture, &options);
    let expected = [
        r#"quantized without importance weights, because the importance matrix has none for them: "blk.2.ffn_up.weight", "blk.3.ffn_up.weight""#,
        r#"importance weights are all zero, and are used anyway: "blk.4.ffn_up.weight""#,
        r#"importance weights are negative, and are used anyway: "blk.5.ffn_up.weight""#,
        r#"the importance matrix has entries for tensors that the model does not have: "blk.33.ffn_up.weight""#,
    ];
    for note in expected {
        assert!(found.iter().any(|found| found == note), "{note}: {found:?}");
    }
    // Entries that the filter excludes are not reported as missing.
    options.importance = Some(fixture.importance(&ImportanceFilter::Exclude(vec!["ffn".into()])));
    assert!(!notes(&fixture, &options).iter().any(|note| note.contains("importance")));
}

#[test]
fn options_without_effect_give_notes() {
    let (llama, falcon) = (Fixture::new("llama"), Fixture::new("falcon"));
    let said = |fixture: &Fixture, options: &QuantizeOptions, words: &str| {
        let notes = notes(fixture, options);
        assert!(notes.iter().any(|note| note.contains(words)), "{words}: {notes:?}");
    };
    let mut odd = options("Q8_0");
    odd.tensor_types =
        TensorType::parse_list("typo=q6_k FFN_DOWN=q6_k attn_norm=q6_k ffn_down=q6_k").unwrap();
    said(&llama, &odd, r#"the type pattern "typo" matches no tensor name"#);
    said(
        &llama,
        &odd,
        r#"the type pattern "FFN_DOWN" matches no tensor name; patterns are case-sensitive"#,
    );
    said(
        &llama,
        &odd,
        r#"the type pattern "attn_norm" matches only tensors that are not quantized"#,
    );
    assert_eq!(
        notes(&llama, &odd).iter().filter(|note| note.contains("the type pattern")).count(),
        3
    );
    odd.target = options("F16").target;
    said(
        &llama,
        &odd,
        "F16 gives every tensor the same type or keeps its type, so type patterns have no effect",
    );

    let mut types = options("Q8_0");
    (types.output_tensor_type, types.token_embedding_type, types.leave_output_tensor) =
        (Some(GgmlType::Q6_K), Some(GgmlType::Q6_K), true);
    types.roles = RoleRule::parse_list("token_embd=other ^output=other").unwrap();
    said(&falcon, &types, "no tensor is token_embd.weight or has its role");
    said(&falcon, &types, "no tensor is output.weight or has its role");
    types.roles.clear();
    types.leave_output_tensor = false;
    said(
        &falcon,
        &types,
        "the token embeddings serve as output.weight and have a type of their own",
    );
    assert!(
        !notes(&llama, &types).iter().any(|note| note.contains("no tensor is")),
        "{:?}",
        notes(&llama, &types)
    );
    types.target = options("COPY").target;
    said(&llama, &types, "no tensor is output.weight");
    let mut none = options("Q8_0");
    none.prune_layers = (0..9).collect();
    said(&llama, &none, "no layer would remain");
}

/// A dry run reports each reason for failure in one note for all its tensors.
#[test]
fn a_dry_run_reports_failures_as_notes() {
    let fixture = Fixture::new("llama");
    let mut dry = options("IQ2_XS");
    dry.dry_run = true;
    let [note, ..] = &notes(&fixture, &dry)[..] else { panic!("a note") };
    assert!(
        note.starts_with(
            r#"quantization would fail: tensors "blk.0.attn_k.weight", "blk.0.attn_output.weight", "#
        ),
        "{note}"
    );
    assert!(
        note.contains(" more: IQ2_XS requires importance weights, but there are none"),
        "{note}"
    );
    assert_eq!(
        notes(&fixture, &dry).iter().filter(|note| note.contains("IQ2_XS requires")).count(),
        1
    );

    // Embeddings are exempt unless the codec requires weights, as here.
    let mut embedding = options("Q8_0");
    embedding.token_embedding_type = Some(GgmlType::IQ1_S);
    let expected =
        r#"tensor "token_embd.weight": IQ1_S requires importance weights, but there are none"#;
    assert_eq!(refusal(&fixture.path(), &embedding), (ErrorKind::Importance, expected.to_owned()));
    embedding.dry_run = true;
    assert_eq!(notes(&fixture, &embedding)[0], format!("quantization would fail: {expected}"));
    // The codec of IQ3_XXS does not require weights.
    embedding.dry_run = false;
    embedding.token_embedding_type = Some(GgmlType::IQ3_XXS);
    assert!(quantized(&fixture.path(), &embedding).is_ok());
}

#[test]
fn overrides_set_metadata() {
    let fixture = Fixture::new("llama");
    for (text, words) in [
        ("split.count=int:3", "identifies a shard, and is set automatically"),
        ("split.no=int:0", "identifies a shard"),
        ("a=float:1e300", "the value is not a finite 32-bit number"),
        ("a=float:inf", "the value is not a finite 32-bit number"),
        ("a=float:nan", "the value is not a finite 32-bit number"),
        ("a=float:x", "the value is not a number"),
    ] {
        let error = text.parse::<Override>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{text:?}: ")) && error.contains(words), "{error}");
    }
    let mut set = options("Q8_0");
    let texts = [
        "tokenizer.ggml.tokens=str:x",
        "llama.block_count=str:9",
        "general.name=str:other",
        "llama.context_length=int:77",
        "a=float:3.4e38",
    ];
    set.overrides = texts.iter().map(|text| text.parse::<Override>().unwrap()).collect();
    let found = notes(&fixture, &set);
    let has_tokens = Header::parse(&fixture.model.file)
        .unwrap()
        .metadata()
        .get("tokenizer.ggml.tokens")
        .is_some();
    assert_eq!(
        found.iter().any(|note| note.starts_with(r#"key "tokenizer.ggml.tokens" was an array ("#)),
        has_tokens,
        "{found:?}"
    );
    let changed =
        "key \"llama.block_count\" was of type u32 and is now a string; programs may reject that";
    assert!(found.contains(&changed.to_owned()), "{found:?}");
    assert_eq!(
        found.iter().filter(|note| note.starts_with("key ")).count(),
        1 + usize::from(has_tokens),
        "{found:?}"
    );
}

#[test]
fn types_for_activations_are_rejected() {
    let fixture = Fixture::new("llama");
    for name in ["q8_1", "Q8_K", "i8"] {
        let error = format!("ffn_down={name}").parse::<TensorType>().unwrap_err().to_string();
        assert!(
            error.contains("is not a tensor type for weights, expected one of F32, F16, ")
                && !error.ends_with("Q8_K"),
            "{error}"
        );
    }
    let plan = |name: &str, ggml_type: &str| {
        let mut planned = options("Q8_0");
        let json = format!(
            r#"{{"schema":"ggmill.plan/1","tensors":[{{"name":"{name}","type":"{ggml_type}"}}]}}"#
        );
        planned.types = Some(TypePlan::parse(json.as_bytes()).unwrap());
        planned
    };
    assert_eq!(
        refusal(&fixture.path(), &plan("blk.0.ffn_down.weight", "Q8_1")).1,
        r#"tensor "blk.0.ffn_down.weight": is F16, and cannot be converted to Q8_1"#
    );
    let expected = "quantized according to the plan, although such tensors are usually kept, and \
                    programs may reject them: \"blk.0.attn_norm.weight\"";
    assert_eq!(notes(&fixture, &plan("blk.0.attn_norm.weight", "Q8_0"))[1], expected);
}

#[test]
fn invalid_rules_name_the_line_and_the_choices() {
    let lines = |error: ggmill_pipeline::Error| error.to_string();
    let error = lines(TensorType::parse_list("attn_q=q8_0\n\nffn=q9").unwrap_err());
    assert!(error.starts_with(r#"line 3: "ffn=q9": "q9" is not a tensor type for weights, expected one of F32, F16, Q4_0, "#), "{error}");
    assert_eq!(TensorType::parse_list("# a comment\nattn_q=q8_0 # another\n").unwrap().len(), 1);
    let error = lines(RoleRule::parse_list("a=norm b=ffn.up\nw=attn.v").unwrap_err());
    assert!(
        error.starts_with(
            r#"line 2: "w=attn.v": "attn.v" is not a role, expected one of token_embedding, "#
        ) && error.contains(", attention.v, "),
        "{error}"
    );
}
