//! Running a program over texts: block by block, all texts at once.

mod choices;
mod given;
mod parts;
mod text;

use core::ops::Range;
use std::sync::Arc;

use ggmill_arch::graph::{Arithmetic, Node, Operation, Rope};
use ggmill_core::ByteSize;
use ggmill_quant::Isa;
use rayon::ThreadPool;

use self::given::Sequence;
use crate::activations::Activations;
use crate::arena::Arena;
use crate::elementwise as each;
use crate::error::{Error, ErrorKind, Result};
use crate::matrix::Tiles;
use crate::program::{Program, TILES, TURNS};
use crate::rope::Turns;
use crate::source::Source;

/// How a model is run. Results do not depend on it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How many threads; `None` for as many as the machine runs at once.
    pub threads: Option<usize>,
    /// Bytes of memory that results of operations may take, about, those of the output included. As
    /// many texts are run at once as that allows.
    pub memory: u64,
    /// The instructions that are used: the best that the machine has.
    pub isa: Isa,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: None, memory: 2 << 30, isa: Isa::best() }
    }
}

impl Options {
    /// The same with so many threads.
    #[must_use]
    pub fn with_threads(self, threads: Option<usize>) -> Self {
        Self { threads, ..self }
    }

    /// The same with so much memory, in bytes.
    #[must_use]
    pub fn with_memory(self, memory: u64) -> Self {
        Self { memory, ..self }
    }

    /// The same with these instructions.
    #[must_use]
    pub fn with_isa(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }
}

/// Threads that run programs.
#[derive(Debug)]
pub struct Runner {
    pool: ThreadPool,
    options: Options,
}

/// What is left of running some texts when all blocks are done: enough for the output of any of
/// their tokens.
#[derive(Debug)]
pub struct States {
    values: Vec<Option<Data>>,
    texts: Vec<Range<usize>>,
}

/// The result of a node for all tokens.
#[derive(Clone, Debug)]
enum Data {
    Numbers(Arc<Vec<f32>>),
    Places(Arc<Vec<u32>>),
}

impl States {
    /// How many texts there are.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Bytes of memory that they take.
    fn memory(&self) -> u64 {
        let numbers = self.values.iter().flatten().map(|data| match data {
            Data::Numbers(values) => values.len() as u64,
            Data::Places(places) => places.len() as u64,
        });
        numbers.sum::<u64>().saturating_mul(4)
    }
}

impl Runner {
    /// Starts the threads.
    pub fn new(options: Options) -> Result<Self> {
        let threads = options.threads.unwrap_or(0);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Error::new(ErrorKind::Threads, error))?;
        Ok(Self { pool, options })
    }

    /// Does work on the threads.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> u64 {
        self.pool.current_num_threads() as u64
    }

    /// How many texts of this length can be run at once: at least one. Fails where the memory that
    /// is allowed is too little for one and the output of all its tokens.
    pub fn texts_at_once(&self, program: &Program<'_>, length: u64) -> Result<usize> {
        self.texts_with(program, length, length)
    }

    /// The same where the output is computed for so many tokens of a text.
    pub(crate) fn texts_with(
        &self,
        program: &Program<'_>,
        length: u64,
        outputs: u64,
    ) -> Result<usize> {
        let threads = self.threads();
        self.texts_within(length, &|texts| {
            let states = program.memory_of_states(texts, length, threads);
            states.saturating_add(program.memory_of_output(outputs))
        })
    }

    /// The same for work on texts of this length that needs so much memory.
    pub(crate) fn texts_within(&self, length: u64, needed: &dyn Fn(u64) -> u64) -> Result<usize> {
        if needed(1) > self.options.memory {
            let [needed, allowed] = ByteSize::both(needed(1), self.options.memory);
            let message = format_args!(
                "a text of {length} tokens needs {needed} of memory, but {allowed} are allowed"
            );
            return Err(Error::new(ErrorKind::Memory, message));
        }
        let mut texts = 1;
        while texts < 256 && needed(texts + 1) <= self.options.memory {
            texts += 1;
        }
        Ok(usize::try_from(texts).unwrap_or(1))
    }

    /// Runs all blocks of a model over some texts. Each weight is read once.
    ///
    /// Fails for tokens that the model does not have, for weights that are not finite, and where the
    /// results take more memory than is allowed.
    pub fn states(&self, program: &Program<'_>, texts: &[&[u32]]) -> Result<States> {
        self.states_into(program, texts, &[], None)
    }

    /// The same for a model that takes two texts, such as an encoder and a decoder do: the source of
    /// each text has the same place in `sources`.
    ///
    /// Fails as [`states`](Self::states) does, for a model that takes one text, where a text has no
    /// source, and for a source that is not what the model takes: tokens, or vectors of finite numbers.
    ///
    /// ```no_run
    /// # use ggmill_run::{Options, Program, Runner, Source};
    /// # fn run(program: &Program<'_>) -> ggmill_run::Result<()> {
    /// let runner = Runner::new(Options::default())?;
    /// let (source, text) = (Source::tokens(&[8774, 6, 296, 1]), [0, 8774]);
    /// let states = runner.states_with_sources(program, &[&text], &[source])?;
    /// let logits = runner.output(program, &states, 0, 0..text.len())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn states_with_sources(
        &self,
        program: &Program<'_>,
        texts: &[&[u32]],
        sources: &[Source<'_>],
    ) -> Result<States> {
        self.states_into(program, texts, sources, None)
    }

    /// The same, with the activations of matrices added up.
    pub(crate) fn states_into(
        &self,
        program: &Program<'_>,
        texts: &[&[u32]],
        sources: &[Source<'_>],
        activations: Option<&mut Activations>,
    ) -> Result<States> {
        let mut run = self.start(program, texts, sources, activations)?;
        self.pool.install(|| run.nodes(0..program.tail))?;
        Ok(run.end())
    }

    /// Runs all blocks once, and then for each of some programs that differ from the first in one
    /// weight: from the first operation that takes the weight on, as what comes before is the same.
    /// `each` is called with the number of the program and what is left of its run. Texts and their
    /// sources are as for [`states_with_sources`](Self::states_with_sources).
    pub(crate) fn states_of_variants<E: From<Error>>(
        &self,
        program: &Program<'_>,
        variants: &[Program<'_>],
        (texts, sources): (&[&[u32]], &[Source<'_>]),
        mut each: impl FnMut(usize, States) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut run = self.start(program, texts, sources, None)?;
        let mut starts: Vec<(usize, usize)> =
            variants.iter().map(Program::first_difference).zip(0..).collect();
        starts.sort_unstable();
        let mut done = 0;
        for (start, number) in starts {
            let start = start.min(program.tail);
            self.pool.install(|| run.nodes(done..start))?;
            done = start;
            let mut variant = run.with_program(&variants[number]);
            self.pool.install(|| variant.nodes(start..program.tail))?;
            each(number, variant.end())?;
        }
        Ok(())
    }

    /// The beginning of a run over some texts.
    fn start<'p>(
        &self,
        program: &'p Program<'p>,
        texts: &[&[u32]],
        sources: &[Source<'_>],
        activations: Option<&'p mut Activations>,
    ) -> Result<Run<'p>> {
        check_sources(program, texts, sources)?;
        texts.iter().try_for_each(|text| program.check(text))?;
        let lengths = sources.iter().map(|source| program.check_source(source));
        let lengths = lengths.collect::<Result<Vec<usize>>>()?;
        let all = texts.iter().map(|text| text.len()).chain(lengths.iter().copied());
        let (longest, threads) = (all.max().unwrap_or(0) as u64, self.threads());
        self.check_memory(program.memory_of_states(texts.len() as u64, longest, threads))?;
        let sequences = [Sequence::of(texts), Sequence::of_sources(sources, &lengths)];
        Ok(Run {
            program,
            tiles: Tiles::new(self.options.isa),
            values: vec![None; program.graph().nodes().len()],
            arena: arena_for(program, &sequences),
            turns: Vec::new(),
            sequences,
            activations,
        })
    }

    pub(crate) fn check_memory(&self, needed: u64) -> Result<()> {
        if needed <= self.options.memory {
            return Ok(());
        }
        let [needed, allowed] = ByteSize::both(needed, self.options.memory);
        let message = format_args!("needs {needed} of memory, but {allowed} are allowed");
        Err(Error::new(ErrorKind::Memory, message))
    }

    /// The output for some tokens of a text: a row for each.
    ///
    /// Fails for weights that are not finite, and where the results, with the states, take more
    /// memory than is allowed.
    pub fn output(
        &self,
        program: &Program<'_>,
        states: &States,
        text: usize,
        tokens: Range<usize>,
    ) -> Result<Vec<f32>> {
        self.output_into(program, states, text, tokens, None)
    }

    /// The same, with the activations of matrices added up.
    pub(crate) fn output_into(
        &self,
        program: &Program<'_>,
        states: &States,
        text: usize,
        tokens: Range<usize>,
        activations: Option<&mut Activations>,
    ) -> Result<Vec<f32>> {
        let nodes = program.graph().nodes();
        let start = states.texts[text].start;
        let rows = start + tokens.start..start + tokens.end;
        let count = rows.len() as u64;
        let held = states.memory().saturating_add(TILES);
        self.check_memory(held.saturating_add(program.memory_of_output(count)))?;
        let mut arena = Arena::of(program.numbers_of_output().saturating_mul(count));
        let mut values = vec![None; nodes.len()];
        for (number, value) in states.values.iter().enumerate() {
            // What the end of the graph takes, for these tokens alone.
            if let Some(Data::Numbers(data)) = value {
                let width = nodes[number].extent.elements() as usize;
                let mut some = arena.take(rows.len() * width)?;
                some.copy_from_slice(&data[rows.start * width..rows.end * width]);
                values[number] = Some(Data::Numbers(Arc::new(some)));
            }
        }
        let mut run = Run {
            program,
            tiles: Tiles::new(self.options.isa),
            values,
            arena,
            turns: Vec::new(),
            sequences: Default::default(),
            activations,
        };
        self.pool.install(|| run.nodes(program.tail..nodes.len()))?;
        match run.values.swap_remove(program.graph().output()) {
            Some(Data::Numbers(data)) => Ok(Arc::unwrap_or_clone(data)),
            _ => Err(Error::new(ErrorKind::Graph, "the graph has no output")),
        }
    }
}

/// Each text has a source where the model takes one.
fn check_sources(program: &Program<'_>, texts: &[&[u32]], sources: &[Source<'_>]) -> Result<()> {
    let message = match (program.has_source(), sources) {
        (false, []) => return Ok(()),
        (false, _) => "the model takes one text, and no source",
        (true, []) => "the model takes a second text, the source, for each text",
        (true, _) if sources.len() != texts.len() => "expected one source for each text",
        (true, _) => return Ok(()),
    };
    Err(Error::new(ErrorKind::Source, message))
}

/// Room for the results of operations over these texts and their sources.
fn arena_for(program: &Program<'_>, sequences: &[Sequence; 2]) -> Arena {
    let tokens = sequences.iter().map(|sequence| sequence.positions.len()).max().unwrap_or(0);
    Arena::of(program.numbers().saturating_mul(tokens as u64))
}

struct Run<'p> {
    program: &'p Program<'p>,
    tiles: Tiles,
    values: Vec<Option<Data>>,
    arena: Arena,
    /// The turns of rotary positions that were computed last: all blocks usually have the same, or
    /// one of two.
    turns: Vec<(Rope, Arc<Turns>)>,
    /// The texts, and the sources of those.
    sequences: [Sequence; 2],
    activations: Option<&'p mut Activations>,
}

impl Run<'_> {
    /// The run so far, to be continued with another program of the same graph.
    fn with_program<'o>(&self, program: &'o Program<'o>) -> Run<'o> {
        Run {
            program,
            tiles: Tiles::new(self.tiles.isa),
            values: self.values.clone(),
            arena: arena_for(program, &self.sequences),
            turns: self.turns.clone(),
            sequences: self.sequences.clone(),
            activations: None,
        }
    }

    fn end(self) -> States {
        let [texts, _] = self.sequences;
        States { values: self.values, texts: texts.texts }
    }

    /// The texts that a node has its numbers for.
    fn sequence(&self, node: &Node) -> &Sequence {
        &self.sequences[usize::from(node.of_source)]
    }

    fn nodes(&mut self, range: Range<usize>) -> Result<()> {
        let nodes = self.program.graph().nodes();
        for number in range {
            let node = &nodes[number];
            let result = self.node(node, number)?;
            self.values[number] = Some(result);
            for &input in &node.inputs {
                if self.program.last_use[input] == number {
                    self.drop_value(input);
                }
            }
            if self.program.last_use[number] == number {
                self.drop_value(number);
            }
        }
        Ok(())
    }

    /// Adds up what a matrix is multiplied with, where that is asked for.
    fn activated(&mut self, matrix: usize, values: &[f32], places: Option<&[u32]>) -> Result<()> {
        let program = self.program;
        self.activations.as_mut().map_or(Ok(()), |all| all.add(program, matrix, values, places))
    }

    /// The same for a matrix for each part, unless all are one.
    fn activated_by_part(&mut self, matrix: usize, values: &[f32]) -> Result<()> {
        if self.activations.is_none() {
            return Ok(());
        }
        let columns = self.program.row_len(matrix).max(1);
        let heads = self.program.dimension(matrix, 2);
        if heads == 1 {
            return self.activated(matrix, values, None);
        }
        let places: Vec<u32> =
            (0..values.len() / columns).map(|row| (row % heads) as u32).collect();
        self.activated(matrix, values, Some(&places))
    }

    fn drop_value(&mut self, number: usize) {
        if let Some(Data::Numbers(data)) = self.values[number].take() {
            self.arena.put(data);
        }
    }

    /// The numbers of an operand.
    fn numbers(&self, node: &Node, input: usize) -> Result<Arc<Vec<f32>>> {
        match node.inputs.get(input).and_then(|&number| self.values[number].as_ref()) {
            Some(Data::Numbers(data)) => Ok(Arc::clone(data)),
            _ => Err(Error::new(ErrorKind::Graph, "an operand is missing")),
        }
    }

    fn places(&self, node: &Node, input: usize) -> Result<Arc<Vec<u32>>> {
        match node.inputs.get(input).and_then(|&number| self.values[number].as_ref()) {
            Some(Data::Places(data)) => Ok(Arc::clone(data)),
            _ => Err(Error::new(ErrorKind::Graph, "an operand is missing")),
        }
    }

    /// The numbers of the first operand to be changed: those themselves where this is their last
    /// use, else a copy.
    fn taken(&mut self, node: &Node, number: usize) -> Result<Vec<f32>> {
        self.taken_from(node, 0, number)
    }

    fn taken_from(&mut self, node: &Node, input: usize, number: usize) -> Result<Vec<f32>> {
        let data = self.numbers(node, input)?;
        let input = node.inputs[input];
        if self.program.last_use[input] == number {
            self.values[input] = None;
        }
        match Arc::try_unwrap(data) {
            Ok(values) => Ok(values),
            Err(shared) => {
                let mut values = self.arena.take(shared.len())?;
                values.copy_from_slice(&shared);
                self.arena.put(shared);
                Ok(values)
            }
        }
    }

    /// Room for the result of a node, for as many tokens as the first operand has.
    fn room(&mut self, node: &Node) -> Result<Vec<f32>> {
        let nodes = self.program.graph().nodes();
        let first = nodes[node.inputs[0]].extent.elements() as usize;
        let tokens = self.numbers(node, 0)?.len() / first.max(1);
        self.arena.take(tokens * node.extent.elements() as usize)
    }

    /// Two operands, of which one may have numbers that are for several of the other.
    fn arithmetic(&mut self, with: Arithmetic, node: &Node, number: usize) -> Result<Vec<f32>> {
        let nodes = self.program.graph().nodes();
        let sizes = [0, 1].map(|input| nodes[node.inputs[input]].extent.elements());
        let size = node.extent.elements();
        let is_free = |input: usize| self.program.last_use[node.inputs[input]] == number;
        // The operand that becomes the result.
        let base = usize::from(sizes[0] != size || sizes[1] == size && !is_free(0) && is_free(1));
        if sizes[base] != size {
            return Err(Error::new(ErrorKind::Graph, "no operand has the size of the result"));
        }
        let other = self.numbers(node, 1 - base)?;
        let mut values = self.taken_from(node, base, number)?;
        let repeat = (size / sizes[1 - base].max(1)) as usize;
        each::arithmetic(with, &mut values, &other, repeat, base == 1);
        Ok(values)
    }

    fn turns(&mut self, rope: &Rope, factors: Option<&[f32]>) -> Result<Arc<Turns>> {
        // The same serve for both directions.
        let mut rope = rope.clone();
        rope.back = false;
        if let Some((_, turns)) = self.turns.iter().find(|(known, _)| *known == rope) {
            return Ok(Arc::clone(turns));
        }
        if self.turns.len() >= TURNS {
            self.turns.remove(0);
        }
        let longest = self.sequences.iter().map(Sequence::longest).max().unwrap_or(0);
        let turns = Arc::new(Turns::of(&rope, factors, longest)?);
        self.turns.push((rope, Arc::clone(&turns)));
        Ok(turns)
    }

    fn node(&mut self, node: &Node, number: usize) -> Result<Data> {
        let program = self.program;
        let nodes = program.graph().nodes();
        let extent = node.extent;
        let of = |input: usize| nodes[node.inputs[input]].extent;
        let whole = |weight: Option<usize>| weight.map(|weight| program.whole(weight)).transpose();
        let isa = self.tiles.isa;
        let values = match node.operation {
            Operation::Rows { table, rows } => self.rows(node, table, rows)?,
            Operation::Linear { matrix, scale, bias } => {
                let values = self.numbers(node, 0)?;
                self.activated(matrix, &values, None)?;
                let mut out = self.room(node)?;
                program.linear(&mut self.tiles, &values, matrix, scale, bias, &mut out)?;
                out
            }
            Operation::ExpertLinear { matrix, scale, bias } => {
                let (values, places) = (self.numbers(node, 0)?, self.places(node, 1)?);
                self.activated(matrix, &values, Some(&places))?;
                let used = of(1).length as usize;
                let mut out =
                    self.arena.take(places.len() / used.max(1) * extent.elements() as usize)?;
                let weights = [Some(matrix), scale, bias];
                program.expert_linear(
                    &mut self.tiles,
                    &values,
                    &places,
                    used,
                    weights,
                    &mut out,
                )?;
                out
            }
            Operation::HeadLinear { matrix } => {
                let values = self.numbers(node, 0)?;
                self.activated_by_part(matrix, &values)?;
                let mut out = self.room(node)?;
                let heads = extent.parts.unwrap_or(1) as usize;
                program.head_linear(&mut self.tiles, &values, matrix, heads, &mut out)?;
                out
            }
            Operation::RmsNorm { weight, epsilon } => {
                let mut values = self.taken(node, number)?;
                each::rms_norm(&mut values, extent, whole(weight)?.as_deref(), epsilon);
                values
            }
            Operation::LayerNorm { weight, bias, epsilon } => {
                let mut values = self.taken(node, number)?;
                let (weight, bias) = (whole(weight)?, whole(bias)?);
                each::layer_norm(&mut values, extent, weight.as_deref(), bias.as_deref(), epsilon);
                values
            }
            Operation::Rope(ref rope) => {
                let turns = self.turns(rope, whole(rope.factors)?.as_deref())?;
                let mut values = self.taken(node, number)?;
                turns.rotate(&mut values, extent, rope, &self.sequence(node).positions);
                values
            }
            Operation::Attention(ref options) => self.attention(node, options)?,
            Operation::View => return self.numbers(node, 0).map(Data::Numbers),
            Operation::Part { .. }
            | Operation::Concat
            | Operation::Repeat { .. }
            | Operation::Total
            | Operation::Mix => self.rearranged(node)?,
            Operation::Apply(function) => {
                let mut values = self.taken(node, number)?;
                each::apply(isa, function, &mut values);
                values
            }
            Operation::Clamp { low, high } => {
                let mut values = self.taken(node, number)?;
                each::clamp(&mut values, low, high);
                values
            }
            Operation::Softmax => {
                let mut values = self.taken(node, number)?;
                each::softmax(isa, &mut values, extent);
                values
            }
            Operation::Top { .. } | Operation::Choice { .. } | Operation::Pick(_) => {
                return Ok(Data::Places(Arc::new(self.chosen(node)?)));
            }
            Operation::Constant(ref numbers) => {
                let mut out =
                    self.arena.take(numbers.len() * self.sequence(node).positions.len())?;
                out.chunks_exact_mut(numbers.len()).for_each(|row| row.copy_from_slice(numbers));
                out
            }
            Operation::Take => {
                let (values, places) = (self.numbers(node, 0)?, self.places(node, 1)?);
                let (width, count) = (of(0).length as usize, extent.length as usize);
                let mut out = self.room(node)?;
                each::take(&values, width, &places, count, &mut out);
                out
            }
            Operation::Normalize => {
                let mut values = self.taken(node, number)?;
                each::normalize(&mut values, extent);
                values
            }
            Operation::Sinkhorn { count, epsilon } => {
                let mut values = self.taken(node, number)?;
                each::sinkhorn(&mut values, extent, count, epsilon);
                values
            }
            Operation::L2Norm { epsilon } => {
                let mut values = self.taken(node, number)?;
                each::l2_norm(&mut values, extent, epsilon);
                values
            }
            Operation::TapsLinear { kernel, bias } => {
                let values = self.numbers(node, 0)?;
                let mut out = self.room(node)?;
                program.taps_linear(&mut self.tiles, &values, kernel, bias, &mut out)?;
                out
            }
            Operation::SourceVectors
            | Operation::IsToken { .. }
            | Operation::HashedRows(_)
            | Operation::ByPosition(_)
            | Operation::Shift { .. }
            | Operation::Pool { .. }
            | Operation::Convolution { .. }
            | Operation::Recurrence(_) => self.through_text(node, number)?,
            Operation::SwigluOai => {
                let other = self.numbers(node, 1)?;
                let mut values = self.taken(node, number)?;
                each::swiglu_oai(&mut values, &other);
                values
            }
            Operation::Arithmetic(with) => self.arithmetic(with, node, number)?,
            Operation::WithNumber { with, number: by, left } => {
                let mut values = self.taken(node, number)?;
                each::with_number(with, &mut values, by, left);
                values
            }
            Operation::WithWeight { with, weight, left } => {
                let mut values = self.taken(node, number)?;
                let dimensions = &program.graph().weights()[weight].dimensions;
                let weight = (&*program.whole(weight)?, &**dimensions);
                each::with_weight(with, &mut values, extent, weight, left);
                values
            }
            ref other => {
                let message = format!("unknown operation {other:?}");
                return Err(Error::new(ErrorKind::Graph, message));
            }
        };
        Ok(Data::Numbers(Arc::new(values)))
    }
}
