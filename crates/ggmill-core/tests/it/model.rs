//! A model from any source of bytes: the result depends neither on the source nor on the byte order of
//! the file.

use std::error::Error as _;
use std::fmt;

use ggmill_core::{
    Decoder, Endian, Error, ErrorKind, GgmlType, Header, Limits, Model, RawStr, ReadAt, Result,
    swap_bytes,
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
                let error = model.read_tensor(&model.tensor("w").unwrap()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Truncated);
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
