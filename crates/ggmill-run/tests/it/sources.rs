//! Models with an encoder, which take a source.

use ggmill_arch::graph::{Extent, Graph};
use ggmill_core::{Builder, GgmlType, MetadataBuf, Model, Shape};
use ggmill_run::{
    Chunks, Error, ErrorKind, Matrices, Options, Program, Runner, Source, activations, measure,
    probe,
};

use crate::models::{CASES, Case, SOURCE, TOKENS};

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

fn runner() -> Runner {
    Runner::new(Options::default()).unwrap()
}

fn program<'m>(model: &'m Model, name: &str) -> Program<'m> {
    Program::of(model, case(name).described()).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn the_decoder_is_causal_and_attends_to_the_whole_source() {
    let model = case("t5").model();
    let program = program(&model, "t5");
    let runner = runner();
    let mut changed = TOKENS;
    changed[10..].iter_mut().for_each(|token| *token = 120 - *token % 100);
    let mut other = SOURCE;
    other[SOURCE.len() - 1] = 3;
    let texts: [&[u32]; 4] = [&TOKENS, &changed, &TOKENS, &TOKENS];
    let sources: [&[u32]; 4] = [&SOURCE, &SOURCE, &other, &SOURCE[1..]];
    let sources = sources.map(Source::tokens);
    let states = runner.states_with_sources(&program, &texts, &sources).unwrap();
    let of = |text, tokens| bits(&runner.output(&program, &states, text, tokens).unwrap());
    assert_eq!(of(0, 0..10), of(1, 0..10));
    assert_ne!(of(0, 10..24), of(1, 10..24));
    // Even the first token depends on the last token and on the length of the source.
    assert_ne!(of(0, 0..1), of(2, 0..1));
    assert_ne!(of(0, 0..1), of(3, 0..1));
    // Running a text separately gives the same output.
    let alone =
        runner.states_with_sources(&program, &[&TOKENS], &[Source::tokens(&other)]).unwrap();
    let alone = runner.output(&program, &alone, 0, 0..24).unwrap();
    assert_eq!(bits(&alone), of(2, 0..24));
}

#[test]
fn missing_and_unexpected_sources_are_errors() {
    let (two, one) = (case("t5").model(), CASES[0].model());
    let (two, one) = (program(&two, "t5"), Program::of(&one, CASES[0].described()).unwrap());
    assert!(two.has_source() && !one.has_source());
    let runner = runner();
    let failed = |program: &Program<'_>, texts: &[&[u32]], source: &[u32]| {
        let source = Source::tokens(source);
        let error = runner.states_with_sources(program, texts, &[source]).unwrap_err();
        (error.kind(), error.to_string())
    };
    let missing = runner.states(&two, &[&TOKENS]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Source);
    assert!(missing.to_string().contains("a second text, the source"), "{missing}");
    let (kind, message) = failed(&one, &[&TOKENS], &SOURCE);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("takes one text"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS, &TOKENS], &SOURCE);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("one source for each text"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS], &[]);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("a source is empty"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS], &[259]);
    assert_eq!(kind, ErrorKind::Tokens);
    assert!(message.contains("token ID 259"), "{message}");
}

#[test]
fn the_memory_of_a_long_source_is_bounded() {
    let model = case("t5").model();
    let program = program(&model, "t5");
    let source = [5u32; 3000];
    let needed = program.memory(1, 3000, 1);
    let elements = |extent: Extent| extent.elements();
    // Queries, keys and values of the encoder are in memory at the same time.
    let widest = program.graph().nodes().iter().map(|node| elements(node.extent)).max().unwrap();
    assert!(needed > 3 * 3000 * 4 * widest.min(32), "{needed}");
    let with = |memory| {
        let options = Options::default().with_threads(Some(1)).with_memory(memory);
        Runner::new(options).unwrap().states_with_sources(
            &program,
            &[&TOKENS],
            &[Source::tokens(&source)],
        )
    };
    assert_eq!(with(program.memory(1, 24, 1)).unwrap_err().kind(), ErrorKind::Memory);
    assert!(with(needed).is_ok());
}

#[test]
fn the_first_half_of_a_chunk_is_the_source_of_the_other() {
    const CONTEXT: usize = 10;
    let model = case("t5").model();
    let program = program(&model, "t5");
    let start = model.metadata().u32("t5.decoder_start_token_id").unwrap();
    let runner = runner();
    let tokens: Vec<u32> = (0..35u32).map(|place| (place * place * 7 + place / 3) % 259).collect();
    let chunks = Chunks::of(&tokens, CONTEXT, None).unwrap();
    assert_eq!(program.outputs_of_chunk(&chunks), 5);
    let (mut surprises, mut expected) = (Vec::new(), Vec::new());
    for chunk in tokens.chunks_exact(CONTEXT) {
        let (source, rest) = chunk.split_at(CONTEXT / 2 + 1);
        let text = [&[start], rest].concat();
        let states =
            runner.states_with_sources(&program, &[&text], &[Source::tokens(source)]).unwrap();
        let logits = runner.output(&program, &states, 0, 0..text.len()).unwrap();
        for (row, came) in logits.chunks_exact(259).zip(rest) {
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            surprises.push(sum.ln() - f64::from(row[*came as usize]));
        }
        expected.push(bits(&logits));
    }
    let mut seen = Vec::new();
    let found = measure(&runner, &program, Some(&program), &chunks, true, |chunk| {
        seen.push(bits(chunk.logits));
        Ok::<_, Error>(())
    });
    let found = found.unwrap();
    assert_eq!(seen, expected);
    assert_eq!((found.chunks, found.counted), (3, surprises.len()));
    let mean = surprises.iter().sum::<f64>() / f64::from(u32::try_from(surprises.len()).unwrap());
    assert!((found.perplexity.unwrap().value / mean.exp() - 1.0).abs() < 1e-9, "{found:?}");
    let same = found.comparison.unwrap();
    assert_eq!((same.divergence.mean.value, same.same_top.value), (0.0, 1.0));
    // With outputs for all or only for scored tokens, and with little memory.
    let few = Options::default().with_memory(program.memory(2, 10, 1)).with_threads(Some(1));
    let few = Runner::new(few).unwrap();
    let again = measure(&few, &program, None, &chunks, false, |_| Ok::<_, Error>(())).unwrap();
    assert_eq!(again.perplexity, found.perplexity);
}

#[test]
fn the_activations_of_encoder_and_decoder_are_measured() {
    let model = case("t5").model();
    let program = program(&model, "t5");
    let tokens: Vec<u32> = (0..64u32).map(|place| place * 5 % 250).collect();
    let chunks = Chunks::of(&tokens, 32, None).unwrap();
    let run = |texts: &[Vec<u32>]| {
        activations(&runner(), &program, texts, Matrices::Blocks, |_, _| Ok::<_, Error>(()))
    };
    let found = run(chunks.texts()).unwrap();
    let rows = |name: &str| found.tensors().find(|tensor| tensor.name == name).unwrap().counts[0];
    // 17 tokens of each source, and 16 of each text.
    assert_eq!(rows("enc.blk.0.attn_q.weight"), 34);
    assert_eq!(rows("dec.blk.0.cross_attn_k.weight"), 34);
    assert_eq!(rows("dec.blk.0.attn_q.weight"), 32);
    assert_eq!(rows("dec.blk.0.cross_attn_q.weight"), 32);
}

#[test]
fn the_first_token_of_a_decoder_is_looked_up() {
    let tokens: Vec<u32> = (0..20).collect();
    let chunks = Chunks::of(&tokens, 10, None).unwrap();
    let measured = |bytes: Vec<u8>| {
        let model = Model::open(bytes).unwrap();
        let program = program(&model, "t5");
        measure(&runner(), &program, None, &chunks, false, |_| Ok::<_, Error>(()))
    };
    let without = |mut bytes: Vec<u8>, key: &str| {
        let place = bytes.windows(key.len()).position(|some| some == key.as_bytes()).unwrap();
        bytes[place + 3] = b'X';
        bytes
    };
    let whole = case("t5").bytes();
    let found = measured(whole.clone()).unwrap();
    // BOS differs from the start token of the decoder.
    let by_bos = without(whole, "t5.decoder_start_token_id");
    assert_ne!(measured(by_bos.clone()).unwrap().perplexity, found.perplexity);
    let error = measured(without(by_bos, "tokenizer.ggml.bos_token_id")).unwrap_err();
    assert_eq!((error.kind(), error.program()), (ErrorKind::DecoderStart, Some(0)));
    assert!(error.to_string().starts_with("t5.decoder_start_token_id is not in"), "{error}");
}

/// The steps of a graph whose source is vectors of length 6: a convolution with three taps, and for each
/// token of the text the mean of its results.
const OF_VECTORS: [&str; 9] = [
    "s = source_vectors(6)",
    "p = shift(s)",
    "n = shift(s, ahead = true)",
    "a = concat(p, s)",
    "b = concat(a, n)",
    "c = split(b, 3)",
    "k = linear_taps('kernel', c)",
    "q = rows('table', tokens)",
    "embedding = attention(q, k, k, 0.0, causal = false)",
];

/// Returns a model with this graph, and its kernel and bias.
fn of_vectors() -> (Model, Vec<f32>, Vec<f32>) {
    let number = |place: u16| f32::from(place * 37 % 101) / 50.0 - 1.0;
    let kernel: Vec<f32> = (0..3 * 6 * 4).map(number).collect();
    let bias: Vec<f32> = (0..4).map(|place| number(place + 9)).collect();
    let tensors: [(&str, &[u64], Vec<f32>); 3] = [
        ("kernel.weight", &[3, 6, 4], kernel.clone()),
        ("kernel.bias", &[1, 4], bias.clone()),
        ("table.weight", &[4, 5], vec![0.25; 20]),
    ];
    let dimensions = |name: &str| {
        let found = tensors.iter().find(|(known, ..)| *known == name)?;
        Some(found.1.to_vec())
    };
    let graph = Graph::of_steps(&OF_VECTORS, &dimensions).unwrap();
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "invented");
    graph.write(&mut metadata).unwrap();
    let mut builder = Builder::new().metadata(metadata);
    for (name, shape, _) in &tensors {
        builder = builder.tensor(*name, GgmlType::F32, Shape::new(shape).unwrap());
    }
    let plan = builder.plan().unwrap();
    let mut file = vec![0; usize::try_from(plan.total_len()).unwrap()];
    file[..plan.header().len()].copy_from_slice(plan.header());
    for (planned, (.., values)) in plan.tensors().iter().zip(&tensors) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        file[usize::try_from(planned.offset()).unwrap()..][..bytes.len()].copy_from_slice(&bytes);
    }
    (Model::open(file).unwrap(), kernel, bias)
}

#[test]
fn convolutions_of_source_vectors_equal_the_definition() {
    let (model, kernel, bias) = of_vectors();
    let program = Program::stored(&model).unwrap();
    assert_eq!((program.source_width(), program.vocabulary()), (Some(6), 5));
    let numbers: Vec<f32> =
        (0..6 * 7u16).map(|place| f32::from(place * 29 % 83) / 40.0 - 1.0).collect();
    let sources = [&numbers[..6 * 7], &numbers[6..12]];
    let texts: [&[u32]; 2] = [&[1, 4], &[2]];
    let runner = runner();
    let given = sources.map(Source::vectors);
    let states = runner.states_with_sources(&program, &texts, &given).unwrap();
    for (number, source) in sources.iter().enumerate() {
        let vectors: Vec<&[f32]> = source.chunks_exact(6).collect();
        let mut expected = [0.0; 4];
        for place in 0..vectors.len() {
            for (row, sum) in expected.iter_mut().enumerate() {
                let mut found = f64::from(bias[row]);
                for tap in 0..3 {
                    let Some(vector) = (place + tap).checked_sub(1).and_then(|at| vectors.get(at))
                    else {
                        continue;
                    };
                    for (channel, value) in vector.iter().enumerate() {
                        let weight = kernel[tap + 3 * channel + 18 * row];
                        found += f64::from(weight) * f64::from(*value);
                    }
                }
                *sum += found / f64::from(u32::try_from(vectors.len()).unwrap());
            }
        }
        let output = runner.output(&program, &states, number, 0..1).unwrap();
        for (found, expected) in output.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{output:?}, {expected}");
        }
    }
}

#[test]
fn source_vectors_are_checked() {
    let (model, ..) = of_vectors();
    let program = Program::stored(&model).unwrap();
    let runner = runner();
    let failed = |source: Source<'_>| {
        let error = runner.states_with_sources(&program, &[&[1]], &[source]).unwrap_err();
        (error.kind(), error.to_string())
    };
    for (source, kind, expected) in [
        (Source::tokens(&[1, 2]), ErrorKind::Source, "vectors of 6 numbers"),
        (Source::vectors(&[0.5; 7]), ErrorKind::Source, "7 numbers, expected vectors of 6"),
        (Source::vectors(&[]), ErrorKind::Source, "a source is empty"),
    ] {
        let (found, message) = failed(source);
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let mut numbers = [0.5; 12];
    numbers[8] = f32::NAN;
    let (kind, message) = failed(Source::vectors(&numbers));
    assert_eq!(kind, ErrorKind::NotFinite);
    assert!(message.contains("vector 1 of a source, number 2"), "{message}");
    // The synthetic source is within the memory limit of the run.
    let tiny = Runner::new(Options::default().with_memory(1 << 20)).unwrap();
    assert_eq!(probe(&tiny, &program, None).unwrap_err().kind(), ErrorKind::Memory);
    assert_eq!(probe(&runner, &program, None).unwrap().tokens, 16);
    let of_tokens = case("t5").model();
    let of_tokens = Program::of(&of_tokens, case("t5").described()).unwrap();
    let other = [Source::vectors(&numbers[..6])];
    let error = runner.states_with_sources(&of_tokens, &[&TOKENS], &other).unwrap_err();
    assert!(error.to_string().contains("tokens, not vectors"), "{error}");
    let tokens: Vec<u32> = (0..40).map(|place| place % 5).collect();
    let chunks = Chunks::of(&tokens, 20, None).unwrap();
    let divided =
        activations(&runner, &program, chunks.texts(), Matrices::All, |_, _| Ok::<_, Error>(()));
    assert_eq!(divided.unwrap_err().kind(), ErrorKind::SourceVectors);
}
