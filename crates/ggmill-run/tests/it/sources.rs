//! Models that take two texts.

use ggmill_arch::graph::Extent;
use ggmill_core::Model;
use ggmill_run::{
    Chunks, Error, ErrorKind, Matrices, Options, Program, Runner, activations, measure,
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
fn a_text_does_not_see_what_comes_and_sees_all_of_its_source() {
    let model = case("t5").model();
    let program = program(&model, "t5");
    let runner = runner();
    let mut changed = TOKENS;
    changed[10..].iter_mut().for_each(|token| *token = 120 - *token % 100);
    let mut other = SOURCE;
    other[SOURCE.len() - 1] = 3;
    let texts: [&[u32]; 4] = [&TOKENS, &changed, &TOKENS, &TOKENS];
    let sources: [&[u32]; 4] = [&SOURCE, &SOURCE, &other, &SOURCE[1..]];
    let states = runner.states_with_sources(&program, &texts, &sources).unwrap();
    let of = |text, tokens| bits(&runner.output(&program, &states, text, tokens).unwrap());
    assert_eq!(of(0, 0..10), of(1, 0..10));
    assert_ne!(of(0, 10..24), of(1, 10..24));
    // The first token alone depends on the last one of the source, and on how many it has.
    assert_ne!(of(0, 0..1), of(2, 0..1));
    assert_ne!(of(0, 0..1), of(3, 0..1));
    // A text alone gives the same.
    let alone = runner.states_with_sources(&program, &[&TOKENS], &[&other]).unwrap();
    let alone = runner.output(&program, &alone, 0, 0..24).unwrap();
    assert_eq!(bits(&alone), of(2, 0..24));
}

#[test]
fn a_source_that_is_missing_or_not_taken_is_refused() {
    let (two, one) = (case("t5").model(), CASES[0].model());
    let (two, one) = (program(&two, "t5"), Program::of(&one, CASES[0].described()).unwrap());
    assert!(two.has_source() && !one.has_source());
    let runner = runner();
    let failed = |program: &Program<'_>, texts: &[&[u32]], sources: &[&[u32]]| {
        let error = runner.states_with_sources(program, texts, sources).unwrap_err();
        (error.kind(), error.to_string())
    };
    let missing = runner.states(&two, &[&TOKENS]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Source);
    assert!(missing.to_string().contains("a second text, the source"), "{missing}");
    let (kind, message) = failed(&one, &[&TOKENS], &[&SOURCE]);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("takes one text"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS, &TOKENS], &[&SOURCE]);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("one source for each text"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS], &[&[]]);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("has no tokens"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS], &[&[259]]);
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
    // Queries, keys and values of the encoder are there at once.
    let widest = program.graph().nodes().iter().map(|node| elements(node.extent)).max().unwrap();
    assert!(needed > 3 * 3000 * 4 * widest.min(32), "{needed}");
    let with = |memory| {
        let options = Options::default().with_threads(Some(1)).with_memory(memory);
        Runner::new(options).unwrap().states_with_sources(&program, &[&TOKENS], &[&source])
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
        let states = runner.states_with_sources(&program, &[&text], &[source]).unwrap();
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
    let mean = surprises.iter().sum::<f64>() / surprises.len() as f64;
    assert!((found.perplexity.unwrap().value / mean.exp() - 1.0).abs() < 1e-9, "{found:?}");
    let same = found.comparison.unwrap();
    assert_eq!((same.divergence.mean.value, same.same_top.value), (0.0, 1.0));
    // What is computed for every token or only for those that count, and by how little memory.
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
    // BOS is another token.
    let by_bos = without(whole, "t5.decoder_start_token_id");
    assert_ne!(measured(by_bos.clone()).unwrap().perplexity, found.perplexity);
    let error = measured(without(by_bos, "tokenizer.ggml.bos_token_id")).unwrap_err();
    assert_eq!((error.kind(), error.program()), (ErrorKind::Source, Some(0)));
    assert!(error.to_string().starts_with("t5.decoder_start_token_id is not in"), "{error}");
}
