//! Any journal next to any file: the length of the file in two bytes, the file, the journal.
//! Checksums, which a fuzzer cannot guess, are filled in.

use ggmill_core::Header;
use ggmill_io::{InPlace, journal_path, pending_journal};
use xxhash_rust::xxh64::xxh64;

use crate::scratch::scratch;

/// Offsets in a journal: the number of replaced bytes, and their checksum.
const KEPT_FROM: usize = 24;
const BEFORE: usize = 32;

/// Recovers. A refused file is unchanged, and a recovered one needs no second recovery.
pub fn journal(data: &[u8]) {
    let Some((len, rest)) = data.split_first_chunk() else { return };
    let (file, journal) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    let mut journal = journal.to_vec();
    let kept_from = journal
        .get(KEPT_FROM..KEPT_FROM + 8)
        .and_then(|bytes| usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok());
    if let Some(header) = kept_from.and_then(|end| file.get(..end))
        && let Some(place) = journal.get_mut(BEFORE..BEFORE + 8)
        && place == [0; 8]
    {
        place.copy_from_slice(&xxh64(header, 0).to_le_bytes());
    }
    let sum = xxh64(&journal, 0);
    journal.extend_from_slice(&sum.to_le_bytes());

    let path = scratch("edited.gguf", file);
    std::fs::write(journal_path(&path), &journal).expect("beside the file");
    let now = || std::fs::read(&path).expect("still there");
    assert!(InPlace::open(&path).is_err() && now() == file, "a file with a journal is not edited");
    match InPlace::recover(&path) {
        Ok(recovery) => {
            assert!(pending_journal(&path).is_none(), "{recovery:?}: the journal is done with");
            let recovered = now();
            assert!(
                recovered == file || Header::parse(recovered.as_slice()).is_ok(),
                "{recovery:?}: what is made is a model file"
            );
            drop(InPlace::open(&path).expect("as before"));
            assert!(now() == recovered, "{recovery:?}: once is enough");
        }
        Err(error) => {
            assert!(now() == file, "{error}: what is refused is untouched");
            std::fs::remove_file(journal_path(&path)).expect("a refused journal stays");
        }
    }
}
