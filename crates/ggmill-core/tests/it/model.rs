//! A model from any source of bytes: the result depends neither on the source nor on the byte order of
//! the file.

use std::error::Error as _;
use std::fmt;

use ggmill_core::{
    Decoder, Endian, Error, ErrorKind, GgmlType, Header, Limits, Model, RawStr, ReadAt, Result,
    Subject, swap_bytes,
};
use ggmill_testdata::bytes::{FileBytes, Value};
use proptest::prelude::*;

use crate::support::{Reported, cases, files};

/// A source that is not in memory, like a file.
#[derive(Debug)]
struct Positioned {
    bytes: Vec<u8>,
    name: String,
}

impl Positioned {
    fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), name: "directory/a file".to_owned() }
    }
}

impl ReadAt for Positioned {
    fn len(&self) -> u64 {
        ReadAt::len(&self.bytes)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.bytes.read_at(offset, out)
    }

    fn name(&self) -> Option<RawStr<'_>> {
        Some(RawStr::from(&*self.name))
    }
}

#[test]
fn every_source_gives_the_same_model() {
    for (name, bytes, limits) in files() {
        let expected = Header::parse_with(&bytes, &limits);
        let in_memory = Model::open_with(bytes.clone(), &limits);
        let positioned = Model::open_with(Positioned::new(&bytes), &limits);
        match expected {
            Err(error) => {
                let told = Reported::from(error);
                assert_eq!(Reported::from(in_memory.unwrap_err()), told, "{name}");
                assert_eq!(Reported::from(positioned.unwrap_err()), told, "{name}");
            }
            Ok(expected) => {
                for model in [in_memory.unwrap(), positioned.unwrap()] {
                    assert_eq!((model.header(), model.parts().len()), (&expected, 1), "{name}");
                    assert_eq!(
                        model.metadata().iter().count(),
                        expected.metadata().len(),
                        "{name}"
                    );
                    assert_eq!(model.file_len(), Some(bytes.len() as u64), "{name}");
                    model.verify().unwrap();
                    for (tensor, expected) in model.tensors().iter().zip(expected.tensors()) {
                        assert_eq!((tensor.name(), tensor.part()), (expected.name(), 0), "{name}");
                        let read = model.read_tensor(&tensor).map_err(Reported::from);
                        assert!(
                            read == expected
                                .data()
                                .map(std::borrow::Cow::into_owned)
                                .map_err(Reported::from),
                            "{name}: {}",
                            tensor.name()
                        );
                    }
                }
            }
        }
    }
}

/// Creates a file of one tensor of three blocks.
fn of_blocks(ggml_type: GgmlType, little: &[u8], endian: Endian) -> Vec<u8> {
    let layout = ggml_type.layout().unwrap();
    let mut data = little.to_vec();
    if endian == Endian::Big {
        swap_bytes(ggml_type, &mut data).unwrap();
    }
    let mut file = FileBytes::new(3, endian);
    file.head(1, 0)
        .tensor("w", &[u64::from(layout.elements) * 3], ggml_type.0, 0)
        .pad(32)
        .raw(&data);
    file.into_bytes()
}

proptest! {
    #![proptest_config(cases(16))]

    /// Data is little-endian for every source and range; raw bytes are those of the file.
    #[test]
    fn data_is_the_same_in_both_byte_orders(seed: u8, from in 0usize..=1000, to in 0usize..=1000) {
        for ggml_type in GgmlType::all().filter(|&ggml_type| swap_bytes(ggml_type, &mut []).is_ok()) {
            let size = ggml_type.layout().unwrap().bytes as usize * 3;
            let little: Vec<u8> = (0..size).map(|place| u8::try_from((place * 31 + usize::from(seed)) % 251).unwrap()).collect();
            let place = |share: usize| share * size / 1000;
            let (start, end) = (place(from.min(to)), place(from.max(to)));
            for endian in [Endian::Little, Endian::Big] {
                let file = of_blocks(ggml_type, &little, endian);
                let raw = file[file.len() - size..].to_vec();
                for model in [Model::open(file.clone()).unwrap(), Model::open(Positioned::new(&file)).unwrap()] {
                    prop_assert_eq!(model.endian(), endian);
                    let tensor = model.tensor("w").unwrap();
                    prop_assert!(model.read_tensor(&tensor).unwrap() == little, "{}", ggml_type);
                    let mut piece = vec![0; end - start];
                    model.read(&tensor, start as u64, &mut piece).unwrap();
                    prop_assert!(piece == little[start..end], "{} {}..{}", ggml_type, start, end);
                    model.read_raw(&tensor, start as u64, &mut piece).unwrap();
                    prop_assert!(piece == raw[start..end], "{} {}..{}", ggml_type, start, end);
                }
                let loaded = Header::parse(&file).unwrap();
                prop_assert!(loaded.tensor("w").unwrap().data().unwrap().as_ref() == little, "{}", ggml_type);
                prop_assert!(loaded.tensor("w").unwrap().raw_data().unwrap() == raw, "{}", ggml_type);
            }
        }
    }
}

#[test]
fn invalid_reads() {
    let file = of_blocks(GgmlType::F32, &[7; 12], Endian::Big);
    let model = Model::open(Positioned::new(&file)).unwrap();
    let tensor = model.tensor("w").unwrap();
    for offset in [1, 12, u64::MAX] {
        assert_eq!(
            model.read(&tensor, offset, &mut [0; 12]).unwrap_err().kind(),
            ErrorKind::Misuse
        );
        assert_eq!(
            model.read_raw(&tensor, offset, &mut [0; 12]).unwrap_err().kind(),
            ErrorKind::Misuse
        );
    }
    model.read(&tensor, 12, &mut []).unwrap();
    assert_eq!(model.tensor("v").unwrap_err().kind(), ErrorKind::Missing);
    // Without a source there is no data.
    let header = Header::parse(file.clone()).unwrap();
    let bytes = file[..usize::try_from(header.header_len()).unwrap()].to_vec();
    let header_only = Model::from_header(header.with_bytes(bytes));
    assert_eq!(
        header_only.read_tensor(&header_only.tensor("w").unwrap()).unwrap_err().kind(),
        ErrorKind::Misuse
    );
    // The source is truncated after opening.
    let header = Header::parse(file.clone()).unwrap();
    let cut = Model::from_header(header.with_bytes(file[..file.len() - 1].to_vec()));
    assert!(cut.read_tensor(&cut.tensor("w").unwrap()).is_err());
}

#[test]
fn a_file_truncated_at_any_length_opens_as_damaged() {
    let file = of_blocks(GgmlType::F16, &[7; 6], Endian::Little);
    assert_eq!(Model::open_damaged(file.clone()).unwrap().faults().count(), 0);
    for len in 0..file.len() {
        let cut = &file[..len];
        let (in_memory, positioned) =
            (Model::open_damaged(cut.to_vec()), Model::open_damaged(Positioned::new(cut)));
        let Ok(model) = in_memory else {
            assert!(len < 24 && positioned.is_err(), "{len}");
            continue;
        };
        for model in [&model, &positioned.unwrap()] {
            let part = &model.parts()[0];
            let kinds: Vec<_> = model.faults().map(Error::kind).collect();
            assert_eq!(kinds, [ErrorKind::Truncated], "{len}");
            let needed = part.needed_len();
            assert!(
                needed.is_none_or(|needed| needed > len as u64 && needed <= file.len() as u64),
                "{len}: {needed:?}"
            );
            // After the header, everything is known.
            if part.header_fault().is_none() {
                assert_eq!((needed, model.tensors().len()), (Some(file.len() as u64), 1));
                let tensor = model.tensor("w").unwrap();
                let error = model.read_tensor(&tensor).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Truncated);
                assert_eq!(error.offset(), Some(tensor.offset()), "found before reading");
            }
        }
    }
}

fn shard(number: u16, count: u16, tensors: &[&str]) -> Vec<u8> {
    let mut file = FileBytes::v3(tensors.len() as u64, 2);
    file.pair("split.no", &Value::U16(number)).pair("split.count", &Value::U16(count));
    for (place, name) in tensors.iter().enumerate() {
        file.tensor(name, &[8], 0, place as u64 * 32);
    }
    file.pad(32);
    for name in tensors {
        file.raw(&[name.as_bytes()[0]; 32]);
    }
    file.into_bytes()
}

fn set(shards: &[Vec<u8>]) -> Result<Model> {
    let open = |(place, bytes): (usize, &Vec<u8>)| {
        Model::open(Positioned { bytes: bytes.clone(), name: format!("directory/{place}.gguf") })
    };
    Model::from_shards(shards.iter().enumerate().map(open).collect::<Result<_>>()?)
}

#[test]
fn shards_are_one_model() {
    // The second has no tensors, so the third starts at the same index.
    let shards = [shard(2, 3, &["d"]), shard(0, 3, &["c", "a"]), shard(1, 3, &[])];
    let model = set(&shards).unwrap();
    let found: Vec<_> =
        model.tensors().iter().map(|tensor| (tensor.name().to_string(), tensor.part())).collect();
    assert_eq!(found, [("c".to_owned(), 0), ("a".to_owned(), 0), ("d".to_owned(), 2)]);
    let backwards: Vec<_> =
        model.tensors().iter().rev().map(|tensor| tensor.name().to_string()).collect();
    assert_eq!(backwards, ["d", "a", "c"]);
    assert!(model.tensors().nth(3).is_none() && model.tensors().len() == 3);
    for tensor in model.tensors() {
        assert_eq!(model.read_tensor(&tensor).unwrap(), [tensor.name().as_bytes()[0]; 32]);
        assert_eq!(model.tensor(tensor.name().as_bytes()).unwrap().part(), tensor.part());
    }
    assert_eq!(model.file_len(), Some(shards.iter().map(|shard| shard.len() as u64).sum()));
    // A tensor of another model with more files is rejected, not read from a wrong file.
    let (small, tensor) = (Model::open(shards[1].clone()).unwrap(), model.tensor("d").unwrap());
    assert_eq!(small.read_tensor(&tensor).unwrap_err().kind(), ErrorKind::Misuse);
}

#[test]
fn each_shard_reads_from_its_own_source() {
    let open = |bytes: Vec<u8>| {
        let mut decoder = Decoder::new(Some(bytes.len() as u64), &Limits::default());
        decoder.feed(&bytes).unwrap();
        Model::from_header(decoder.finish().unwrap().with_source(bytes))
    };
    let model =
        Model::from_shards(vec![open(shard(1, 2, &["b"])), open(shard(0, 2, &["a"]))]).unwrap();
    for name in ["a", "b"] {
        let tensor = model.tensor(name).unwrap();
        assert_eq!(model.read_tensor(&tensor).unwrap(), [name.as_bytes()[0]; 32]);
    }
}

#[test]
fn files_that_are_not_a_set() {
    let told = |shards: &[Vec<u8>]| {
        let error = set(shards).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shards);
        (error.shard(), error.to_string())
    };
    let whole = of_blocks(GgmlType::I8, &[0; 3], Endian::Little);
    assert_eq!(
        told(&[whole]),
        (
            Some(0),
            r#"directory/0.gguf: is not a shard: the key "split.count" is missing"#.to_owned()
        )
    );
    assert_eq!(
        told(&[shard(1, 2, &[]), shard(1, 2, &[])]),
        (Some(1), "directory/1.gguf: is shard 2, and so is directory/0.gguf".to_owned())
    );
    assert_eq!(
        told(&[shard(1, 3, &[])]),
        (Some(0), "directory/0.gguf: shards 1, 3 of 3 not given".to_owned())
    );
    let twice = told(&[shard(1, 2, &["a"]), shard(0, 2, &["a"])]);
    assert_eq!(twice, (Some(0), "directory/0.gguf: tensor \"a\" is also in 1.gguf".to_owned()));
    assert_eq!(set(&[]).unwrap_err().kind(), ErrorKind::Shards);
    let error = Model::open(shard(1, 3, &[])).unwrap().expect_shard(1, 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "split.no 1, expected 0 for shard 1 of 3; this is shard 2 under a different name"
    );
}

/// Builds a shard with these entries besides `split.*`, if there is a count.
fn shard_with(split: Option<(u64, u64)>, endian: Endian, entries: &[(&str, Value)]) -> Vec<u8> {
    let mut file = FileBytes::new(3, endian);
    file.head(0, entries.len() as u64 + if split.is_some() { 2 } else { 0 });
    if let Some((number, count)) = split {
        file.pair("split.no", &Value::U64(number)).pair("split.count", &Value::U64(count));
    }
    for (key, value) in entries {
        file.pair(key, value);
    }
    file.into_bytes()
}

#[test]
fn shards_that_disagree() {
    let told = |shards: &[Vec<u8>]| {
        let error = set(shards).unwrap_err();
        (error.shard().unwrap(), error.to_string())
    };
    let plain = |number, count| shard_with(Some((number, count)), Endian::Little, &[]);
    let of = |architecture: &str| [("general.architecture", Value::from(architecture))];
    assert_eq!(
        told(&[plain(0, 2), plain(1, 3)]),
        (1, "directory/1.gguf: split.count 3, expected 2 as in 0.gguf".to_owned())
    );
    assert_eq!(
        told(&[plain(0, 2), plain(2, 2)]),
        (1, "directory/1.gguf: is shard 3 of 2".to_owned())
    );
    assert_eq!(
        told(&[plain(0, 2), shard_with(Some((1, 2)), Endian::Big, &[])]),
        (1, "directory/1.gguf: is big-endian, but 0.gguf is not".to_owned())
    );
    assert_eq!(
        told(&[
            plain(0, 3),
            shard_with(Some((1, 3)), Endian::Little, &of("llama")),
            shard_with(Some((2, 3)), Endian::Little, &of("mamba")),
        ]),
        (2, r#"directory/2.gguf: architecture "mamba", expected "llama" as in 1.gguf"#.to_owned())
    );
    let counted = [("split.tensors.count", Value::U8(7))];
    assert_eq!(
        told(&[plain(0, 2), shard_with(Some((1, 2)), Endian::Little, &counted)]),
        (
            1,
            "directory/1.gguf: split.tensors.count 7, but the shards have 0 tensors in total"
                .to_owned()
        )
    );
    assert_eq!(
        told(&[plain(3, 12)]).1,
        "directory/0.gguf: shards 1, 2, 3, 5, 6, 7, 8, 9, … (11 in all) of 12 not given"
    );
    assert_eq!(told(&[plain(0, 2)]).1, "directory/0.gguf: shard 2 of 2 not given");
    // Eight missing shards are all shown.
    assert_eq!(
        told(&[plain(0, 9)]).1,
        "directory/0.gguf: shards 2, 3, 4, 5, 6, 7, 8, 9 of 9 not given"
    );
    // Without names, messages number the files.
    let open = |bytes: Vec<u8>| Model::open(bytes).unwrap();
    let error = Model::from_shards(vec![open(plain(1, 2)), open(plain(1, 2))]).unwrap_err();
    assert_eq!(error.to_string(), "is shard 2, and so is file 1");
}

#[test]
fn a_shard_is_compared_with_its_name() {
    let expect = |split, number, count| {
        let model = Model::open(shard_with(split, Endian::Little, &[])).unwrap();
        model.expect_shard(number, count).map_err(|error| {
            assert_eq!((error.kind(), error.shard()), (ErrorKind::Shards, Some(0)));
            error.to_string()
        })
    };
    assert_eq!(expect(Some((1, 3)), 2, 3), Ok(()));
    assert_eq!(
        expect(None, 2, 3).unwrap_err(),
        "named shard 2 of 3, but has no key \"split.count\""
    );
    assert_eq!(expect(Some((1, 4)), 2, 3).unwrap_err(), "split.count 4, expected 3 as in the name");
    assert_eq!(
        expect(Some((2, 3)), 2, 3).unwrap_err(),
        "split.no 2, expected 1 for shard 2 of 3; this is shard 3 under a different name"
    );
    assert_eq!(expect(Some((3, 3)), 2, 3).unwrap_err(), "split.no 3, expected 1 for shard 2 of 3");
    let error = Model::missing_shards(RawStr::from("a-00002-of-00003.gguf"), vec![2], 3);
    assert_eq!(error.to_string(), "a-00002-of-00003.gguf: missing: shard 2 of 3");
    assert_eq!((error.kind(), error.shard()), (ErrorKind::Shards, None));
}

#[test]
fn an_error_names_the_duplicate_tensor() {
    let error = set(&[shard(0, 2, &["a"]), shard(1, 2, &["a"])]).unwrap_err();
    assert_eq!(error.subject(), Some(Subject::Tensor(RawStr::from("a"))));
    assert!(error.cause().is_none() && error.source().is_none());
    // An error without a cause is returned unchanged.
    let message = error.to_string();
    assert_eq!(error.into_cause().unwrap_err().to_string(), message);
    let error = Error::caused(ErrorKind::Io, "cut").into_cause().unwrap();
    assert_eq!(error.to_string(), "cut");
    let error = Model::open(b"GGUF".to_vec()).unwrap_err();
    assert_eq!(error.shard(), None);
    assert_eq!(error.message().to_string(), "version needs 4 bytes, but 0 remain in the file");
    assert!(format!("{error:?}").starts_with("Truncated: offset 0x4: version needs"));
}

/// A source that records what it was asked for.
#[derive(Debug, Default)]
struct Recording(std::sync::Mutex<Vec<std::ops::Range<u64>>>);

impl ReadAt for Recording {
    fn len(&self) -> u64 {
        7
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        out.fill(u8::try_from(offset).unwrap());
        Ok(())
    }

    fn prefetch(&self, ranges: &[std::ops::Range<u64>]) {
        self.0.lock().unwrap().extend_from_slice(ranges);
    }

    fn verify(&self) -> Result<()> {
        Err(Error::caused(ErrorKind::Changed, "was edited"))
    }

    fn name(&self) -> Option<RawStr<'_>> {
        Some(RawStr::from("a source"))
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

#[test]
fn pointers_forward_to_the_source() {
    let source = std::sync::Arc::new(Recording::default());
    let boxed: Box<dyn ReadAt> = Box::new(std::sync::Arc::clone(&source));
    let pointer: &dyn ReadAt = &&boxed;
    assert_eq!((pointer.len(), pointer.is_empty()), (7, false));
    let mut out = [0; 2];
    pointer.read_at(3, &mut out).unwrap();
    assert_eq!(out, [3; 2]);
    assert!(pointer.as_slice().is_none());
    let range = 1..2;
    pointer.prefetch(std::slice::from_ref(&range));
    assert_eq!(*source.0.lock().unwrap(), vec![range]);
    assert_eq!(pointer.verify().unwrap_err().to_string(), "was edited");
    assert_eq!(pointer.name(), Some(RawStr::from("a source")));
    assert!(pointer.as_any().unwrap().is::<Recording>());
    // The capabilities are optional.
    let bytes: &dyn ReadAt = &vec![0u8; 3];
    assert_eq!((bytes.name(), bytes.as_slice()), (None, Some(&[0u8; 3][..])));
    assert!(bytes.as_any().is_none() && bytes.verify().is_ok());
    assert!(ReadAt::is_empty(&Vec::<u8>::new()));
    let error = bytes.read_at(2, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "data from 2 to 4, but the file ends at 3");
}

/// A source whose content changed after it was opened.
#[derive(Debug)]
struct Edited(Vec<u8>);

impl ReadAt for Edited {
    fn len(&self) -> u64 {
        ReadAt::len(&self.0)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, out)
    }

    fn verify(&self) -> Result<()> {
        Err(Error::caused(ErrorKind::Changed, "was edited"))
    }
}

#[test]
fn a_model_is_verified_in_all_files() {
    let first = Model::open(shard(0, 2, &["a"])).unwrap();
    first.verify().unwrap();
    let model =
        Model::from_shards(vec![first, Model::open(Edited(shard(1, 2, &["b"]))).unwrap()]).unwrap();
    assert_eq!(model.verify().unwrap_err().to_string(), "was edited");
    assert_eq!(model.parts()[1].split().unwrap().unwrap().number, 1);
}

#[test]
fn a_header_alone_reads_only_its_bytes() {
    let file = of_blocks(GgmlType::F32, &[7; 12], Endian::Little);
    let mut decoder = Decoder::new(None, &Limits::default());
    decoder.feed(&file).unwrap();
    let header = decoder.finish().unwrap();
    assert_eq!((header.file_len(), header.needed_len(), header.name()), (None, None, None));
    assert!(header.source().is_none() && header.verify().is_ok());
    let len = header.header_len();
    let mut out = vec![0; usize::try_from(len).unwrap()];
    header.read_at(0, &mut out).unwrap();
    assert_eq!(out, &file[..out.len()]);
    let error = header.read_at(1, &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert_eq!(
        error.to_string(),
        format!("data from 1 to {} is needed, but {len} bytes of the file are in memory", len + 1)
    );
    let model = Model::from_header(header);
    assert_eq!((model.file_len(), model.header_fault().is_none()), (None, true));
    // With the file as its source, it reads like any other.
    let header = Header::parse(&file).unwrap().with_bytes(file.clone()).with_source(file.clone());
    assert!(header.source().is_some());
    header.read_at(len, &mut [0; 12]).unwrap();
}

#[test]
fn headers_are_equal_if_their_bytes_are() {
    let file = |key: &str| shard_with(None, Endian::Little, &[(key, Value::U8(1))]);
    let parse = |bytes: Vec<u8>| Header::parse(bytes).unwrap();
    assert_eq!(parse(file("a")), parse(file("a")));
    assert_ne!(parse(file("a")), parse(file("b")), "the same ranges of other bytes");
    assert_ne!(parse(file("a")), parse(file("ab")));
}

#[test]
fn a_damaged_header_has_faults() {
    let file = of_blocks(GgmlType::F32, &[7; 12], Endian::Little);
    let cut = Model::open_damaged(file[..file.len() - 1].to_vec()).unwrap();
    assert!(cut.header_fault().is_none(), "only the data is damaged");
    assert_eq!(cut.parts()[0].needed_len(), Some(file.len() as u64));
    let cut = Model::open_damaged(file[..30].to_vec()).unwrap();
    assert_eq!(cut.header_fault().unwrap().kind(), ErrorKind::Truncated);
    let mut decoder = Decoder::new(Some(30), &Limits::default());
    let _ = decoder.feed(&file[..30]);
    let mut header = decoder.finish_damaged().unwrap();
    assert_eq!((header.faults().len(), header.take_faults().len()), (1, 1));
    assert!(header.faults().is_empty());
}

#[test]
fn every_overlap_is_a_fault() {
    let faults = |tensors: &[(&str, u64, u64)]| {
        let mut file = FileBytes::v3(tensors.len() as u64, 0);
        for &(name, start, len) in tensors {
            file.tensor(name, &[len], 24, start);
        }
        file.pad(32).raw(&[0; 256]);
        let model = Model::open_damaged(file.into_bytes()).unwrap();
        let told = |fault: &Error| {
            let message = fault.to_string();
            let (_, message) = message.split_once("tensor ").unwrap();
            let (name, rest) = message.split_once(": ").unwrap();
            let (_, other) = rest.split_once("overlaps tensor ").unwrap();
            format!("{name} {}", other.split_once(',').unwrap().0)
        };
        model.faults().map(told).collect::<Vec<_>>()
    };
    assert!(faults(&[("a", 32, 32), ("b", 0, 32), ("c", 64, 0)]).is_empty());
    // The data of the first ends last.
    assert_eq!(
        faults(&[("a", 0, 96), ("b", 32, 32), ("c", 64, 32), ("d", 96, 1)]),
        [r#""b" "a""#, r#""c" "a""#]
    );
    // The first of several that end at the same offset is named.
    assert_eq!(faults(&[("a", 0, 64), ("b", 32, 32), ("c", 32, 1)]), [r#""b" "a""#, r#""c" "a""#]);
    assert_eq!(faults(&[("a", 0, 64), ("b", 32, 64), ("c", 64, 1)]), [r#""b" "a""#, r#""c" "b""#]);
}

#[test]
fn iterators_know_their_lengths() {
    for (name, bytes, limits) in files() {
        let Ok(header) = Header::parse_with(&bytes, &limits) else { continue };
        let (metadata, tensors) = (header.metadata(), header.tensors());
        assert_eq!(metadata.iter().len(), metadata.len(), "{name}");
        assert_eq!(metadata.is_empty(), metadata.iter().next().is_none(), "{name}");
        let mut offsets: Vec<u64> = metadata.iter().rev().map(|entry| entry.offset()).collect();
        offsets.reverse();
        assert!(metadata.into_iter().map(|entry| entry.offset()).eq(offsets), "{name}");
        assert!((&metadata).into_iter().map(|entry| entry.offset()).is_sorted(), "{name}");
        assert_eq!(
            (tensors.iter().len(), tensors.iter().next().is_none()),
            (tensors.len(), tensors.is_empty())
        );
        assert!((&tensors).into_iter().map(|tensor| tensor.info_offset()).is_sorted(), "{name}");
        for array in metadata.iter().filter_map(|entry| entry.value().unwrap().as_array()) {
            let len = usize::try_from(array.len()).ok();
            assert_eq!(array.iter().size_hint(), (0, len), "{name}");
            assert!((&array).into_iter().count() == len.unwrap(), "{name}");
            assert!(array.strings().is_none_or(|strings| strings.size_hint() == (0, len)));
        }
    }
}

/// A source that cannot be read. Its error has a source.
#[derive(Debug)]
struct Broken;

#[derive(Debug)]
struct Cause(Option<Box<Cause>>, &'static str);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_deref().map(|source| source as _)
    }
}

impl ReadAt for Broken {
    fn len(&self) -> u64 {
        1000
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        let cause = Cause(Some(Box::new(Cause(None, "somebody dug there"))), "the cable is cut");
        Err(Error::caused(ErrorKind::Io, cause))
    }
}

/// Printing an error with its chain of sources repeats no message.
#[test]
fn the_chain_of_sources_has_no_duplicates() {
    for error in [Model::open(Broken).unwrap_err(), Model::open_damaged(Broken).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Io);
        let mut chain = vec![error.to_string()];
        let mut next = error.source();
        while let Some(error) = next {
            chain.push(error.to_string());
            next = error.source();
        }
        assert_eq!(chain, ["the cable is cut", "somebody dug there"]);
        assert!(error.cause().unwrap().is::<Cause>());
    }
}

#[test]
fn limits_hold_for_every_source() {
    let file = of_blocks(GgmlType::F32, &[0; 12], Endian::Little);
    let limits = Limits::default().with_tensors(0);
    assert_eq!(Model::open_with(file.clone(), &limits).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(
        Model::open_with(Positioned::new(&file), &limits).unwrap_err().kind(),
        ErrorKind::Limit
    );
}
