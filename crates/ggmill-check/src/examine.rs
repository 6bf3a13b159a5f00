//! The data of all tensors of a file, read once and in parallel.

use ggmill_core::{Part, ReadAt as _};
use ggmill_pipeline::{Error, ErrorKind, Progress, Report, Result, RunOptions};

use crate::data::{DataFacts, DataPiece, data_pieces};

/// Pieces that one thread examines, one after another.
const BATCH: usize = 16;
/// Batches for each thread between two reports of progress, where threads wait for the last of
/// them: about a tenth of a second.
const AHEAD: usize = 16;

/// Reads the data of every tensor of a file and says what they hold, for
/// [`Input::with_data`](crate::Input::with_data).
///
/// `options` say how many threads are used; what is found does not depend on them, and memory is
/// bounded. `progress` is told how many bytes have been read. Fails as reading does, when the file
/// changes meanwhile or an edit of it was interrupted ([`ErrorKind::Changed`]), and when `progress`
/// stops it.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, Model, Shape};
/// # let plan = Builder::new().tensor("w", GgmlType::F32, Shape::new(&[8])?).plan()?;
/// # let file = [plan.header(), &[0xff; 32]].concat();
/// use std::ops::ControlFlow;
/// use ggmill_check::{Input, Options, check, examine};
/// use ggmill_pipeline::RunOptions;
/// let model = Model::salvage(file)?;
/// let part = &model.parts()[0];
/// let facts = examine(part, &RunOptions::default(), &mut |_| ControlFlow::Continue(()))?;
/// let report = check(&Input::new(part).with_data(&facts), &Options::default());
/// assert!(report.counts().iter().any(|(rule, _)| rule.code == "GG2101"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn examine(part: &Part, options: &RunOptions, progress: &mut Report<'_>) -> Result<DataFacts> {
    part.verify()?;
    let pieces: Vec<DataPiece> = data_pieces(part).collect();
    if let Some(source) = part.source() {
        let ends = |piece: &DataPiece| piece.offset()..piece.offset() + piece.len() as u64;
        source.prefetch(&pieces.iter().map(ends).collect::<Vec<_>>());
    }
    let batches: Vec<&[DataPiece]> = pieces.chunks(BATCH).collect();
    let bytes = |pieces: &[DataPiece]| pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    let (mut done, total) = (0, bytes(&pieces));
    let workers = options.workers()?;
    let mut all = DataFacts::default();
    for window in batches.chunks(AHEAD * workers.threads()) {
        for facts in workers.map(window, |pieces| examine_pieces(part, pieces)) {
            all.merge(facts?);
        }
        done += window.iter().map(|pieces| bytes(pieces)).sum::<u64>();
        let last = window.last().and_then(|pieces| pieces.last());
        let name = last
            .and_then(|piece| part.tensors().nth(piece.tensor()))
            .map(|tensor| tensor.name().to_string())
            .unwrap_or_default();
        if progress(Progress::new(&name, done, total)).is_break() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
    }
    // What was read of a file that changed meanwhile may be half of each.
    part.verify()?;
    Ok(all)
}

/// A piece fits the cache of a core, so what was just read is still there.
fn examine_pieces(part: &Part, pieces: &[DataPiece]) -> Result<DataFacts> {
    let (mut facts, mut buffer) = (DataFacts::default(), Vec::new());
    for piece in pieces {
        buffer.resize(piece.len(), 0);
        part.read_at(piece.offset(), &mut buffer)?;
        facts.add(piece.examine(&buffer));
    }
    Ok(facts)
}
