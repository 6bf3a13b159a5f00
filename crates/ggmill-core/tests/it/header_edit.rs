//! New headers for a file whose tensors keep their offsets.

use ggmill_core::{Endian, ErrorKind, Header, HeaderEdit, MetadataBuf, Value};
use ggmill_testdata::bytes::{FileBytes, Value as Built};

/// Bytes of the entry `ggmill.padding` without its value: key length, key, type.
const ENTRY: u64 = 8 + 14 + 4;

/// The declaration of a tensor: name, dimensions, type, offset.
type Declared<'a> = (&'a str, &'a [u64], u32, u64);

const TENSORS: [Declared<'_>; 2] = [("a", &[8], 0, 0), ("b", &[4, 2], 0, 64)];

/// Builds a file with `general.name`, an alignment if given, and tensor data of 128 bytes.
fn file(version: u32, endian: Endian, alignment: Option<u32>, tensors: &[Declared<'_>]) -> Vec<u8> {
    let mut file = FileBytes::new(version, endian);
    file.head(tensors.len() as u64, 1 + u64::from(alignment.is_some()));
    file.pair("general.name", &Built::from("Tiny"));
    if let Some(alignment) = alignment {
        file.pair("general.alignment", &Built::U32(alignment));
    }
    for &(name, dimensions, ggml_type, offset) in tensors {
        file.tensor(name, dimensions, ggml_type, offset);
    }
    file.pad(alignment.unwrap_or(32) as usize).raw(&(0..128).collect::<Vec<u8>>());
    file.into_bytes()
}

fn renamed(header: &Header<'_>, name: &str) -> MetadataBuf {
    let mut metadata = MetadataBuf::copy_of(&header.metadata()).unwrap();
    metadata.set("general.name", name);
    metadata
}

#[test]
fn a_padded_header_keeps_the_tensors() {
    for (version, endian) in
        [(2, Endian::Little), (2, Endian::Big), (3, Endian::Little), (3, Endian::Big)]
    {
        for alignment in [None, Some(8), Some(64)] {
            let bytes = file(version, endian, alignment, &TENSORS);
            let header = Header::parse(&bytes).unwrap();
            let edit = HeaderEdit::of(&header);
            let header_len = usize::try_from(header.header_len()).unwrap();
            assert_eq!(edit.bytes(), &bytes[..header_len]);
            assert_eq!(edit.replaced_len(), header.data_offset());
            assert_eq!(edit.unit(), u64::from(alignment.unwrap_or(32)));
            let infos = usize::try_from(edit.tensor_infos_offset()).unwrap();
            assert_eq!(bytes[infos + 8], b'a', "the first info begins with the length of its name");
            assert_eq!(header_len - infos, 2 * (8 + 1 + 4 + 4 + 8) + 3 * 8);

            for name in ["", "Tiny", "A name that needs more room than the old one had for it"] {
                let metadata = renamed(&header, name);
                assert_eq!(edit.obstacle(&metadata).unwrap(), None);
                let (composed, padded) =
                    (edit.compose(&metadata).unwrap(), edit.padded(&metadata).unwrap());
                let (start, padding) = padded.split_at(composed.len());
                assert_eq!(start, composed);
                assert!(padding.iter().all(|&byte| byte == 0));
                assert!((padding.len() as u64) < edit.unit());
                assert!((padded.len() as u64).is_multiple_of(edit.unit()));

                let rest = &bytes[usize::try_from(edit.replaced_len()).unwrap()..];
                let edited = [&padded, rest].concat();
                assert!(edit.preserves_tensor_offsets(&padded, edited.len() as u64).unwrap());
                let edited = Header::parse(edited).unwrap();
                assert_eq!((edited.version(), edited.endian()), (version, endian));
                assert_eq!(edited.metadata().str("general.name").unwrap(), name);
                for (old, new) in header.tensors().iter().zip(edited.tensors()) {
                    assert_eq!(old.raw_data().unwrap(), new.raw_data().unwrap());
                }
            }
        }
    }
}

#[test]
fn a_filled_header_has_the_requested_length() {
    for alignment in [None, Some(8)] {
        let bytes = file(3, Endian::Little, alignment, &TENSORS);
        let header = Header::parse(&bytes).unwrap();
        let edit = HeaderEdit::of(&header);
        let metadata = renamed(&header, "Small");
        let len = edit.compose(&metadata).unwrap().len() as u64;
        let rest = &bytes[usize::try_from(edit.replaced_len()).unwrap()..];
        assert_eq!(edit.filled(&metadata, len, len - 1).unwrap(), None);
        for slack in 0..3 * edit.unit() + 64 {
            let (array, byte) = (ENTRY + 12, ENTRY + 1);
            let expected = if slack < edit.unit() {
                Some(None)
            } else if slack > array {
                Some(Some(slack - array))
            } else if slack >= byte && slack < byte + edit.unit() {
                Some(Some(1))
            } else {
                None
            };
            let target = len + slack;
            let filled = edit.filled(&metadata, len, target).unwrap();
            assert_eq!(filled.as_ref().map(|filled| filled.filler), expected, "{slack}");
            let Some(filled) = filled else { continue };
            assert_eq!(filled.bytes.len() as u64, target);
            if !target.is_multiple_of(edit.unit()) {
                continue;
            }
            let edited = [&filled.bytes, rest].concat();
            assert!(edit.preserves_tensor_offsets(&filled.bytes, edited.len() as u64).unwrap());
            let edited = Header::parse(edited).unwrap();
            let zeros =
                edited.metadata().get("ggmill.padding").map(|entry| match entry.value().unwrap() {
                    Value::U8(0) => 1,
                    Value::Array(zeros) => zeros.len(),
                    other => panic!("{other:?}"),
                });
            assert_eq!(zeros, filled.filler);
        }
        let zeros = 500;
        let target = HeaderEdit::len_with_room(len, zeros).unwrap();
        assert_eq!(edit.filled(&metadata, len, target).unwrap().unwrap().filler, Some(zeros));
    }
    assert_eq!(HeaderEdit::len_with_room(u64::MAX, 0), None);
    assert_eq!(HeaderEdit::len_with_room(0, u64::MAX), None);
}

#[test]
fn changed_tensors_do_not_preserve_offsets() {
    let bytes = file(3, Endian::Little, None, &TENSORS);
    let header = Header::parse(&bytes).unwrap();
    let edit = HeaderEdit::of(&header);
    let preserves = |version, endian, tensors: &[Declared<'_>]| {
        let other = file(version, endian, None, tensors);
        let len = usize::try_from(Header::parse(&other).unwrap().data_offset()).unwrap();
        edit.preserves_tensor_offsets(&other[..len], other.len() as u64).unwrap()
    };
    assert!(preserves(3, Endian::Little, &TENSORS));
    assert!(preserves(2, Endian::Little, &TENSORS));
    assert!(!preserves(3, Endian::Big, &TENSORS), "byte order");
    let [a, b] = TENSORS;
    for (what, tensors) in [
        ("count", vec![a]),
        ("count", vec![a, b, ("c", &[1], 0, 96)]),
        ("order", vec![b, a]),
        ("name", vec![a, ("c", &[4, 2], 0, 64)]),
        ("shape", vec![a, ("b", &[2, 4], 0, 64)]),
        ("type", vec![a, ("b", &[4, 2], 26, 64)]),
        ("offset", vec![a, ("b", &[4, 2], 0, 32)]),
    ] {
        assert!(!preserves(3, Endian::Little, &tensors), "{what}");
    }
    // The data does not begin at the end of this header.
    let padded = edit.padded(&renamed(&header, "Tiny")).unwrap();
    let longer = [&padded[..], &[0; 32]].concat();
    assert!(!edit.preserves_tensor_offsets(&longer, bytes.len() as u64 + 32).unwrap());
    assert!(edit.preserves_tensor_offsets(&bytes[1..], bytes.len() as u64).is_err());
}

#[test]
fn what_keeps_tensors_from_their_offsets() {
    let old = file(1, Endian::Little, None, &TENSORS);
    let old = Header::parse(&old).unwrap();
    let edit = HeaderEdit::of(&old);
    let metadata = MetadataBuf::copy_of(&old.metadata()).unwrap();
    assert_eq!(edit.obstacle(&metadata).unwrap(), Some("version 1 is written as version 3"));

    let with_alignment = |alignment: u32| {
        let mut metadata = MetadataBuf::new();
        metadata.set("general.alignment", alignment);
        metadata
    };
    let bytes = file(3, Endian::Little, None, &TENSORS);
    let header = Header::parse(&bytes).unwrap();
    let edit = HeaderEdit::of(&header);
    assert_eq!(edit.obstacle(&with_alignment(64)).unwrap(), Some("the alignment changes"));
    assert_eq!(edit.obstacle(&with_alignment(32)).unwrap(), None);
    assert_eq!(edit.obstacle(&with_alignment(12)).unwrap_err().kind(), ErrorKind::Malformed);

    let bytes = file(3, Endian::Little, None, &[]);
    let header = Header::parse(&bytes).unwrap();
    assert_eq!(HeaderEdit::of(&header).obstacle(&with_alignment(64)).unwrap(), None);
}

#[test]
fn a_file_without_tensors_need_not_be_padded() {
    let bytes = file(3, Endian::Little, None, &[]);
    let (header_len, data_offset) = {
        let header = Header::parse(&bytes).unwrap();
        (header.header_len(), header.data_offset())
    };
    assert!(header_len < data_offset);
    for (len, expected) in [
        (header_len, (header_len, 1)),
        (data_offset - 1, (header_len, 1)),
        (data_offset, (data_offset, 32)),
        (data_offset + 1, (data_offset, 32)),
    ] {
        let header = Header::parse(&bytes[..usize::try_from(len).unwrap()]).unwrap();
        let edit = HeaderEdit::of(&header);
        assert_eq!((edit.replaced_len(), edit.unit()), expected, "{len}");
        let padded = edit.padded(&renamed(&header, "A")).unwrap();
        assert!(edit.preserves_tensor_offsets(&padded, padded.len() as u64).unwrap());
    }
}

#[test]
fn a_file_without_metadata_has_its_infos_after_the_counts() {
    for (version, expected) in [(1, 16), (2, 24), (3, 24)] {
        let mut file = FileBytes::new(version, Endian::Little);
        file.head(1, 0).tensor("a", &[8], 0, 0).pad(32).raw(&[0; 32]);
        let bytes = file.into_bytes();
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(HeaderEdit::of(&header).tensor_infos_offset(), expected);
    }
}
