//! Graphs stored in files: a model of an unknown architecture computes the same as the original.

use ggmill_arch::Architecture;
use ggmill_arch::graph::{Graph, STEPS_KEY, Section, dimensions_of};
use ggmill_core::{Builder, MetadataBuf, Model};
use ggmill_run::{ErrorKind, GraphSource, Options, Program, Runner};

use crate::models::{CASES, TOKENS, states};

/// Returns a model with the same tensors, an unknown architecture name, and these metadata entries.
pub(crate) fn invented(model: &Model, metadata: MetadataBuf) -> Vec<u8> {
    let mut builder = Builder::new().metadata(metadata);
    for tensor in model.tensors() {
        builder = builder.tensor(tensor.name().as_bytes(), tensor.ggml_type(), *tensor.shape());
    }
    let plan = builder.plan().unwrap();
    let mut file = vec![0; usize::try_from(plan.total_len()).unwrap()];
    file[..plan.header().len()].copy_from_slice(plan.header());
    for (planned, tensor) in plan.tensors().iter().zip(model.tensors()) {
        let start = usize::try_from(planned.offset()).unwrap();
        let data = model.read_tensor(&tensor).unwrap();
        file[start..start + data.len()].copy_from_slice(&data);
    }
    file
}

pub(crate) fn named() -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "invented");
    metadata
}

fn bits(program: &Program<'_>) -> Vec<u32> {
    let runner = Runner::new(Options::default()).unwrap();
    let states = states(&runner, program, &[&TOKENS]).unwrap();
    let output = runner.output(program, &states, 0, 0..TOKENS.len()).unwrap();
    output.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_stored_graph_computes_the_same_as_the_description() {
    for case in CASES.iter() {
        let model = case.model();
        let original = Program::of(&model, case.described()).unwrap();
        let mut metadata = named();
        original.graph().write(&mut metadata).unwrap();
        let other = Model::open(invented(&model, metadata)).unwrap();
        assert!(Architecture::builtin("invented").is_none());
        let program = Program::find(&other, None, None).unwrap();
        assert_eq!(program.graph_source(), GraphSource::File);
        assert_eq!(program.graph().nodes(), original.graph().nodes(), "{}", case.name);
        assert_eq!(program.graph().weights(), original.graph().weights(), "{}", case.name);
        // In a stored graph, a block begins with its first tensor, and is executed once.
        let (nodes, sections) = (original.graph().nodes(), original.graph().sections());
        let begins = |section: &Section| !nodes[section.nodes.start].operation.weights().is_empty();
        let blocks = sections.iter().filter_map(|section| section.block);
        if sections.iter().all(begins) && blocks.is_sorted_by(|one, next| one < next) {
            assert_eq!(program.graph().sections(), sections, "{}", case.name);
        }
        assert_eq!(program.vocabulary(), original.vocabulary());
        assert_eq!(bits(&program), bits(&original), "{}", case.name);
    }
}

#[test]
fn the_description_takes_precedence_over_the_file() {
    let case = &CASES[0];
    let model = case.model();
    let described = Some(case.described());
    let kind = |only| Program::find(&model, described, only).map(|program| program.graph_source());
    assert_eq!(kind(None).unwrap(), GraphSource::Description);
    assert_eq!(kind(Some(GraphSource::File)).unwrap_err().kind(), ErrorKind::NoGraph);
    let without = |only| Program::find(&model, None, only).unwrap_err().kind();
    assert_eq!(without(None), ErrorKind::NoGraph);
    assert_eq!(without(Some(GraphSource::Description)), ErrorKind::NoGraph);
    // If the description cannot be applied, the stored graph is used.
    let mut metadata = named();
    Program::of(&model, case.described()).unwrap().graph().write(&mut metadata).unwrap();
    let other = Model::open(invented(&model, metadata)).unwrap();
    let program = Program::find(&other, described, None).unwrap();
    assert_eq!(program.graph_source(), GraphSource::File);
    let only = Some(GraphSource::Description);
    assert_eq!(Program::find(&other, described, only).unwrap_err().kind(), ErrorKind::Graph);
}

#[test]
fn a_graph_that_contradicts_its_file_is_an_error() {
    let model = CASES[0].model();
    let of_steps = |steps: &[&str]| {
        let mut metadata = named();
        metadata.set("ggmill.graph.version", 1u32);
        metadata.set(STEPS_KEY, steps);
        let other = Model::open(invented(&model, metadata)).unwrap();
        let error = Program::stored(&other).map(|_| ()).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, message) = of_steps(&["logits = linear('output', x)"]);
    assert_eq!(kind, ErrorKind::Graph);
    assert!(message.contains("uses \"x\", which no earlier step defines"), "{message}");
    let (kind, message) = of_steps(&["x = rows('output_norm', 0)", "logits = linear('output', x)"]);
    assert_eq!(kind, ErrorKind::Graph);
    assert!(message.contains("does not take the tokens"), "{message}");
    let (kind, message) = of_steps(&["x = rows('token_embd', tokens)"]);
    assert_eq!(kind, ErrorKind::Graph);
    assert!(message.contains("no step produces the output"), "{message}");
}

/// Returns a model with these steps and the tensors of a small model.
fn of_steps(steps: &[String]) -> Model {
    let mut metadata = named();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    metadata.set("ggmill.graph.version", 1u32);
    metadata.set(STEPS_KEY, &steps[..]);
    Model::open(invented(&CASES[0].model(), metadata)).unwrap()
}

/// Returns steps that concatenate a value with itself `count` times, and the name of the last result.
fn doubled(first: &str, count: usize) -> (Vec<String>, String) {
    let mut last = first.to_owned();
    let double = |number| {
        let step = format!("d{number} = concat({last}, {last})");
        last = format!("d{number}");
        step
    };
    let steps = (0..count).map(double).collect();
    (steps, last)
}

#[test]
fn output_memory_is_limited() {
    // The tail of the graph begins with the norm: 32 · 2¹⁶ elements per token.
    let mut steps = vec![
        "x = rows('token_embd', tokens)".to_owned(),
        "b = rms_norm(x, 'blk.0.attn_norm', 1e-5)".to_owned(),
        "n = rms_norm(b, 'output_norm', 1e-5)".to_owned(),
    ];
    let (more, last) = doubled("n", 16);
    steps.extend(more);
    steps.push(format!("p, q = parts({last}, 32, {})", (32 << 16) - 32));
    steps.push("logits = linear('output', p)".to_owned());
    let model = of_steps(&steps);
    let program = Program::stored(&model).unwrap();
    assert!(program.memory(1, 24, 1) > 24 * 4 * (32 << 16));
    let runner = Runner::new(Options::default().with_memory(128 << 20)).unwrap();
    assert_eq!(runner.texts_at_once(&program, 24).unwrap_err().kind(), ErrorKind::Memory);
    let states = runner.states(&program, &[&TOKENS]).unwrap();
    let error = runner.output(&program, &states, 0, 0..TOKENS.len()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    let one = runner.output(&program, &states, 0, 3..4).unwrap();
    // It runs with enough memory.
    let runner = Runner::new(Options::default().with_memory(4 << 30)).unwrap();
    let all = runner.output(&program, &states, 0, 0..TOKENS.len()).unwrap();
    assert_eq!(all[3 * 259..4 * 259], one);
}

#[test]
fn rotation_table_memory_is_limited() {
    let ropes = |count: usize| {
        let mut steps = vec!["x = rows('token_embd', tokens)".to_owned()];
        let (more, mut last) = doubled("x", 9);
        steps.extend(more);
        for number in 0..count {
            steps.push(format!("r{number} = rope({last}, 'pairs', 16384, {})", 10_000 + number));
            last = format!("r{number}");
        }
        steps.push(format!("p, q = parts({last}, 32, 16352)"));
        steps.push("logits = linear('output', p)".to_owned());
        of_steps(&steps)
    };
    let (none, many) = (ropes(0), ropes(40));
    let (without, program) = (Program::stored(&none).unwrap(), Program::stored(&many).unwrap());
    // Two tables, with a cosine and a sine per pair and position.
    let (texts, threads) = (3, 2);
    let more = program.memory(texts, 24, threads) - without.memory(texts, 24, threads);
    let tables = 2 * 24 * 16_384 * 4;
    assert!((tables..2 * tables).contains(&more), "{more}, and tables of {tables}");
    assert_eq!(bits(&program).len(), 24 * 259);
}

#[test]
fn hostile_graphs_are_bounded() {
    let model = CASES[0].model();
    let tables = dimensions_of(&model);
    // Non-finite numbers, empty windows and a negative epsilon give results, not panics.
    let steps = [
        "x = rows('token_embd', tokens)",
        "a = rms_norm(x, none, -1e9)",
        "b = softmax(a)",
        "e = top(b, 32)",
        "c = take(b, e)",
        "d = c / 0.0",
        "h = split(d, 4)",
        "f = attention(h, h, h, 1e38, window = 1, softcap = -1.0, alibi = 1e30)",
        // NaN scores, and more and longer runs of tokens than the text has.
        "k, l, m = parts(d, 8, 4, 20)",
        "p = pick(h, k, none, 1000, block = 9007199254740993, local = 9007199254740993)",
        "q = attention(h, h, h, 1e38, picks = p)",
        "r = pick(h, k, l, 2)",
        "s = attention(h, h, h, 1.0, picks = r)",
        "t = q + s",
        // A negative divisor, square roots of negative numbers, runs longer than the text.
        "v = sinkhorn(h, 3, -1.0)",
        "w = merge(v)",
        "i = pool(w, d, 9007199254740993)",
        "j = pick(h, k, l, 1000, block = 9007199254740993, whole = true)",
        "n = attention(h, h, h, 1e38, run = 9007199254740993, run_keys = h, run_values = h, picks = j)",
        "o = attention(h, v, h, 1e38, window = 1, run = 2, run_keys = v, run_values = h)",
        "y = pool(o, d, 2)",
        "z = root(y)",
        // Rounding of non-finite numbers, and a token ID beyond the vocabulary.
        "b1 = nearest(d)",
        "b2 = is_token(3)",
        "b3 = b1 / b2",
        "i2 = i + b3",
        // Hash multipliers and dilations that overflow.
        "w1 = hashed_rows('token_embd', tokens, [9223372036854775807, 9223372036854775807], [259], [0], 9223372036854775807)",
        "w2 = merge(w1)",
        "w3 = conv('blk.0.attn_q', w2, dilation = 9223372036854775807)",
        "t1 = t + w3",
        "c1 = i2 + n",
        "c2 = c1 + z",
        "c3 = c2 + t1",
        "u = f + c3",
        "g = rope(u, 'halves', 32, 1e-38)",
        "logits = linear('output', g)",
    ];
    let graph = Graph::of_steps(&steps, &tables).unwrap();
    let mut metadata = named();
    graph.write(&mut metadata).unwrap();
    let other = Model::open(invented(&model, metadata)).unwrap();
    let program = Program::stored(&other).unwrap();
    assert_eq!(bits(&program).len(), 24 * 259);
    // The memory for one text is known and checked before it is allocated.
    let wide = ["x = rows('token_embd', tokens)", "a = concat(x, x)"];
    let mut steps: Vec<String> = wide.iter().map(ToString::to_string).collect();
    let mut last = "a".to_owned();
    for number in 0..18 {
        steps.push(format!("v{number} = concat({last}, {last})"));
        last = format!("v{number}");
    }
    steps.push("logits = linear('output', x)".to_owned());
    steps.push(format!("z = silu({last})"));
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let graph = Graph::of_steps(&steps, &tables).unwrap();
    let mut metadata = named();
    graph.write(&mut metadata).unwrap();
    let other = Model::open(invented(&model, metadata)).unwrap();
    let program = Program::stored(&other).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    let error = runner.states(&program, &[&TOKENS]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
}
