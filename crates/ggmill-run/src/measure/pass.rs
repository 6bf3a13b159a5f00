//! One pass of several models over a text, beside a base that is computed once.

use super::Chunks;
use super::divided::{Divided, Wanted};
use crate::error::{Error, Result};
use crate::program::Program;
use crate::run::{Runner, States};

/// Models over the chunks of a text.
pub(super) struct Pass<'a, 'm> {
    pub(super) runner: &'a Runner,
    pub(super) programs: &'a [&'a Program<'m>],
    pub(super) base: Option<&'a Program<'m>>,
    pub(super) chunks: &'a Chunks,
    /// Which outputs of each chunk are computed, of the models and of the base.
    pub(super) wanted: Wanted,
    pub(super) base_wanted: Wanted,
}

/// The output of one model for one chunk.
pub(super) struct Outputs<'a> {
    pub(super) program: usize,
    pub(super) chunk: usize,
    /// The tokens of the chunk.
    pub(super) tokens: &'a [u32],
    pub(super) rows: &'a [f32],
    /// That of the base, where there is one.
    pub(super) base: Option<&'a [f32]>,
}

impl Pass<'_, '_> {
    /// Calls `each` for every chunk and model, all models of a chunk one after the other.
    ///
    /// The base is the one after the last model in [`Error::program`].
    pub(super) fn run<E: From<Error>>(
        &self,
        mut each: impl FnMut(&Outputs<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let at_once = self.texts_at_once()?;
        let of_base = self.programs.len();
        for (group, texts) in self.chunks.texts().chunks(at_once).enumerate() {
            let states = |number: usize, program: &Program<'_>| {
                let of = Divided::of(program, texts).and_then(|divided| {
                    let (texts, sources) = (divided.texts(), divided.sources());
                    self.runner.states_into(program, &texts, sources, None)
                });
                of.map_err(|error| error.of_program(number))
            };
            let base = match self.base {
                Some(base) => Some((base, states(of_base, base)?)),
                None => None,
            };
            let programs = self.programs.iter().enumerate();
            let held: Result<Vec<States>> =
                programs.map(|(number, program)| states(number, program)).collect();
            let held = held?;
            for (number, tokens) in texts.iter().enumerate() {
                let output = |of: usize, program: &Program<'_>, states: &States, wanted| {
                    let rows = program.places_of(self.chunks, wanted);
                    let output = self.runner.output(program, states, number, rows);
                    output.map_err(|error| error.of_program(of))
                };
                let theirs = match &base {
                    Some((base, states)) => Some(output(of_base, base, states, self.base_wanted)?),
                    None => None,
                };
                for (program, states) in held.iter().enumerate() {
                    let rows = output(program, self.programs[program], states, self.wanted)?;
                    let chunk = group * at_once + number;
                    let base = theirs.as_deref();
                    each(&Outputs { program, chunk, tokens, rows: &rows, base })?;
                }
            }
        }
        for (number, program) in self.programs.iter().copied().chain(self.base).enumerate() {
            program.verify().map_err(|error| error.of_program(number))?;
        }
        Ok(())
    }

    /// How many chunks are run together. While one model works, what is left of all others is held,
    /// and then the output of the base and of one model for a chunk.
    fn texts_at_once(&self) -> Result<usize> {
        let (length, threads) = (self.chunks.context() as u64, self.runner.threads());
        let all = || self.programs.iter().copied().chain(self.base);
        let of_output = |program: &Program<'_>, wanted| {
            program.memory_of_output(program.places_of(self.chunks, wanted).len() as u64)
        };
        let outputs = self.programs.iter().map(|program| of_output(program, self.wanted)).max();
        let outputs = outputs.unwrap_or(0);
        let of_base = self.base.map_or(0, |base| of_output(base, self.base_wanted));
        let outputs = outputs.saturating_add(of_base);
        self.runner.texts_within(length, &|texts| {
            let working = all().map(|program| program.memory_of_states(texts, length, threads));
            let tokens = texts.saturating_mul(length);
            let kept: Vec<u64> = all().map(|program| program.memory_kept(tokens)).collect();
            let others = kept.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
            let others = others - kept.iter().min().copied().unwrap_or(0).min(others);
            working.max().unwrap_or(0).saturating_add(others).saturating_add(outputs)
        })
    }
}
