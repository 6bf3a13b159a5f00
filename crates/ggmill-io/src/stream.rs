//! Models that come in by a pipe: bytes one after the other, and no way back.

use std::io::{self, Read};

use ggmill_core::{Decoder, Limits, Model, Progress};

/// Bytes of the beginning that are kept: enough to tell what a file of another format is.
const BEGINNING: usize = 4096;

/// The result of reading a stream.
#[derive(Debug)]
#[non_exhaustive]
pub struct Streamed {
    /// The model, whose tensor data cannot be read, or why it was refused.
    pub model: ggmill_core::Result<Model>,
    /// The first bytes, up to 4096: they tell what a stream is that is not GGUF.
    pub beginning: Vec<u8>,
}

/// Reads just the header. `len` is the length of the whole, where it is known. Fails when the
/// stream cannot be read.
///
/// ```
/// let bytes = ggmill_core::Builder::new().plan()?.header().to_vec();
/// let model = ggmill_io::open_stream(&bytes[..], None)?.model?;
/// assert_eq!(model.index().version(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_stream(mut input: impl Read, len: Option<u64>) -> io::Result<Streamed> {
    let mut decoder = Decoder::new(len, &Limits::default());
    let mut beginning = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let header = loop {
        let bytes = read(&mut input, &mut buffer)?;
        beginning.extend(bytes.iter().take(BEGINNING.saturating_sub(beginning.len())));
        match decoder.feed(bytes) {
            Ok(Progress::Needs(_)) if !bytes.is_empty() => {}
            Ok(_) => break decoder.finish(),
            Err(error) => break Err(error),
        }
    };
    Ok(Streamed { model: header.map(|header| Model::from_header(header, Vec::new())), beginning })
}

/// Reads the stream to its end, keeps the header and counts the rest, so that data beyond the end
/// are found: [`salvage`](crate::salvage) for a stream.
pub fn salvage_stream(mut input: impl Read) -> io::Result<Streamed> {
    let mut decoder = Decoder::new(None, &Limits::default());
    let mut buffer = vec![0; 64 << 10];
    let (mut kept, mut len, mut reading) = (Vec::new(), 0u64, true);
    loop {
        let bytes = read(&mut input, &mut buffer)?;
        if bytes.is_empty() {
            break;
        }
        len = len.saturating_add(bytes.len() as u64);
        if reading {
            kept.extend_from_slice(bytes);
            reading = matches!(decoder.feed(bytes), Ok(Progress::Needs(_)));
        }
    }
    // Once more, with the length of the whole to hold counts and places against.
    let mut decoder = Decoder::new(Some(len), &Limits::default());
    let _ = decoder.feed(&kept);
    kept.truncate(BEGINNING);
    let model = decoder.salvage().map(|(header, faults)| Model::from_header(header, faults));
    Ok(Streamed { model, beginning: kept })
}

/// The next bytes; none at the end.
fn read<'a>(input: &mut impl Read, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    loop {
        match input.read(buffer) {
            Ok(read) => return Ok(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
