//! Perplexity and divergence, compared with plain computations from all logits, and their invariants.

use ggmill_arch::graph::{Graph, dimensions_of};
use ggmill_core::{GgmlType, MetadataBuf, Model};
use ggmill_run::{
    Chunks, Error, ErrorKind, MeasureProgress, Measurement, Options, Program, Runner, Trial, html,
    measure, measure_together, trials,
};

use crate::models::{CASES, Case, Change};
use crate::stored::invented;

const CONTEXT: usize = 16;

fn tokens() -> Vec<u32> {
    (0..70u32).map(|place| (place * place * 7 + place / 3) % 259).collect()
}

fn runner() -> Runner {
    Runner::new(Options::default()).unwrap()
}

fn measured(runner: &Runner, program: &Program<'_>, base: Option<&Program<'_>>) -> Measurement {
    let chunks = Chunks::of(&tokens(), CONTEXT, Some(1)).unwrap();
    measure(runner, program, base, &chunks, false, |_| Ok::<_, Error>(())).unwrap()
}

/// Returns log probabilities.
fn log_softmax(row: &[f32]) -> Vec<f64> {
    let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
    row.iter().map(|&logit| f64::from(logit) - sum.ln()).collect()
}

#[test]
fn masked_and_non_finite_logits_are_errors() {
    let fails = |program: &Program<'_>| {
        let chunks = Chunks::of(&tokens(), CONTEXT, Some(1)).unwrap();
        measure(&runner(), program, None, &chunks, false, |_| Ok::<_, Error>(())).unwrap_err()
    };
    let case = CASES.iter().find(|case| case.name == "chameleon").unwrap();
    let model = case.model();
    let error = fails(&Program::of(&model, case.described()).unwrap());
    assert_eq!(error.kind(), ErrorKind::Tokens);
    assert!(error.to_string().contains("which the model never predicts"), "{error}");
    let model = CASES[0].model();
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "invented");
    let steps = [
        "x = rows('token_embd', tokens)",
        "y = linear('output', x)",
        "z = y * 0.0",
        "logits = z / 0.0",
    ];
    Graph::of_steps(&steps, &dimensions_of(&model)).unwrap().write(&mut metadata).unwrap();
    let other = Model::open(invented(&model, metadata)).unwrap();
    let error = fails(&Program::stored(&other).unwrap());
    assert_eq!(error.kind(), ErrorKind::NotFinite, "{error}");
}

#[test]
fn measurements_equal_the_definition() {
    let (model, base) = (CASES[0].model(), CASES[3].model());
    let program = Program::of(&model, CASES[0].described()).unwrap();
    let base = Program::of(&base, CASES[3].described()).unwrap();
    let runner = runner();
    let measured = measured(&runner, &program, Some(&base));
    let (mut surprise, mut base_surprise, mut divergence, mut same, mut squares) =
        (Vec::new(), Vec::new(), Vec::new(), 0.0, 0.0);
    for chunk in tokens().chunks_exact(CONTEXT) {
        let mut text = chunk.to_vec();
        text[0] = 1;
        let rows = |program: &Program<'_>| {
            let states = runner.states(program, &[&text]).unwrap();
            let logits = runner.output(program, &states, 0, 0..CONTEXT).unwrap();
            logits.chunks_exact(259).map(log_softmax).collect::<Vec<_>>()
        };
        let (ours, theirs) = (rows(&program), rows(&base));
        // Positions in the second half predict the next token.
        for place in CONTEXT / 2..CONTEXT - 1 {
            let came = usize::try_from(text[place + 1]).unwrap();
            let (p, q) = (&ours[place], &theirs[place]);
            surprise.push(-p[came]);
            base_surprise.push(-q[came]);
            divergence.push(q.iter().zip(p).map(|(q, p)| q.exp() * (q - p)).sum::<f64>());
            let top = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            same += f64::from(u8::from(top(p) == top(q)));
            squares += (p[came].exp() - q[came].exp()).powi(2);
        }
    }
    let count = f64::from(u32::try_from(surprise.len()).unwrap());
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let close = |found: f64, expected: f64, what: &str| {
        let most = 1e-6 * expected.abs() + 1e-12;
        assert!((found - expected).abs() < most, "{what}: {found}, expected {expected}");
    };
    let comparison = measured.comparison.unwrap();
    assert_eq!((measured.chunks, measured.counted), (4, 28));
    let perplexity = measured.perplexity.unwrap();
    close(perplexity.value, mean(&surprise).exp(), "perplexity");
    close(comparison.base_perplexity.value, mean(&base_surprise).exp(), "of the base");
    close(comparison.ratio.value, (mean(&surprise) - mean(&base_surprise)).exp(), "ratio");
    close(comparison.divergence.mean.value, mean(&divergence), "divergence");
    close(comparison.same_top.value, same / count, "same top");
    close(comparison.probability_rms.value, (squares / count).sqrt(), "change");
    // Seven positions of each chunk are scored.
    for (part, found) in divergence.chunks(7).zip(&comparison.divergence_by_chunk) {
        close(*found, part.iter().sum::<f64>() / 7.0, "divergence of a chunk");
    }
    assert_eq!(comparison.divergence_by_chunk.len(), 4);
    divergence.sort_by(f64::total_cmp);
    close(
        comparison.divergence.quantile(0.5),
        f64::midpoint(divergence[13], divergence[14]),
        "median",
    );
    close(comparison.divergence.quantile(1.0), divergence[27], "greatest");
    let deviation = surprise.iter().map(|x| (x - mean(&surprise)).powi(2)).sum::<f64>() / count;
    let error = (deviation / (count - 1.0)).sqrt();
    close(perplexity.error, error * perplexity.value, "error");
    // The error of the ratio is the error of the mean difference.
    let differences: Vec<f64> = surprise.iter().zip(&base_surprise).map(|(a, b)| a - b).collect();
    let deviation =
        differences.iter().map(|x| (x - mean(&differences)).powi(2)).sum::<f64>() / count;
    let error = (deviation / (count - 1.0)).sqrt();
    close(comparison.ratio.error, error * comparison.ratio.value, "error of the ratio");
}

#[test]
fn a_model_does_not_differ_from_itself() {
    let model = CASES[5].model();
    let program = Program::of(&model, CASES[5].described()).unwrap();
    let measured = measured(&runner(), &program, Some(&program));
    let comparison = measured.comparison.unwrap();
    assert_eq!(Some(comparison.base_perplexity), measured.perplexity);
    assert!((comparison.ratio.value - 1.0).abs() < 1e-12 && comparison.ratio.error < 1e-6);
    assert!(comparison.divergence.quantile(1.0).abs() < 1e-12);
    assert!((comparison.same_top.value - 1.0).abs() < 1e-12);
}

/// Measures several models in one pass with a memory limit.
fn together(
    memory: Option<u64>,
    programs: &[&Program<'_>],
    base: &Program<'_>,
) -> Vec<Measurement> {
    let mut options = Options::default().with_threads(Some(2));
    options.memory = memory.unwrap_or(options.memory);
    let chunks = Chunks::of(&tokens(), CONTEXT, Some(1)).unwrap();
    let mut seen = Vec::new();
    let measured = measure_together(
        &Runner::new(options).unwrap(),
        programs,
        Some(base),
        &chunks,
        false,
        |it| {
            seen.push((it.chunk, it.program));
            Ok::<_, Error>(())
        },
    );
    let expected = (0..4).flat_map(|chunk| (0..programs.len()).map(move |it| (chunk, it)));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    measured.unwrap()
}

#[test]
fn one_pass_equals_separate_passes() {
    let cases = [CASES[0], CASES[3], CASES[5]];
    let models = cases.map(Case::model);
    let program = |number: usize| Program::of(&models[number], cases[number].described()).unwrap();
    let programs = [program(0), program(1), program(2)];
    let [base, first, second] = &programs;
    let alone = [first, second, base].map(|program| measured(&runner(), program, Some(base)));
    assert_eq!(together(None, &[first, second, base], base), alone);
    assert_ne!(alone[0], alone[1]);
    // The minimum memory: one chunk of the largest model, and the states of the others.
    let least = programs.iter().map(|program| program.memory(1, 16, 2)).max().unwrap();
    assert_eq!(together(Some(2 * least), &[first, second, base], base), alone);
    let names = ["a<b>.gguf", "b.gguf", "c.gguf"];
    let mut page = Vec::new();
    html::Page::new(Some("base.gguf"), CONTEXT, names.into_iter().zip(&alone))
        .write(&mut page)
        .unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_eq!(page.matches("<polyline").count(), 6, "{page}");
    assert!(page.contains("a&lt;b&gt;.gguf") && !page.contains("a<b>"), "{page}");
    assert!(page.contains("KL divergence by chunk") && page.contains("by percentile"), "{page}");
    for outside in ["<script", "http:", "https:", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}: {page}");
    }
}

#[test]
fn embeddings_are_compared_by_cosine() {
    let case = CASES.iter().find(|case| case.name == "bert").unwrap();
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let same = measured(&runner(), &program, Some(&program));
    assert_eq!((same.chunks, same.counted), (4, 4 * CONTEXT));
    assert!(same.perplexity.is_none() && same.comparison.is_none());
    let similarity = same.similarity.unwrap();
    assert!((similarity.cosine.quantile(0.0) - 1.0).abs() < 1e-9, "{similarity:?}");
    assert_eq!(similarity.cosine_by_chunk.len(), 4);
    // The weights in the second half of the file are rounded to BF16.
    let mut bytes = case.bytes();
    let half = bytes.len() / 8 * 4;
    for weight in bytes[half..].chunks_exact_mut(4) {
        weight[..2].fill(0);
    }
    let other = Model::open(bytes).unwrap();
    let other = Program::of(&other, case.described()).unwrap();
    let found = measured(&runner(), &other, Some(&program)).similarity.unwrap();
    let mut expected = Vec::new();
    for chunk in tokens().chunks_exact(CONTEXT) {
        let mut text = chunk.to_vec();
        text[0] = 1;
        let rows = |program: &Program<'_>| {
            let states = runner().states(program, &[&text]).unwrap();
            runner().output(program, &states, 0, 0..CONTEXT).unwrap()
        };
        let width = usize::try_from(program.output_len()).unwrap();
        let (ours, theirs) = (rows(&other), rows(&program));
        for (a, b) in ours.chunks_exact(width).zip(theirs.chunks_exact(width)) {
            let dot = |a: &[f32], b: &[f32]| -> f64 {
                a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            expected.push(dot(a, b) / (dot(a, a) * dot(b, b)).sqrt());
        }
    }
    let mean = expected.iter().sum::<f64>() / 64.0;
    assert!((found.cosine.mean.value - mean).abs() < 1e-9, "{mean} {found:?}");
    let least = expected.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((found.cosine.quantile(0.0) - least).abs() < 1e-9 && least < 0.999_999_9, "{least}");
}

#[test]
fn results_do_not_depend_on_memory() {
    let model = CASES[4].model();
    let program = Program::of(&model, CASES[4].described()).unwrap();
    let memory = program.memory(1, 16, 2) + 4096;
    let small = Runner::new(Options::default().with_memory(memory).with_threads(Some(2))).unwrap();
    assert!(small.texts_at_once(&program, 16).unwrap() < 4);
    assert_eq!(measured(&small, &program, None), measured(&runner(), &program, None));
}

#[test]
fn a_file_that_changed_is_an_error() {
    let case = &CASES[0];
    let model = case.model();
    let changing = case.changing();
    let program = Program::of(&model, case.described()).unwrap();
    let other = Program::of(&changing, case.described()).unwrap();
    let chunks = Chunks::of(&tokens(), CONTEXT, None).unwrap();
    for (program, base) in [(&other, None), (&program, Some(&other))] {
        let watch = |_: MeasureProgress<'_>| Ok::<_, Error>(());
        let error = measure(&runner(), program, base, &chunks, false, watch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Read);
        assert!(error.to_string().contains("the file changed"), "{error}");
    }
}

/// An error of the callback.
struct Enough;
impl From<Error> for Enough {
    fn from(error: Error) -> Self {
        panic!("{error}")
    }
}

#[test]
fn the_callback_gets_all_logits_and_can_cancel() {
    let model = CASES[0].model();
    let program = Program::of(&model, CASES[0].described()).unwrap();
    let chunks = Chunks::of(&tokens(), CONTEXT, None).unwrap();
    let mut seen = Vec::new();
    let measured = measure(&runner(), &program, None, &chunks, true, |chunk| {
        seen.push((chunk.chunk, chunk.logits.len()));
        Ok::<_, Error>(())
    });
    assert!(measured.unwrap().comparison.is_none());
    assert_eq!(seen, [0, 1, 2, 3].map(|chunk| (chunk, CONTEXT * 259)));
    let stopped = measure(&runner(), &program, None, &chunks, false, |_| Err(Enough));
    assert!(stopped.is_err());
}

#[test]
fn models_that_cannot_be_compared_are_errors() {
    let encoder = CASES.iter().find(|case| case.name == "bert").unwrap();
    let model = CASES[0].model();
    let program = Program::of(&model, CASES[0].described()).unwrap();
    let chunks = Chunks::of(&tokens(), CONTEXT, None).unwrap();
    let kind = |program: &Program<'_>, base| {
        measure(&runner(), program, base, &chunks, false, |_| Ok::<_, Error>(()))
            .unwrap_err()
            .kind()
    };
    let bert = encoder.model();
    let bert = Program::of(&bert, encoder.described()).unwrap();
    assert_eq!(kind(&bert, None), ErrorKind::Embeddings);
    assert_eq!(kind(&bert, Some(&program)), ErrorKind::Graph);
    assert_eq!(kind(&program, Some(&bert)), ErrorKind::Graph);
    let change = Change { vocabulary: Some("<odd>"), ..Change::default() };
    let other = Model::open(CASES[0].changed(&change)).unwrap();
    let other = Program::of(&other, CASES[0].described()).unwrap();
    assert_eq!(kind(&program, Some(&other)), ErrorKind::Vocabulary);
    let error = Chunks::of(&tokens()[..31], 16, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooShort);
    assert!(
        error.to_string().starts_with("the number of tokens is 31, expected at least 32"),
        "{error}"
    );
    assert_eq!(Chunks::of(&tokens(), 3, None).unwrap_err().kind(), ErrorKind::Chunks);
}

/// The output of a stored graph may have fewer logits than the vocabulary has tokens.
#[test]
fn tokens_without_a_logit_are_errors() {
    let original = CASES[0].model();
    let dimensions = dimensions_of(&original);
    let steps = ["x = rows('token_embd', tokens)", "logits = linear('blk.0.attn_q', x)"];
    let graph = Graph::of_steps(&steps, &dimensions).unwrap();
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "invented");
    graph.write(&mut metadata).unwrap();
    let model = Model::open(invented(&original, metadata)).unwrap();
    let program = Program::stored(&model).unwrap();
    assert!(program.output_len() < program.vocabulary());
    let run = |tokens: &[u32]| {
        let chunks = Chunks::of(tokens, CONTEXT, None).unwrap();
        measure(&runner(), &program, None, &chunks, false, |_| Ok::<_, Error>(()))
    };
    let error = run(&tokens()).unwrap_err();
    assert_eq!((error.kind(), error.program()), (ErrorKind::Tokens, Some(0)));
    assert!(error.to_string().contains("but the output of the model has 32"), "{error}");
    // Tokens that are not scored may have no logit.
    let few: Vec<u32> =
        (0..40).map(|place| if place % 16 < 8 { 200 } else { place % 32 }).collect();
    assert!(run(&few).is_ok());
    let chunks = Chunks::of(&tokens(), CONTEXT, None).unwrap();
    let asked = [Trial::new("blk.0.attn_q.weight", GgmlType::Q4_0)];
    let tried = trials(&runner(), &program, &chunks, &asked, |_, _| Ok::<_, Error>(()));
    assert_eq!(tried.unwrap_err().kind(), ErrorKind::Tokens);
}
