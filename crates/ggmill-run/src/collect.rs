//! Running a model over a text for the activations of its matrices.

use crate::activations::{Activations, Matrices};
use crate::error::{Error, ErrorKind, Result};
use crate::measure::Divided;
use crate::program::Program;
use crate::run::Runner;

/// Runs a model over chunks of a text, and adds up what each of these matrices is multiplied with.
/// `watch` is called with the sums so far and the number of chunks that are done, after each group
/// of chunks that were run together; what it returns as an error ends the run.
///
/// A model that takes two texts has the first half of each chunk, and the token after it, as its source.
///
/// Sums of different chunks can be added to those of all of them.
///
/// Fails for chunks of fewer than [`Activations::LEAST`] tokens, for activations that are not
/// finite, for a file that changed while it was read, and as [`Runner::states`] does.
pub fn activations<E: From<Error>>(
    runner: &Runner,
    program: &Program<'_>,
    chunks: &[Vec<u32>],
    matrices: Matrices,
    mut watch: impl FnMut(&Activations, usize) -> Result<(), E>,
) -> Result<Activations, E> {
    let mut found = Activations::new(matrices);
    let shortest = chunks.iter().map(Vec::len).min().unwrap_or(0);
    if shortest < Activations::LEAST {
        let message =
            format!("chunks of {shortest} tokens, expected at least {}", Activations::LEAST);
        return Err(Error::new(ErrorKind::TooShort, message).into());
    }
    let longest = chunks.iter().map(Vec::len).max().unwrap_or(0);
    let outputs = if matrices.need_output() { longest as u64 } else { 0 };
    let at_once = runner.texts_with(program, longest as u64, outputs)?;
    let mut done = 0;
    for texts in chunks.chunks(at_once) {
        let divided = Divided::of(program, texts)?;
        let (tokens, sources) = (divided.texts(), divided.sources());
        let states = runner.states_into(program, &tokens, sources, Some(&mut found))?;
        if matrices.need_output() {
            for (number, text) in tokens.iter().enumerate() {
                runner.output_into(program, &states, number, 0..text.len(), Some(&mut found))?;
            }
        }
        done += texts.len();
        program.verify()?;
        watch(&found, done)?;
    }
    Ok(found)
}
