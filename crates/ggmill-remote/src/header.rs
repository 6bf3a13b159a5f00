//! Reading the header of a file: in few requests, each for more than the one before.

use std::io::Read;

use ggmill_core::{Decoder, Limits, Progress};

use crate::client::Client;
use crate::error::{Detail, Error, Result};
use crate::file::{Piece, RemoteFile};
use crate::location::Location;
use crate::target::{First, Known, Target, fill};

/// Bytes of the first request for a file whose header is wanted.
pub(crate) const FIRST: u64 = 512 << 10;
/// Bytes of the first request for a shard that is not the first: its header has its tensors and
/// little else.
pub(crate) const FIRST_OF_SHARD: u64 = 64 << 10;
/// Each request for more of a header is so many times as large as the one before …
const GROWTH: u64 = 4;
/// … and no larger than this.
const LARGEST: u64 = 8 << 20;

/// A file and the decoder that has been fed its header, or refused it.
pub(crate) struct HeaderRead {
    pub(crate) file: RemoteFile,
    pub(crate) decoder: Decoder,
    /// Whether the bytes came from the cache.
    pub(crate) was_known: bool,
}

/// Reads the header of a file. Fails when it cannot be read; what the decoder refuses, it says
/// again when it is asked for its result.
pub(crate) fn read(
    client: &Client,
    location: &Location,
    first: u64,
    known: Option<&Known>,
) -> Result<HeaderRead> {
    let First { target, bytes, mut stream, was_known } =
        Target::contact(client, location, first, known)?;
    let mut decoder = Decoder::new(Some(target.len()), &Limits::default());
    let mut piece = Piece { start: 0, bytes };
    let mut step = first;
    while let Ok(Progress::Needs(end)) = decoder.feed(&piece.bytes) {
        let position = decoder.position();
        let rest = target.len().saturating_sub(position);
        if end > target.len() || rest == 0 {
            // What is needed is not there, as the decoder will say.
            break;
        }
        step = step.saturating_mul(GROWTH).min(LARGEST);
        let wanted = usize::try_from(step.min(rest)).unwrap_or_default();
        piece = Piece { start: position, bytes: vec![0; wanted] };
        match &mut stream {
            Some(stream) => go_on(&target, stream, &mut piece)?,
            None => target.fetch(position, &mut piece.bytes)?,
        }
    }
    Ok(HeaderRead { file: RemoteFile::new(target, piece), decoder, was_known })
}

/// The next bytes from a server that sends the whole file.
fn go_on(target: &Target, stream: &mut dyn Read, piece: &mut Piece) -> Result<()> {
    let read = fill(stream, &mut piece.bytes);
    target.count(read);
    if read == piece.bytes.len() {
        return Ok(());
    }
    let at = piece.start.saturating_add(read as u64);
    let last = format!(
        "the connection was interrupted at byte {at}, and the server does not support ranges"
    );
    Err(Error::new(target.name(), Detail::Unavailable { attempts: 1, last: last.into() }))
}
