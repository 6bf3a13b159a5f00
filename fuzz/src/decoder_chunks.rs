//! The decoder and the reader of whole files give the same result, however the bytes arrive.

use std::sync::atomic::{AtomicUsize, Ordering};

use ggmill_core::{Decoder, Error, ErrorKind, Header, Limits, Progress, ReadAt, Subject};

/// The largest number of piece sizes.
const MAX_SIZES: usize = 16;

/// Feeds a decoder in pieces and compares the result with that of the reader.
///
/// The first byte selects the limits and the number of following bytes that are piece sizes, which
/// repeat to the end of the file: 0 is the size that the decoder asks for, 255 the rest of the file,
/// others are bytes. The file follows.
pub fn decoder_chunks(data: &[u8]) {
    let Some((&control, rest)) = data.split_first() else { return };
    let count = (usize::from(control) % MAX_SIZES).min(rest.len());
    let (sizes, file) = rest.split_at(count);
    let limits = limits(control);

    let whole = Header::parse_with(file, &limits).map_err(|error| reported(&error));
    assert_eq!(in_pieces(file, Some(file.len() as u64), &limits, sizes), whole);

    assert_eq!(from_a_faulty_source(file, &limits, sizes), whole);

    // Without a length fewer files are refused, never more, and the header of a file that opens is
    // equal.
    let unknown = in_pieces(file, None, &limits, sizes);
    match (whole, unknown) {
        (Ok(whole), Ok(unknown)) => {
            assert_eq!(
                (whole.header_len(), whole.data_offset()),
                (unknown.header_len(), unknown.data_offset())
            );
        }
        (Ok(_), Err(told)) => panic!("refused without its length only: {told:?}"),
        (Err(_), _) => {}
    }
}

/// A source with transient errors, as a server has: read number n fails if the nth byte of the
/// input, repeated, is odd, but never twice in a row.
#[derive(Debug)]
struct Faulty<'a> {
    file: &'a [u8],
    faults: &'a [u8],
    reads: AtomicUsize,
}

/// The largest read.
const MAX_READ: usize = 256 << 10;

impl ReadAt for Faulty<'_> {
    fn len(&self) -> u64 {
        self.file.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        assert!(out.len() <= MAX_READ, "{} bytes at once", out.len());
        assert!(offset + out.len() as u64 <= ReadAt::len(self), "reads beyond the end");
        let number = self.reads.fetch_add(1, Ordering::Relaxed);
        let fault = self.faults.get(number / 2 % self.faults.len().max(1)).copied().unwrap_or(0);
        if number.is_multiple_of(2) && fault % 2 == 1 {
            return Err(Error::caused(ErrorKind::Io, std::io::Error::other("broke off")));
        }
        self.file.read_at(offset, out)
    }
}

/// Decodes from a source with transient errors: a decoder continues where it was.
fn from_a_faulty_source(
    file: &[u8],
    limits: &Limits,
    faults: &[u8],
) -> Result<Header<'static>, Reported> {
    let source = Faulty { file, faults, reads: AtomicUsize::new(0) };
    let mut decoder = Decoder::new(Some(file.len() as u64), limits);
    let mut position = 0;
    loop {
        match decoder.feed_from(&source) {
            Err(error) if error.kind() == ErrorKind::Io => {
                assert!(decoder.position() >= position, "goes back");
                position = decoder.position();
            }
            Err(error) => return Err(reported(&error)),
            Ok(()) => break,
        }
    }
    decoder.finish().map_err(|error| reported(&error))
}

fn limits(control: u8) -> Limits {
    match control / 16 % 4 {
        0 | 1 => Limits::default(),
        2 => Limits::default().with_dimensions(8).with_array_depth(64),
        _ => Limits::default()
            .with_entries(4)
            .with_tensors(3)
            .with_string_bytes(12)
            .with_array_elements(5)
            .with_array_depth(1)
            .with_dimensions(2)
            .with_alignment(64)
            .with_header_bytes(200),
    }
}

/// The guaranteed parts of an error: its kind, offset, subject and message.
type Reported = (ErrorKind, Option<u64>, Option<(bool, Vec<u8>)>, String);

fn reported(error: &Error) -> Reported {
    let subject = match error.subject() {
        None => None,
        Some(Subject::Key(key)) => Some((true, key.as_bytes().to_vec())),
        Some(Subject::Tensor(name)) => Some((false, name.as_bytes().to_vec())),
        Some(other) => unreachable!("{other:?}"),
    };
    (error.kind(), error.offset(), subject, error.to_string())
}

fn in_pieces(
    file: &[u8],
    file_len: Option<u64>,
    limits: &Limits,
    sizes: &[u8],
) -> Result<Header<'static>, Reported> {
    let mut decoder = Decoder::new(file_len, limits);
    let mut rest = file;
    let mut asked = 0;
    let mut sizes = sizes.iter().copied().cycle();
    loop {
        let size = match sizes.next() {
            None | Some(255) => rest.len(),
            Some(0) => usize::try_from(asked).unwrap_or(usize::MAX).clamp(1, rest.len().max(1)),
            Some(size) => usize::from(size),
        };
        let (piece, behind) = rest.split_at(size.min(rest.len()));
        rest = behind;
        match decoder.feed(piece).map_err(|error| reported(&error))? {
            Progress::Complete => break,
            Progress::Needs(end) => {
                assert!(end > decoder.position(), "asks for what it has");
                assert!(
                    file_len.is_none_or(|len| end <= len),
                    "asks for byte {end} of {file_len:?}"
                );
                assert!(end <= limits.header_bytes, "asks for more than the limit");
                if rest.is_empty() {
                    break;
                }
                asked = end - decoder.position();
            }
        }
    }
    decoder.finish().map_err(|error| reported(&error))
}
