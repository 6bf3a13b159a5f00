//! Any steps of a computation graph, over tensors whose names have their dimensions: `w_8x16`.
//! Accepted steps are written and read back; small graphs run.

use ggmill_arch::graph::Graph;
use ggmill_core::{Builder, GgmlType, MetadataBuf, Model, Shape};
use ggmill_run::{Chunks, Options, Program, Runner, Source, measure, probe};

use crate::allocations::bounded;

/// Limits of a graph that runs: results, numbers read, multiplications, elements of tensors.
const SMALL: u64 = 1 << 14;

/// Loads the steps, one per line, and runs them over a model with such tensors.
pub fn graph(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let steps: Vec<&str> = text.lines().collect();
    let read = || Graph::of_steps(&steps, &dimensions);
    let Ok(graph) = bounded(data.len(), 1 << 20, 4000, read) else { return };
    for (number, node) in graph.nodes().iter().enumerate() {
        assert!(node.inputs.iter().all(|&input| input < number), "operands come first");
    }
    let covered: usize = graph.sections().iter().map(|section| section.nodes.len()).sum();
    assert_eq!(covered, graph.nodes().len(), "sections are all nodes");
    let Ok(written) = graph.steps() else { return };
    let again: Vec<&str> = written.iter().map(String::as_str).collect();
    let of_weight = |name: &str| {
        let weight = graph.weights().iter().find(|weight| weight.name == name)?;
        Some(weight.dimensions.clone())
    };
    let again = Graph::of_steps(&again, &of_weight).expect("what is written is read");
    assert!(again.nodes() == graph.nodes(), "as it was written");
    let elements: u64 = graph
        .weights()
        .iter()
        .map(|weight| weight.dimensions.iter().product::<u64>())
        .fold(0, u64::saturating_add);
    let work = [
        graph.numbers(),
        graph.reads(),
        graph.multiplications(),
        graph.attention_multiplications(),
        elements,
    ];
    if work.iter().all(|&work| work <= SMALL) {
        run(&graph);
    }
}

/// Returns the dimensions in a name: 8 and 16 for `w_8x16.weight`.
fn dimensions(name: &str) -> Option<Vec<u64>> {
    let (_, sizes) = name.strip_suffix(".weight")?.split_once('_')?;
    let sizes: Option<Vec<u64>> = sizes.split('x').map(|size| size.parse().ok()).collect();
    sizes.filter(|sizes| sizes.len() <= 4 && Shape::new(sizes).is_ok())
}

fn run(graph: &Graph) {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "invented");
    graph.write(&mut metadata).expect("it was written before");
    let mut builder = Builder::new().metadata(metadata);
    for weight in graph.weights() {
        let Ok(shape) = Shape::new(&weight.dimensions) else { return };
        builder = builder.tensor(&weight.name, GgmlType::F32, shape);
    }
    let Ok(plan) = builder.plan() else { return };
    let mut file = plan.header().to_vec();
    while (file.len() as u64) < plan.total_len() {
        let value = u8::try_from(file.len() % 31).map_or(0.0, f32::from) / 16.0 - 1.0;
        file.extend(value.to_le_bytes());
    }
    let model = Model::open(file).expect("what is written is read");
    let Ok(program) = Program::stored(&model) else { return };
    let runner = Runner::new(Options::default().with_threads(Some(1))).expect("one thread");
    let known = u32::try_from(program.vocabulary()).unwrap_or(u32::MAX);
    let tokens = [0, 2, 1].map(|token: u32| token % known.max(1));
    let texts = [&tokens[..], &tokens[..1]];
    let width = program.source_width().map(|width| usize::try_from(width).unwrap_or(usize::MAX));
    let vectors = |count: usize| vec![0.5f32; count];
    let states = match width {
        // Two vectors of the first source, and three of the second.
        Some(width) => {
            let (short, long) = (vectors(2 * width), vectors(3 * width));
            let sources = [Source::vectors(&short), Source::vectors(&long)];
            runner.states_with_sources(&program, &texts, &sources)
        }
        None if program.has_source() => {
            let sources = [Source::tokens(&tokens[1..]), Source::tokens(&tokens)];
            runner.states_with_sources(&program, &texts, &sources)
        }
        None => runner.states(&program, &texts),
    };
    // Any of these ends, with whatever result.
    let _ = probe(&runner, &program, None);
    let text: Vec<u32> = (0..24u32).map(|token| token % known.max(1)).collect();
    let chunks = Chunks::of(&text, 8, None).expect("three chunks");
    let _ = measure(&runner, &program, None, &chunks, false, |_| Ok::<_, ggmill_run::Error>(()));
    let Ok(states) = states else { return };
    if let Ok(output) = runner.output(&program, &states, 0, 0..3) {
        assert_eq!(output.len() as u64, 3 * program.output_len());
    }
}
