//! Runs programs on texts, node by node, all texts at once.

mod operations;

use core::ops::Range;
use std::sync::Arc;

use ggmill_arch::graph::{Node, Rope};
use ggmill_core::ByteSize;
use ggmill_quant::Isa;
use rayon::ThreadPool;

use crate::error::{Error, ErrorKind, Result, try_zeros};
use crate::input::Source;
use crate::matrix::Tiles;
use crate::program::{Program, TILE_BYTES};
use crate::sequence::RopeTable;

/// Options for running models. Results do not depend on them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The number of threads; `None` for one per core.
    pub threads: Option<usize>,
    /// The approximate memory limit for the results of operations including the output, in bytes. It
    /// limits the number of texts that are run at once.
    pub memory: u64,
    /// The instruction set; by default the best that the machine has.
    pub isa: Isa,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: None, memory: 2 << 30, isa: Isa::best() }
    }
}

impl Options {
    /// Sets the number of threads.
    #[must_use]
    pub fn with_threads(self, threads: Option<usize>) -> Self {
        Self { threads, ..self }
    }

    /// Sets the memory limit, in bytes.
    #[must_use]
    pub fn with_memory(self, memory: u64) -> Self {
        Self { memory, ..self }
    }

    /// Sets the instruction set.
    #[must_use]
    pub fn with_isa(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }
}

/// A thread pool that runs programs.
#[derive(Debug)]
pub struct Runner {
    pool: ThreadPool,
    options: Options,
}

/// The hidden states of some texts after all blocks, from which the output of any token can be computed.
#[derive(Debug)]
pub struct States {
    values: Vec<Option<Data>>,
    texts: Vec<Range<usize>>,
}

/// An observer of the inputs of each matrix.
pub(crate) trait Observer: Send {
    /// Takes the inputs of a matrix, the result of node `operand`. `experts` has the selected experts of each
    /// token, for a tensor with a matrix per expert.
    fn observe(
        &mut self,
        program: &Program<'_>,
        matrix: usize,
        operand: usize,
        values: &[f32],
        experts: Option<&[u32]>,
    ) -> Result<()>;
}

/// The result of a node for all tokens: elements, or indices of experts or tokens.
#[derive(Clone, Debug)]
enum Data {
    Numbers(Arc<Vec<f32>>),
    Indices(Arc<Vec<u32>>),
}

impl States {
    /// Returns the number of texts.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Returns the size in memory, in bytes.
    fn memory(&self) -> u64 {
        let numbers = self.values.iter().flatten().map(|data| match data {
            Data::Numbers(values) => values.len() as u64,
            Data::Indices(indices) => indices.len() as u64,
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

    /// Runs `work` in the thread pool.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> u64 {
        self.pool.current_num_threads() as u64
    }

    /// Returns the number of texts of this length that can be run at once, at least one. Fails if the
    /// memory limit is too small for one text and the output of all its tokens.
    pub fn texts_at_once(&self, program: &Program<'_>, length: u64) -> Result<usize> {
        self.texts_with_outputs(program, length, length)
    }

    /// Like [`texts_at_once`](Self::texts_at_once), but with the output of only `outputs` tokens.
    pub(crate) fn texts_with_outputs(
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

    /// Returns the maximum number of texts for which `needed` bytes are within the memory limit.
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

    /// Runs all blocks of a model on some texts. Each weight is read once.
    ///
    /// Fails for tokens outside the vocabulary, for non-finite weights, and if the results exceed the
    /// memory limit.
    pub fn states(&self, program: &Program<'_>, texts: &[&[u32]]) -> Result<States> {
        self.states_observed(program, texts, &[], None)
    }

    /// Like [`states`](Self::states), for a model with an encoder and a decoder: `sources` has the source
    /// of each text.
    ///
    /// Also fails for a model that takes no source, for a text without a source, and for a source of the
    /// wrong kind (tokens, or vectors of finite numbers).
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
        self.states_observed(program, texts, sources, None)
    }

    /// Like [`states_with_sources`](Self::states_with_sources), and shows the inputs of matrices to an observer.
    pub(crate) fn states_observed(
        &self,
        program: &Program<'_>,
        texts: &[&[u32]],
        sources: &[Source<'_>],
        observer: Option<&mut dyn Observer>,
    ) -> Result<States> {
        let mut run = self.start(program, texts, sources, observer)?;
        self.pool.install(|| run.nodes(0..program.tail))?;
        Ok(run.into_states())
    }

    /// Runs all blocks of a program, and of variants that differ from it in one weight. A variant starts at
    /// the first operation that uses the weight, because earlier results are identical. `each` is called
    /// with the index of the variant and its states.
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
            each(number, variant.into_states())?;
        }
        Ok(())
    }

    /// Starts a run over some texts.
    pub(crate) fn start<'p, 'o>(
        &self,
        program: &'p Program<'p>,
        texts: &[&[u32]],
        sources: &[Source<'_>],
        observer: Option<&'o mut dyn Observer>,
    ) -> Result<Run<'p, 'o>> {
        check_sources(program, texts, sources)?;
        texts.iter().try_for_each(|text| program.check(text))?;
        let lengths = sources.iter().map(|source| program.check_source(source));
        let lengths = lengths.collect::<Result<Vec<usize>>>()?;
        let all = texts.iter().map(|text| text.len()).chain(lengths.iter().copied());
        let (longest, threads) = (all.max().unwrap_or(0) as u64, self.threads());
        self.check_memory(program.memory_of_states(texts.len() as u64, longest, threads))?;
        let sequences = [Sequence::of_texts(texts), Sequence::of_sources(sources, &lengths)];
        Ok(Run {
            program,
            tiles: Tiles::new(self.options.isa),
            values: vec![None; program.graph().nodes().len()],
            arena: arena_for(program, &sequences),
            rope_tables: Vec::new(),
            sequences,
            observer,
        })
    }

    /// Fails if `needed` bytes exceed the memory limit.
    pub(crate) fn check_memory(&self, needed: u64) -> Result<()> {
        if needed <= self.options.memory {
            return Ok(());
        }
        let [needed, allowed] = ByteSize::both(needed, self.options.memory);
        let message = format_args!("needs {needed} of memory, but {allowed} are allowed");
        Err(Error::new(ErrorKind::Memory, message))
    }

    /// Computes the output for some tokens of a text: one row per token.
    ///
    /// Fails for non-finite weights, and if the results and the states exceed the memory limit.
    pub fn output(
        &self,
        program: &Program<'_>,
        states: &States,
        text: usize,
        tokens: Range<usize>,
    ) -> Result<Vec<f32>> {
        self.output_observed(program, states, text, tokens, None)
    }

    /// Like [`output`](Self::output), and shows the inputs of matrices to an observer.
    pub(crate) fn output_observed(
        &self,
        program: &Program<'_>,
        states: &States,
        text: usize,
        tokens: Range<usize>,
        observer: Option<&mut dyn Observer>,
    ) -> Result<Vec<f32>> {
        let nodes = program.graph().nodes();
        let start = states.texts[text].start;
        let rows = start + tokens.start..start + tokens.end;
        let count = rows.len() as u64;
        let held = states.memory().saturating_add(TILE_BYTES);
        self.check_memory(held.saturating_add(program.memory_of_output(count)))?;
        let mut arena = Arena::with_capacity(program.peak_output_elements().saturating_mul(count));
        let mut values = vec![None; nodes.len()];
        for (number, value) in states.values.iter().enumerate() {
            // Only the rows of these tokens.
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
            rope_tables: Vec::new(),
            sequences: Default::default(),
            observer,
        };
        self.pool.install(|| run.nodes(program.tail..nodes.len()))?;
        match run.values.swap_remove(program.graph().output()) {
            Some(Data::Numbers(data)) => Ok(Arc::unwrap_or_clone(data)),
            _ => Err(Error::new(ErrorKind::Graph, "the graph has no output")),
        }
    }
}

/// Fails unless each text has a source if the model takes sources, and none otherwise.
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

/// Returns an arena for the results of operations over these texts and their sources.
fn arena_for(program: &Program<'_>, sequences: &[Sequence; 2]) -> Arena {
    let tokens = sequences.iter().map(|sequence| sequence.positions.len()).max().unwrap_or(0);
    Arena::with_capacity(program.peak_elements().saturating_mul(tokens as u64))
}

/// The state of a run: the results of nodes that are still needed, and buffers.
pub(crate) struct Run<'p, 'o> {
    program: &'p Program<'p>,
    tiles: Tiles,
    values: Vec<Option<Data>>,
    arena: Arena,
    /// The most recent rotation tables: blocks usually share one or two.
    rope_tables: Vec<(Rope, Arc<RopeTable>)>,
    /// The texts and their sources, in this order.
    sequences: [Sequence; 2],
    observer: Option<&'o mut dyn Observer>,
}

impl Run<'_, '_> {
    /// Returns a copy of the run that continues with another program with the same graph.
    fn with_program<'p>(&self, program: &'p Program<'p>) -> Run<'p, 'static> {
        Run {
            program,
            tiles: Tiles::new(self.tiles.isa),
            values: self.values.clone(),
            arena: arena_for(program, &self.sequences),
            rope_tables: self.rope_tables.clone(),
            sequences: self.sequences.clone(),
            observer: None,
        }
    }

    fn into_states(self) -> States {
        let [texts, _] = self.sequences;
        States { values: self.values, texts: texts.texts }
    }

    /// Returns the sequence that a node computes on: the texts or the sources.
    fn sequence(&self, node: &Node) -> &Sequence {
        &self.sequences[usize::from(node.of_source)]
    }

    /// Computes a range of nodes, and frees results after their last use.
    fn nodes(&mut self, mut range: Range<usize>) -> Result<()> {
        range.try_for_each(|number| self.step(self.program, number))
    }

    /// Computes a node with the weights of `program`, which has the graph of the run, and frees results
    /// after their last use.
    pub(crate) fn step(&mut self, program: &Program<'_>, number: usize) -> Result<()> {
        let node = &program.graph().nodes()[number];
        let result = self.node(program, node, number)?;
        self.values[number] = Some(result);
        for &input in &node.inputs {
            if program.last_use[input] == number {
                self.drop_value(input);
            }
        }
        if program.last_use[number] == number {
            self.drop_value(number);
        }
        Ok(())
    }

    /// Returns the number of texts.
    pub(crate) fn texts(&self) -> usize {
        self.sequences[0].texts.len()
    }

    /// Returns the elements of the result of node `number`, which a later node uses.
    pub(crate) fn result(&self, number: usize) -> Result<Arc<Vec<f32>>> {
        match &self.values[number] {
            Some(Data::Numbers(data)) => Ok(Arc::clone(data)),
            _ => Err(Error::new(ErrorKind::Graph, "a result is missing")),
        }
    }
}

/// Concatenated texts or sources, as tokens or as vectors.
#[derive(Clone, Debug, Default)]
struct Sequence {
    texts: Vec<Range<usize>>,
    /// Empty if the texts are vectors.
    tokens: Vec<u32>,
    vectors: Vec<f32>,
    /// The position of each token or vector in its text.
    positions: Vec<u32>,
}

impl Sequence {
    fn of_texts(texts: &[&[u32]]) -> Self {
        let mut sequence = Self::default();
        for text in texts {
            sequence.push(text.len());
            sequence.tokens.extend_from_slice(text);
        }
        sequence
    }

    /// Concatenates sources; `lengths` are their numbers of tokens or vectors.
    fn of_sources(sources: &[Source<'_>], lengths: &[usize]) -> Self {
        let mut sequence = Self::default();
        for (source, &length) in sources.iter().zip(lengths) {
            sequence.push(length);
            match source {
                Source::Tokens(tokens) => sequence.tokens.extend_from_slice(tokens),
                Source::Vectors(numbers) => sequence.vectors.extend_from_slice(numbers),
            }
        }
        sequence
    }

    /// Adds a text of `len` tokens or vectors.
    fn push(&mut self, len: usize) {
        let start = self.positions.len();
        self.texts.push(start..start + len);
        self.positions.extend((0u32..).take(len));
    }

    fn longest(&self) -> usize {
        self.texts.iter().map(ExactSizeIterator::len).max().unwrap_or(0)
    }
}

/// A pool of buffers for the results of operations. Allocating fresh memory from the system can take as
/// long as an operation.
#[derive(Debug, Default)]
struct Arena {
    free: Vec<Vec<f32>>,
    /// The total length of all buffers, free or in use, in elements.
    allocated: u64,
    capacity: u64,
}

impl Arena {
    /// Returns an arena that drops free buffers to keep the total length within `capacity` elements.
    fn with_capacity(capacity: u64) -> Self {
        Self { free: Vec::new(), allocated: 0, capacity }
    }

    /// Returns a buffer of `len` elements with arbitrary content.
    fn take(&mut self, len: usize) -> Result<Vec<f32>> {
        if let Some(place) = self.free.iter().position(|free| free.len() == len) {
            return Ok(self.free.swap_remove(place));
        }
        while self.allocated.saturating_add(len as u64) > self.capacity {
            let Some(free) = self.free.pop() else { break };
            self.allocated = self.allocated.saturating_sub(free.len() as u64);
        }
        self.allocated = self.allocated.saturating_add(len as u64);
        try_zeros(len)
    }

    /// Returns a buffer to the arena if nothing else refers to it.
    fn put(&mut self, values: Arc<Vec<f32>>) {
        if let Ok(values) = Arc::try_unwrap(values) {
            self.free.push(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_return_and_the_limit_holds() {
        let mut arena = Arena::with_capacity(100);
        let (a, b) = (arena.take(40).unwrap(), arena.take(60).unwrap());
        let (at, kept) = (a.as_ptr(), Arc::new(b));
        arena.put(Arc::new(a));
        arena.put(Arc::clone(&kept));
        assert_eq!((arena.free.len(), arena.allocated), (1, 100));
        let again = arena.take(40).unwrap();
        assert_eq!((again.as_ptr(), arena.allocated), (at, 100));
        arena.put(Arc::new(again));
        // The limit does not allow a third buffer, so the free one is dropped.
        assert_eq!((arena.take(30).unwrap().len(), arena.free.len(), arena.allocated), (30, 0, 90));
    }
}
