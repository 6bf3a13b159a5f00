//! Hostile PyTorch files are refused with the offset and a description of the fault.

use ggmill_pipeline::Checkpoint as _;
use ggmill_pipeline::formats::TorchFile;

use super::support::{dict, fixture, int, ints, pickle, storage, tensor, text, zip, zip64};

/// Returns the error of an archive with this pickle and one storage of eight bytes.
fn pickle_error(opcodes: &[&[u8]]) -> String {
    file_error(&zip(&[("x/data.pkl", &pickle(opcodes)), ("x/data/0", &[0; 8])]))
}

fn file_error(bytes: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hostile.pt");
    std::fs::write(&path, bytes).unwrap();
    let error = TorchFile::open(&path).unwrap_err();
    assert_eq!(error.path(), Some(&*path), "{error}");
    error.to_string()
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

#[test]
fn unknown_globals_are_named_and_not_executed() {
    for (opcodes, name) in [
        (&b"cos\nsystem\nX\x02\0\0\0id\x85R"[..], "os.system"),
        (b"cbuiltins\neval\nX\x01\0\0\x000\x85R", "builtins.eval"),
        (b"X\x05\0\0\0posixX\x06\0\0\0system\x93X\x02\0\0\0id\x85R", "posix.system"),
        (b"ctorch\nload\nX\x01\0\0\0a\x85R", "torch.load"),
        (b"ctorch\nQInt8Storage\n", "torch.QInt8Storage"),
        (b"c\x1b[2J\nhostile\n", "\\u{1b}[2J.hostile"),
        (b"cnumpy.core.multiarray\n_reconstruct\n", "numpy.core.multiarray._reconstruct"),
    ] {
        let message = pickle_error(&[opcodes]);
        assert_says(
            &message,
            &["hostile.pt: offset 0x", name, "expected only", "nothing was executed"],
        );
    }
    // Other opcodes that import or call.
    for opcode in [&b"ios\nsystem\n"[..], b"(o", b"\x82\x01", b"Pname\n", b"}}\x92"] {
        assert_says(&pickle_error(&[opcode]), &["offset 0x", "opcode 0x", "state dictionaries"]);
    }
}

#[test]
fn a_pickle_is_bounded() {
    let deep = [&[b'('; 2000][..], &[b't'; 2000]].concat();
    assert_says(&pickle_error(&[&deep]), &["values nested 1000 deep, which is the limit"]);
    // Nested tuples need no mark. The only fault is that the root is not a dictionary.
    let nested = [b")".to_vec(), vec![0x85; 100_000]].concat();
    assert_says(&pickle_error(&[&nested]), &["is a tuple of 1, expected a dictionary"]);
    assert_says(&pickle_error(&[&vec![b'N'; 1 << 21]]), &["1048576 values on the stack"]);
    let many = [&b"]("[..], &b"}".repeat((1 << 20) - 9), b"e("].concat();
    let many = [&many[..], &b"}".repeat((1 << 20) - 9), b"e(", &b"}".repeat(99), b"e"].concat();
    assert_says(&pickle_error(&[&many]), &["more than 2097152 objects, which is the limit"]);
    // Two bytes add a value to a list, three bytes add two to a dictionary.
    let elements = "more than 8388608 values in tuples, lists and dictionaries, which is the limit";
    let tuple = [&b"("[..], &vec![b'N'; 1 << 19], b"t0"].concat();
    for (collection, element, values) in
        [(&b"]"[..], &b"Na"[..], 1), (b"}", b"NNs", 2), (b"", &tuple, 1 << 19)]
    {
        let found = pickle_error(&[collection, &element.repeat((1 << 23) / values + 1)]);
        assert_says(&found, &[elements]);
    }
    assert_says(
        &pickle_error(&[b"Nr\xff\xff\xff\xff"]),
        &["number 4294967295, expected at most 1"],
    );
    assert_says(
        &pickle_error(&[b"j\xff\xff\xff\xff"]),
        &["the memo has no value with number 4294967295"],
    );
    assert_says(&pickle_error(&[b"X\xff\xff\xff\xff"]), &["the pickle ends at 0x", "too early"]);
    assert_says(&pickle_error(&[b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff"]), &["too early"]);
    assert_says(&pickle_error(&[b"\x8b\xff\xff\xff\xff"]), &["too early"]);
    let line = [&b"c"[..], &[b'a'; 5000], b"\n"].concat();
    assert_says(&pickle_error(&[&line]), &["a name of more than 1024 bytes"]);
    assert_says(&pickle_error(&[b"\x80\x09"]), &["protocol 9, expected at most 5"]);
}

#[test]
fn an_invalid_pickle_is_refused() {
    for (opcodes, message) in [
        (&b""[..], "0 values at its end, expected one"),
        (b"NN", "2 values at its end"),
        (b"0", "the stack has none"),
        (b"(0", "the stack has none"),
        (b"t", "a mark is needed"),
        (b"N(", "values at its end"),
        (b"NNa", "elements for None, expected a list"),
        (b"NNNs", "entries for None, expected a dictionary"),
        (b"}(Nu", "a key without a value"),
        (b"NN\x85R", "a call of None, expected a function"),
        (b"ccollections\nOrderedDict\nNR", "None as arguments, expected a tuple"),
        (b"ccollections\nOrderedDict\nN\x85R", "a dictionary of None, expected a list"),
        (b"ccollections\nOrderedDict\n]Na\x85R", "None as an entry"),
        (
            b"ccollections\nOrderedDict\n]q\x00\x85Rccollections\nOrderedDict\nh\x00\x85R",
            "a dictionary of a list that another dictionary was made from, expected a list",
        ),
        (
            b"ccollections\nOrderedDict\n]q\x00\x85Rh\x00Na",
            "elements for a list that another dictionary was made from, expected a list",
        ),
        (b"NNb", "attributes for None, expected a dictionary"),
        (b"NQ", "None as a persistent ID, expected a storage"),
        (b"(X\x06\0\0\0moduleNNNNtQ", "a tuple of 5 as a persistent ID"),
        (b"(X\x07\0\0\0storageNNNNtQ", "None as a class of storages"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n)R", "a tensor with 0 arguments"),
        (b"ctorch._utils\n_rebuild_parameter\nN\x85R", "a parameter of None"),
        (b"NNN\x93", "a global whose name is not a string"),
        (b"}NNs", "entry 0 has None as its name"),
        (b"N", "is None, expected a dictionary of tensors"),
    ] {
        assert_says(&pickle_error(&[opcodes]), &[message]);
    }
    let twice = [text("a"), tensor(&storage("FloatStorage", "0", 2), 0, &[2], &[1])].concat();
    assert_says(
        &pickle_error(&[b"}(", &twice, &twice, b"u"]),
        &["tensor \"a\" is a duplicate in the dictionary"],
    );
}

#[test]
fn a_tensor_must_fit_its_storage() {
    let float = |len| storage("FloatStorage", "0", len);
    for (value, message) in [
        (tensor(&float(2), 0, &[3], &[1]), "takes 12 bytes of a storage of 8"),
        (tensor(&float(2), 1, &[2], &[1]), "and offset 1 that takes 12 bytes of a storage of 8"),
        (tensor(&float(2), 0, &[2], &[2]), "takes 12 bytes"),
        (tensor(&float(2), 0, &[2, 2], &[1 << 62, 1 << 62]), "takes 2^64 or more bytes"),
        (tensor(&float(2), 0, &[2], &[i64::MAX]), "takes 2^64 or more bytes"),
        (tensor(&float(2), -1, &[1], &[1]), "-1 as a tensor's offset"),
        (tensor(&float(2), 0, &[-1], &[1]), "-1 as a tensor's size"),
        (tensor(&float(2), 0, &[2], &[-1]), "-1 as a tensor's stride"),
        (tensor(&float(2), 0, &[2], &[1, 1]), "a tensor of 1 dimensions and 2 strides"),
        (tensor(&float(2), 0, &[1; 9], &[1; 9]), "9 dimensions, expected at most 8"),
        (tensor(&float(-2), 0, &[2], &[1]), "-2 as the length of a storage"),
        (tensor(&int(7), 0, &[2], &[1]), "a tensor of 7, expected a storage"),
        (
            tensor(&storage("FloatStorage", "1", 2), 0, &[2], &[1]),
            "storage \"1\": is not in the file",
        ),
        (tensor(&float(3), 0, &[2], &[1]), "8 bytes, expected 12"),
        (tensor(&float(i64::MAX), 0, &[2], &[1]), "8 bytes, expected 18446744073709551615"),
    ] {
        assert_says(&pickle_error(&[&dict("a", &value)]), &["hostile.pt", message]);
    }
    // 2^64 bytes with a stride of 0.
    let size = [1 << 31, 1 << 31, 1];
    let value = tensor(&float(2), 0, &size, &[0, 0, 0]);
    assert_says(&pickle_error(&[&dict("a", &value)]), &["has 2^64 bytes or more"]);
}

/// Overwrites bytes of an archive at `skip` bytes after the last match of `find`.
fn changed(mut bytes: Vec<u8>, find: &[u8], skip: usize, with: &[u8]) -> Vec<u8> {
    let at = bytes.windows(find.len()).rposition(|window| window == find).unwrap() + skip;
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

#[test]
fn an_invalid_archive_is_refused() {
    let tensor = tensor(&storage("FloatStorage", "0", 2), 0, &[2], &[1]);
    let pickle = pickle(&[&dict("a", &tensor)]);
    let good = zip(&[("x/data.pkl", &pickle), ("x/data/0", &[0; 8])]);
    let large = zip64(&[("x/data.pkl", &pickle), ("x/data/0", &[0; 8])]);
    let entry = |skip: usize, with: &[u8]| changed(good.clone(), b"PK\x01\x02", skip, with);
    let end = |skip: usize, with: &[u8]| changed(good.clone(), b"PK\x05\x06", skip, with);
    for (bytes, message) in [
        (
            entry(10, b"\x08\0"),
            "entry \"x/data/0\": is compressed (method 8), expected an uncompressed entry",
        ),
        (entry(8, b"\x01"), "is encrypted, expected an uncompressed entry"),
        (entry(20, b"\x07"), "the packed size is 7 bytes, but the size is 8"),
        (entry(20, b"\xff\xff\xff\x0f\xff\xff\xff\x0f"), "268435455 bytes from 0x"),
        (entry(42, b"\xff\xff\xff\x0f"), "its header is outside the"),
        (entry(42, b"\x01\0\0\0"), "its header is missing"),
        (entry(28, b"\xff\xff"), "the directory ends within an entry"),
        (entry(0, b"XX"), "expected an entry of the directory"),
        (end(10, b"\x07\0"), "the directory has 2 entries, expected 7"),
        (end(12, b"\xff\xff\xff\x0f"), "a directory of 268435455 bytes from 0x"),
        (end(16, b"\xff\xff\xff\xff"), "expected one that ends before its end record"),
        (end(20, b"\x07"), "no directory at its end, perhaps because of an incomplete download"),
        (changed(large.clone(), b"PK\x06\x07", 8, &[0xff; 8]), "is outside of the file"),
        (changed(large.clone(), b"PK\x06\x07", 8, &[1]), "expected the end of the directory"),
        (
            changed(large, b"PK\x06\x06", 40, &[0xff; 8]),
            "expected one that ends before its end record",
        ),
        (zip(&[("x/data.pkl", &pickle), ("x/data.pkl", &pickle)]), "is a duplicate"),
        (
            zip(&[("x/data.pkl", &pickle), ("y/data.pkl", &pickle)]),
            "contains several entries data.pkl",
        ),
        (zip(&[("x/other.pkl", &pickle)]), "contains no entry data.pkl"),
        (zip(&[("x/data.pkl", &pickle), ("x/constants.pkl", b"")]), "TorchScript"),
        (
            zip(&[("x/data.pkl", &pickle), ("x/byteorder", b"middle")]),
            "\"middle\", expected little",
        ),
        (zip(&[("x/data.pkl", &pickle), ("x/byteorder", &[b'a'; 99])]), "expected little or big"),
        (
            zip(&[("x/data.pkl", &[&*pickle, b"more"].concat())]),
            "the pickle ends, but its entry ends at",
        ),
    ] {
        assert_says(&file_error(&bytes), &["hostile.pt: ", message]);
    }
    assert_says(&file_error(b"not a file of PyTorch"), &["it does not begin like a PyTorch"]);
    assert_says(&file_error(b"PK"), &["it does not begin like a PyTorch"]);
}

#[test]
fn an_invalid_stream_is_refused() {
    let magic = pickle(&[b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"]);
    let object = |len: i64| {
        let storage = [
            &b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"[..],
            &int(len),
            b"NtQ",
        ];
        pickle(&[&dict("a", &tensor(&storage.concat(), 0, &[2], &[1]))])
    };
    let file = |version: i64, keys: &[u8], len: i64, data: &[u8]| {
        [&*magic, &pickle(&[&int(version)]), &pickle(&[b"}"]), &object(len), keys, data].concat()
    };
    let keys = pickle(&[b"]X\x01\0\0\x000a"]);
    let data = [&[2, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8]].concat();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pt");
    std::fs::write(&path, file(1001, &keys, 2, &data)).unwrap();
    assert_eq!(TorchFile::open(&path).unwrap().tensors().len(), 1);
    for (bytes, message) in [
        (pickle(&[b"N"]), "the first pickle is None, expected the number"),
        (pickle(&[&int(7)]), "the first pickle is 7"),
        (file(1002, &keys, 2, &data), "version 1002, expected 1001"),
        (file(1001, &pickle(&[b"N"]), 2, &data), "None, expected the list of storages"),
        (file(1001, &pickle(&[b"]"]), 2, &data), "storage \"0\": is not in the file"),
        (file(1001, &pickle(&[b"]X\x01\0\0\x001a"]), 2, &data), "storage \"1\" is in the list"),
        (file(1001, &keys, 3, &data), "8 bytes, expected 12"),
        (file(1001, &keys, 2, &[0xff; 16]), "elements of 4 bytes, but 8 bytes remain"),
        (
            file(1001, &keys, 2, &data[..12]),
            "2 elements of 4 bytes, but 4 bytes remain, perhaps because of an incomplete",
        ),
        (
            file(1001, &pickle(&[b"](X\x01\0\0\x000X\x01\0\0\x000e"]), 2, &data.repeat(2)),
            "storage \"0\" is a duplicate in the list",
        ),
        (file(1001, &keys, 2, b""), "0x"),
    ] {
        assert_says(&file_error(&bytes), &["hostile.pt", message]);
    }
    // A view that exceeds its storage.
    let view = [&b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000N"[..], &int(2), &{
        [&b"(N"[..], &int(1), &int(2), b"ttQ"].concat()
    }];
    assert_says(&pickle_error(&[&view.concat()]), &["elements 1 to 3 of a storage of 2"]);
    assert_says(&pickle_error(&[&ints(&[1])]), &["is a tuple of 1"]);
}

/// Every truncation of a real file is an error, and no changed byte causes a panic.
#[test]
fn damage_is_an_error() {
    std::thread::scope(|scope| {
        for name in ["views.pt", "attributes.pt", "views-legacy.pt", "attributes-legacy.pt"] {
            scope.spawn(move || damage_of_one_file_is_an_error(name));
        }
    });
}

fn damage_of_one_file_is_an_error(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged.pt");
    let bytes = std::fs::read(fixture(name)).unwrap();
    for len in (0..bytes.len()).step_by(7) {
        std::fs::write(&path, &bytes[..len]).unwrap();
        assert!(TorchFile::open(&path).is_err(), "{name} cut to {len}");
    }
    for at in (0..bytes.len()).step_by(3) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
        let Ok(file) = TorchFile::open(&path) else { continue };
        for (number, tensor) in file.tensors().iter().enumerate() {
            let elements = tensor.shape.elements().min(1 << 12);
            let layout = tensor.ggml_type.layout().unwrap();
            let size = usize::try_from(layout.bytes_for(elements).unwrap()).unwrap();
            file.read(number, 0, &mut vec![0; size]).unwrap();
        }
    }
}
