//! The decoder and the reader of whole files are one parser: however the bytes come, the answer is
//! the same.

use ggmill_core::{Decoder, Error, ErrorKind, Index, Limits, Progress, Subject};

/// The sizes of the pieces at most.
const MOST_SIZES: usize = 16;

/// Feeds a decoder in pieces and compares with the reader of the whole.
///
/// The first byte says which limits hold and how many of the next bytes are sizes of pieces,
/// repeated to the end of the file: 0 is "what the decoder asks for", 255 "all there is", others
/// are bytes. The file follows.
pub fn decoder_chunks(data: &[u8]) {
    let Some((&control, rest)) = data.split_first() else { return };
    let count = (usize::from(control) % MOST_SIZES).min(rest.len());
    let (sizes, file) = rest.split_at(count);
    let limits = limits(control);

    let whole = Index::parse(file, &limits).map_err(|error| told(&error));
    assert_eq!(in_pieces(file, Some(file.len() as u64), &limits, sizes), whole);

    // Without a length less can be refused, never more: of a file that opens the header is the
    // same.
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

/// What is promised of an error: its kind, its offset, its subject, its words.
type Told = (ErrorKind, Option<u64>, Option<(bool, Vec<u8>)>, String);

fn told(error: &Error) -> Told {
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
) -> Result<Index, Told> {
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
        match decoder.feed(piece).map_err(|error| told(&error))? {
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
    decoder.finish().map(|model| model.into_parts().0).map_err(|error| told(&error))
}
