//! Views of models: from a configuration or from metadata, with a description or without.

use ggmill_arch::{
    Architecture, Catalogue, ComputeKind, ComputeLayer, ComputeNode, ComputeNumbers, ComputeSpec,
    MixtureTraits, ModelView, Role,
};
use ggmill_core::{Builder, Endian, FileType, Header, MetadataBuf};
use serde_json::{Value as Json, json};

/// Returns configurations of checkpoints, for the descriptions.
fn configurations() -> Vec<Json> {
    let small = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "num_hidden_layers": 5, "hidden_size": 64, "intermediate_size": 172,
        "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
    });
    let with = |more: Json| {
        let mut config = small.clone();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    vec![
        small.clone(),
        with(json!({ "num_key_value_heads": 8, "tie_word_embeddings": true })),
        with(
            json!({ "head_dim": 32, "rope_scaling": { "rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32, "beta_fast": 16 } }),
        ),
        with(json!({ "rope_scaling": { "type": "linear", "factor": 2.5 } })),
        with(
            json!({ "architectures": ["MixtralForCausalLM"], "num_local_experts": 4, "num_experts_per_tok": 2 }),
        ),
        with(json!({ "architectures": ["MistralForCausalLM"] })),
    ]
}

fn file(metadata: MetadataBuf, endian: Endian) -> Header<'static> {
    Header::parse(
        Builder::new().endian(endian).metadata(metadata).plan().unwrap().header().to_vec(),
    )
    .unwrap()
}

/// Returns the hyperparameters that the crates read from a view.
fn numbers(model: &ModelView<'_>) -> (Option<u64>, u64, u64, u64, u64) {
    (
        model.block_count(),
        model.head_count(),
        model.head_count_kv(),
        model.expert_count(),
        model.draft_block_count(),
    )
}

#[test]
fn a_configuration_and_the_metadata_made_of_it_are_one_model() {
    let catalogue = Catalogue::new();
    for config in configurations() {
        let architecture = catalogue.for_checkpoint(&config).unwrap();
        let resolved = architecture.resolve(&config).unwrap();
        let of_config = ModelView::of_checkpoint(&resolved);
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", architecture.name());
        resolved.write_keys(FileType::F16, &mut metadata);
        for endian in [Endian::Little, Endian::Big] {
            let file = file(metadata.clone(), endian);
            let of_file = ModelView::of_metadata(file.metadata()).described_by(Some(architecture));
            let undescribed = ModelView::of_metadata(file.metadata());
            assert_eq!(numbers(&of_config), numbers(&of_file), "{config}");
            assert_eq!(numbers(&of_config), numbers(&undescribed), "{config}");
            for key in architecture.keys() {
                let Some(name) = key.name.strip_prefix(&format!("{}.", architecture.name())) else {
                    continue;
                };
                let of = |model: &ModelView<'_>| {
                    let text =
                        model.value(name).and_then(|value| value.as_str().map(str::to_owned));
                    (
                        model.has(name),
                        model.integers(name),
                        model.value(name).and_then(|value| value.as_f64()),
                        text,
                    )
                };
                assert_eq!(of(&of_config), of(&of_file), "{config}: {name}");
                assert_eq!(of(&of_config), of(&undescribed), "{config}: {name}");
            }
            // Hyperparameters with a key have the same value after a round trip; floats are rounded
            // to f32.
            let read = of_file.resolve().unwrap().unwrap();
            let described: Vec<_> = architecture
                .outline_parameters()
                .filter(|outline| !outline.keys.is_empty())
                .collect();
            for outline in &described {
                let (before, after) = (
                    resolved.parameter(outline.name).unwrap(),
                    read.parameter(outline.name).unwrap(),
                );
                if before.is_some()
                    && after.is_some()
                    && outline.keys.iter().any(|key| file.metadata().get(key).is_some())
                {
                    let same = before == after
                        || before.as_f64().zip(after.as_f64()).is_some_and(|(before, after)| {
                            (before - after).abs() <= before.abs() * 1e-7
                        });
                    assert!(same, "{config}: {}: {before} and {after}", outline.name);
                }
            }
            assert!(described.len() > 10);
            for tensor in resolved.tensors() {
                assert_eq!(
                    (of_config.role(&tensor.name), of_file.role(&tensor.name)),
                    (tensor.role, tensor.role),
                    "{}",
                    tensor.name
                );
            }
        }
    }
}

/// For the keys that every architecture has, a description and the fallback return the same values.
#[test]
fn the_fallback_reads_what_descriptions_read() {
    for architecture in Architecture::builtins() {
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", architecture.name());
        let keys = [
            "block_count",
            "context_length",
            "embedding_length",
            "feed_forward_length",
            "attention.head_count",
            "attention.head_count_kv",
            "expert_count",
        ];
        for (key, value) in keys.into_iter().zip([6u32, 64, 96, 128, 8, 4, 2]) {
            let key = format!("{}.{key}", architecture.name());
            match architecture.key_types(&key) {
                Some((None, Some(_))) => metadata.set(&key, &[value; 6][..]),
                Some(_) => metadata.set(&key, value),
                None => {}
            }
        }
        let undescribed = ModelView::of_metadata_to_write(&metadata);
        let described = undescribed.clone().described_by(Some(architecture));
        let known =
            |model: &ModelView<'_>| (model.block_count(), model.head_count(), model.expert_count());
        assert_eq!(known(&described), known(&undescribed), "{}", architecture.name());
    }
}

#[test]
fn what_is_missing_or_cannot_be_is_absent() {
    let mut metadata = MetadataBuf::new();
    let unnamed = ModelView::of_metadata_to_write(&metadata);
    assert_eq!((unnamed.architecture(), numbers(&unnamed)), ("", (None, 0, 0, 0, 0)));
    assert!(unnamed.resolve().is_none());
    metadata.set("general.architecture", "strange");
    metadata.set("strange.block_count", -1i32);
    metadata.set("strange.attention.head_count", &[8u32, 16][..]);
    metadata.set("strange.expert_count", "many");
    metadata.set("strange.feed_forward_length", &[5i32, -1][..]);
    let strange = ModelView::of_metadata_to_write(&metadata);
    assert_eq!(numbers(&strange), (None, 8, 8, 0, 0));
    assert_eq!(
        (strange.integer("attention.head_count"), strange.integers("attention.head_count")),
        (None, Some(vec![8, 16]))
    );
    assert_eq!(
        (strange.integers("feed_forward_length"), strange.len_of("feed_forward_length")),
        (None, Some(2))
    );
    metadata.set("general.architecture", "a".repeat(300).as_str());
    assert_eq!(ModelView::of_metadata_to_write(&metadata).architecture(), "");
}

/// The matrices whose role by name differs from that in descriptions. Mixtures use the name, as the
/// reference does, unless a description is requested. Whisper is omitted, because its tensors do not have
/// the names of GGUF files.
const DIFFERENT: &[&str] = &[
    "attn_k_b.weight: attention.kv_b, other by name",
    "attn_o.weight: attention.output, other by name",
    "attn_v_b.weight: attention.kv_b, other by name",
    "cross_attn_o.weight: attention.output, other by name",
    "ffn_down_chexps.weight: ffn.down_experts, ffn.down by name",
    "ffn_gate_chexps.weight: ffn.gate_experts, ffn.gate by name",
    "ffn_gate_inp_shexp.weight: ffn.router, ffn.gate by name",
    "ffn_gate_up_exps.weight: ffn.gate_up_experts, ffn.gate by name",
    "ffn_up.weight: ffn.gate_up, ffn.up by name",
    "ffn_up_chexps.weight: ffn.up_experts, ffn.up by name",
    "nextn.embed_tokens.weight: token_embedding, other by name",
    "nextn.shared_head_head.weight: output, other by name",
];

#[test]
fn names_tell_the_roles_that_descriptions_give() {
    let mut different = std::collections::BTreeSet::new();
    for architecture in
        Architecture::builtins().filter(|architecture| architecture.name() != "whisper")
    {
        let acts = |role: Role| {
            role.name().starts_with("attention.")
                || role.name().starts_with("ffn.")
                || [Role::OUTPUT, Role::TOKEN_EMBEDDING].contains(&role)
        };
        for tensor in
            architecture.outline().filter(|tensor| tensor.shape.len() > 1 && acts(tensor.role))
        {
            // Replaces the loop variable by a number.
            let name = match tensor.name.split_once('{') {
                Some((before, rest)) => {
                    let after = rest.split_once('}').map_or("", |(_, after)| after);
                    format!("{before}7{after}")
                }
                None => tensor.name.to_owned(),
            };
            assert_eq!(architecture.role_of(&name), Some(tensor.role), "{name}");
            let by_name = Role::of_standard_name(&name);
            if by_name != tensor.role {
                let (_, end) = name.split_once("blk.7.").unwrap_or(("", &name));
                different.insert(format!("{end}: {}, {by_name} by name", tensor.role));
            }
        }
    }
    assert_eq!(different.iter().map(String::as_str).collect::<Vec<_>>(), DIFFERENT);
}

#[test]
fn what_mixtures_ask_of_architectures_is_data() {
    let large = |name: &str, depth, shares, experts| {
        MixtureTraits::of(name).is_large(depth, shares, experts)
    };
    assert!(
        large("llama", 80, true, 0)
            && !large("llama", 80, false, 0)
            && !large("llama", 80, true, 8)
            && !large("llama", 79, true, 0)
    );
    assert!(
        large("qwen2", 80, false, 8)
            && large("jais2", 68, false, 0)
            && !large("gemma", 80, true, 0)
    );
    assert!(MixtureTraits::of("falcon").is_lean() && !MixtureTraits::of("no one's").is_lean());
    assert!(MixtureTraits::of("bailingmoe3").stacks_others());
    let glm = MixtureTraits::of("glm5-next");
    assert!(
        glm.stays_at_eight_bits("blk.0.attn_q_a.weight")
            && !glm.may_quantize("blk.0.ssm_beta.weight")
    );
    assert!(MixtureTraits::of("llama").may_quantize("blk.0.ssm_beta.weight"));
    assert!(
        MixtureTraits::names_other_than_weights("Encoder.LayerNorm.gamma")
            && !MixtureTraits::names_other_than_weights("encoder.kernel")
    );
}

/// Returns the operations of a model with these hyperparameters for eight tokens; it lacks the tensors in
/// `absent`.
fn computed(name: &str, numbers: &[(&str, u32)], absent: &[&str]) -> Vec<ComputeNode> {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", name);
    for (key, value) in numbers {
        metadata.set(format!("{name}.{key}"), *value);
    }
    for key in ["attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"] {
        metadata.set(format!("{name}.{key}"), 1e-5f32);
    }
    let view = ModelView::of_metadata_to_write(&metadata);
    let view = view.described_by(Architecture::builtin(name));
    let model = view.resolve().unwrap().unwrap();
    let names = model.tensors().iter().map(|spec| spec.name.clone());
    let names = names.filter(|name| name.rsplit('.').next() != Some("bias"));
    let names: Vec<String> = names.filter(|name| !absent.contains(&name.as_str())).collect();
    drop(model);
    let view = view.with_tensors(names);
    let memory = view.memory().unwrap().unwrap();
    let mut numbers = ComputeNumbers::default();
    (numbers.tokens, numbers.outputs) = (8, 8);
    (numbers.sequences, numbers.streams) = (1, 1);
    (numbers.cells, numbers.window_cells) = (256, 256);
    numbers.flash = true;
    memory.compute.unwrap().nodes(numbers).unwrap()
}

const SMALL: &[(&str, u32)] = &[
    ("block_count", 1),
    ("embedding_length", 64),
    ("attention.head_count", 4),
    ("feed_forward_length", 96),
    ("vocab_size", 100),
    ("context_length", 64),
];

/// The outputs of the experts of a token are added one by one, each as a strided view.
#[test]
fn the_results_of_experts_are_added_one_by_one() {
    let experts =
        [("expert_count", 8), ("expert_used_count", 3), ("expert_feed_forward_length", 16)];
    let nodes = computed("olmoe", &[SMALL, &experts].concat(), &[]);
    let is_part = |place: usize| {
        nodes[place].kind == ComputeKind::View && nodes[place].elements == 8 * 3 * 64 - 2 * 64
    };
    let views: Vec<usize> = (0..nodes.len()).filter(|&place| is_part(place)).collect();
    assert_eq!(views.len(), 3);
    let sum = views[2] + 1;
    assert_eq!(nodes[sum].elements, 8 * 64);
    assert_eq!(nodes[sum].sources, views[..2]);
    assert_eq!((nodes[sum + 1].kind, nodes[sum + 1].elements), (ComputeKind::InPlace, 8 * 64));
    assert_eq!(nodes[sum + 1].sources, [sum, views[2]]);
}

/// In blocks without a norm before the feed-forward layer, attention and feed-forward layer are parallel,
/// whatever the metadata says.
#[test]
fn tensors_of_blocks_decide_what_is_computed() {
    let name = "blk.0.ffn_norm.weight";
    let with = computed("stablelm", SMALL, &[]);
    let without = computed("stablelm", SMALL, &[name]);
    let has_norm =
        |nodes: &[ComputeNode]| nodes.iter().any(|node| node.tensor.as_deref() == Some(name));
    assert!(has_norm(&with) && !has_norm(&without));
}

/// Returns a description with these steps outside loops.
fn described(steps: &str) -> String {
    format!(
        "schema = \"ggmill.architecture/1\"\nname = \"small\"\ntitle = \"Small\"\n[memory]\n\
         computed = true\n[memory.parameters]\nblocks = {{ type = \"int\", keys = \
         [\"block_count\"] }}\n[[memory.compute]]\nsteps = [{steps}]\n"
    )
}

/// Returns the computation of a model with one block.
fn small(description: &str) -> ComputeSpec {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "small");
    metadata.set("small.block_count", 1u32);
    let architecture = Architecture::parse(description).unwrap();
    let view = ModelView::of_metadata_to_write(&metadata).described_by(Some(&architecture));
    view.memory().unwrap().unwrap().compute.unwrap()
}

/// A step is placed by the first tensor that it names and that the model has. Its norms are computed if
/// the model has them.
#[test]
fn steps_name_the_tensors_that_they_are_computed_with() {
    let with = |step: &str| described(&format!("\"a = input(4)\", \"b = {step}\""));
    let nodes = |step: &str, tensors: &[&str]| {
        let spec = small(&with(step));
        // Without placement, names have no effect.
        assert_eq!(spec.nodes(ComputeNumbers::default()).unwrap().len(), 2);
        let nodes = spec.placed_nodes(ComputeNumbers::default(), &|name| tensors.contains(&name));
        let shown = |node: &ComputeNode| (node.kind, node.weighted, node.tensor.clone());
        nodes.unwrap()[1..].iter().map(shown).collect::<Vec<_>>()
    };
    let (own, in_place) = (ComputeKind::Own, ComputeKind::InPlace);
    let named = |name: &str| Some(name.into());
    let step = "result(4, a, of = 'first second')";
    assert_eq!(nodes(step, &["second.bias"]), [(own, true, named("second.bias"))]);
    let both = ["second.weight", "first"];
    assert_eq!(nodes(step, &both), [(own, true, named("first"))]);
    assert_eq!(nodes(step, &[]), [(own, false, None)]);
    let apart = "unweighted(4, a, of = 'first')";
    assert_eq!(nodes(apart, &["first"]), [(own, false, named("first"))]);
    // Values that are stored in a cache or read from it are placed with the cache.
    for cached in ["cached(0, a)", "cached(4, a)"] {
        assert_eq!(nodes(cached, &[]), [(own, true, None)]);
    }
    assert_eq!(nodes("result(0, a)", &[]), [(own, false, None)]);
    assert_eq!(nodes("empty(a)", &[]), [(ComputeKind::Empty, false, None)]);
    let norms = "result(4, a, of = 'first', norm = 'before', normed = 'behind')";
    assert_eq!(nodes(norms, &["first"]), [(own, true, named("first"))]);
    assert_eq!(
        nodes(norms, &["first", "before", "behind"]),
        [
            (own, false, None),
            (in_place, true, named("before")),
            (in_place, true, named("first")),
            (in_place, false, None),
            (in_place, true, named("behind")),
        ]
    );
    for refused in [
        "result(4, a, of = 4)",
        "view(4, a, of = 'b')",
        "cached(4, a, of = 'b')",
        "weighted(a, normed = 'b')",
    ] {
        assert!(Architecture::parse(&with(refused)).is_err(), "{refused}");
    }
}

/// Operations with weights belong to the layer that has the weights; results and caches belong to the
/// layer that computes them.
#[test]
fn layers_can_compute_with_the_weights_of_others() {
    let groups = "\"a = input(4)\"]\n[[memory.compute]]\nfor = \"bid in 0..4\"\nsteps = [\"b = \
                  result(4, a, of = 'w')\", \"c = unweighted(4, b)\", \"k = cached(0, c)\"";
    let shared = described(groups)
        .replace("computed = true", "computed = true\nweights_of = \"bid % (blocks + 1)\"");
    let layers = |description: &str| -> Vec<_> {
        let spec = small(description);
        assert_eq!(spec.knows_weights(), description == shared);
        let nodes = spec.placed_nodes(ComputeNumbers::default(), &|_| true).unwrap();
        let layer = |node: &ComputeNode| match node.layer {
            ComputeLayer::Block(block) => (block, node.tensor.as_deref().map(str::to_owned)),
            _ => panic!("{node:?}"),
        };
        nodes[1..].iter().map(layer).collect()
    };
    let named = |block: u64| (block, Some(format!("blk.{block}.w.weight")));
    let own: Vec<_> =
        (0..4).flat_map(|block| [named(block), (block, None), (block, None)]).collect();
    assert_eq!(layers(&described(groups)), own);
    let of_others: Vec<_> =
        (0..4).flat_map(|block| [named(block % 2), (block, None), (block, None)]).collect();
    assert_eq!(layers(&shared), of_others);
    // The layer does not exist.
    let beyond = shared.replace("bid % (blocks + 1)", "bid + blocks");
    let error = small(&beyond).placed_nodes(ComputeNumbers::default(), &|_| true).unwrap_err();
    let message = "weights_of: layer 3 has the weights of layer 4, expected one below 4";
    assert!(error.to_string().contains(message), "{error}");
}

/// An early result is computed directly after the last expanded one, if its operands are computed by then.
#[test]
fn early_results_are_before_what_follows_the_last_expanded_one() {
    let with = |early: &str| {
        described(&format!(
            "\"a = input(1)\", \"b = result(2, a)\", \"b = expanded(b)\", \"c = result(3, b)\", \
             \"d = {early}\", \"e = given(c, d)\""
        ))
    };
    let elements = |early: &str| -> Vec<u64> {
        let nodes = small(&with(early)).nodes(ComputeNumbers::default()).unwrap();
        nodes.iter().map(|node| node.elements).collect()
    };
    assert_eq!(elements("result(4, a)"), [1, 2, 3, 4, 0]);
    assert_eq!(elements("result(4, a, early = true)"), [1, 2, 4, 3, 0]);
    assert_eq!(elements("result(4, c, early = true)"), [1, 2, 3, 4, 0]);
    for refused in ["result(4, a, early = false)", "norm(4, a, early = true)"] {
        assert!(Architecture::parse(&with(refused)).is_err(), "{refused}");
    }
}
