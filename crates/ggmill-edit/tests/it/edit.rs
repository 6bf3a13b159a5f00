//! Edits: their effect on metadata, how they get into a file, and that nothing else changes.

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ggmill_core::{Builder, Endian, GgmlType, Header, MetadataBuf, Shape, ToValue, Value};
use ggmill_edit::{
    Destination, Edit, EditError, EditMethod, EditPlan, EditValue, Editor, FILLER_KEY,
    edit_metadata,
};
use ggmill_pipeline::{Error, ErrorKind};
use ggmill_testdata::bytes::{self, FileBytes};
use ggmill_testdata::{every_gguf, real};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A directory with one file.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("model.gguf"), bytes).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("model.gguf")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    pub(crate) fn plan(&self, edits: &[Edit]) -> Result<EditPlan, Error> {
        let editor = Editor::open(self.path())?;
        editor.plan(editor.edit(edits)?)
    }

    /// Edits the file and compares its length with the plan.
    pub(crate) fn edit(&self, edits: &[Edit]) -> Result<EditMethod, Error> {
        let mut editor = Editor::open(self.path())?;
        let edited = editor.edit(edits)?;
        let plan = editor.plan(edited)?;
        let len = editor.planned_len(&plan)?;
        let way = editor.apply(plan, &mut |_| ControlFlow::Continue(()))?;
        assert_eq!(fs::metadata(self.path()).unwrap().len(), len);
        assert_eq!(
            fs::read_dir(self.directory.path()).unwrap().count(),
            1,
            "there is no other file"
        );
        Ok(way)
    }
}

pub(crate) fn set(text: &str) -> Edit {
    Edit::parse_set(text).unwrap()
}

fn unset(glob: &str) -> Edit {
    Edit::parse_unset(glob).unwrap()
}

fn rename(from: &str, to: &str) -> Edit {
    Edit::Rename { from: from.into(), to: to.into() }
}

/// A model of two tensors with recognizable data.
pub(crate) fn model(metadata: MetadataBuf, endian: Endian) -> Vec<u8> {
    let shape = Shape::new(&[33, 3]).unwrap();
    let plan = Builder::new()
        .endian(endian)
        .metadata(metadata)
        .tensor("a", GgmlType::F32, shape)
        .tensor("b", GgmlType::F16, shape)
        .plan()
        .unwrap();
    let mut file = plan.header().to_vec();
    for (tensor, fill) in plan.tensors().iter().zip(1u8..) {
        file.resize(usize::try_from(tensor.offset()).unwrap(), 0);
        file.extend((0..tensor.size()).map(|_| fill));
    }
    file.resize(usize::try_from(plan.total_len()).unwrap(), 0);
    file
}

pub(crate) fn small() -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "Tiny");
    metadata.set("llama.context_length", 128u32);
    metadata.set("llama.rope.freq_base", 10000.0f32);
    metadata.set("x.small", 7u8);
    metadata.set("tokenizer.ggml.tokens", ["<s>", "</s>", "a", "a"].as_slice());
    metadata.set("tokenizer.ggml.scores", [0.0f32, 1.0, 2.0, 3.0].as_slice());
    metadata
}

/// Metadata without the filler, and all tensors with their data.
type Content = (MetadataBuf, Vec<(Vec<u8>, GgmlType, Shape, Vec<u8>)>);

pub(crate) fn content(bytes: &[u8]) -> Content {
    let model = Header::parse(bytes).unwrap();
    let mut metadata = MetadataBuf::copy_of(&model.metadata()).unwrap();
    metadata.remove(FILLER_KEY);
    let tensors = model.tensors().iter().map(|tensor| {
        (
            tensor.name().as_bytes().to_vec(),
            tensor.ggml_type(),
            *tensor.shape(),
            tensor.data().unwrap().to_vec(),
        )
    });
    (metadata, tensors.collect())
}

fn filler(bytes: &[u8]) -> Option<u64> {
    let model = Header::parse(bytes).unwrap();
    let pair = model.metadata().get(FILLER_KEY)?;
    assert_eq!(
        model.metadata().iter().next_back().unwrap().key(),
        FILLER_KEY,
        "the filler is the last key"
    );
    Some(pair.value().unwrap().as_array().map_or(1, |array| array.len()))
}

#[test]
fn values_get_the_type_of_the_key_or_their_own() {
    let bench = Bench::new(&model(small(), Endian::Little));
    let edits = [
        set("general.name=5"),
        set("llama.context_length=4096"),
        set("llama.rope.freq_base=5e5"),
        set("x.small=8"),
        set("general.author=17"),
        set("general.tags=[\"a\", \"b\"]"),
        set("general.sampling.temp=1"),
        set("tokenizer.ggml.add_bos_token=true"),
        set("llama.rope.scaling.factor=4"),
        set("llama.expert_count=8"),
        set("my.number=-3"),
        set("my.text:string=7"),
        set("my.list:[u16]=[1, 2]"),
        set("tokenizer.ggml.scores=[4, 3, 2, 1]"),
        Edit::SpecialToken { role: "eos".into(), token: "</s>".into() },
    ];
    bench.edit(&edits).unwrap();
    let (metadata, _) = content(&bench.bytes());
    let mut expected = MetadataBuf::new();
    expected.set("general.name", "5");
    expected.set("llama.context_length", 4096u32);
    expected.set("llama.rope.freq_base", 5e5f32);
    expected.set("x.small", 8u8);
    expected.set("general.author", "17");
    expected.set("general.tags", ["a", "b"].as_slice());
    expected.set("general.sampling.temp", 1f32);
    expected.set("tokenizer.ggml.add_bos_token", true);
    expected.set("llama.rope.scaling.factor", 4f32);
    expected.set("llama.expert_count", 8u32);
    expected.set("my.number", -3i32);
    expected.set("my.text", "7");
    expected.set("my.list", [1u16, 2].as_slice());
    expected.set("tokenizer.ggml.scores", [4f32, 3.0, 2.0, 1.0].as_slice());
    expected.set("tokenizer.ggml.eos_token_id", 1u32);
    for (key, value) in expected.iter() {
        assert_eq!(metadata.get(key.as_bytes()), Some(value), "{key}");
    }
    let keys: Vec<String> = metadata.iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(
        keys[..3],
        ["general.architecture", "general.name", "llama.context_length"],
        "keys that were there keep their places"
    );
    assert_eq!(keys[7..9], ["general.author", "general.tags"], "new ones come in their order");
}

/// A refused edit changes nothing.
#[test]
fn invalid_edits_are_refused() {
    let bench = Bench::new(&model(small(), Endian::Little));
    let before = bench.bytes();
    let token =
        |role: &str, token: &str| Edit::SpecialToken { role: role.into(), token: token.into() };
    for (edit, words) in [
        (
            set("llama.context_length=long"),
            "key \"llama.context_length\": \"long\" is not an integer, expected u32; the key \
             currently has type u32",
        ),
        (set("x.small=256"), "256 is out of range, expected 0 to 255"),
        (set("big:u64=18446744073709551616"), "out of range"),
        (
            set("general.tags=red"),
            "key \"general.tags\": \"red\" is not a JSON array, expected [string]",
        ),
        (set("general.alignment=12"), "alignment 12, expected a positive multiple of 8"),
        (set("general.alignment:u64=64"), "is u64, expected u32"),
        (set("general.architecture:u32=1"), "must be a string"),
        (set("a b=1"), "' ' in a key"),
        (set("=1"), "a key of 0 bytes"),
        (set("ggmill.padding=1"), "is the space reserved for later edits"),
        (set("tokenizer.ggml.scores=[1]"), "has 1 elements, but the vocabulary has 4 tokens"),
        (set("tokenizer.ggml.bos_token_id=4"), "is not a token in the vocabulary, which has 4"),
        (unset("nope.*"), "no key matches \"nope.*\""),
        (unset("general.arch*"), "no program can load a file without it"),
        (rename("nope", "other"), "key \"nope\": no such key"),
        (rename("general.name", "x.small"), "already exists"),
        (rename("general.architecture", "general.kind"), "no program can load a file without it"),
        (token("bos", "zzz"), "tokenizer.ggml.bos_token_id\": there is no token \"zzz\""),
        (token("bos", "a"), "\"a\" is the text of both token 2 and token 3"),
        (token("zzz", "a"), "\"zzz\" is not the name of a special token, expected one of bos, eos"),
        (Edit::Tokens(vec!["a".into()]), "1 tokens, but the file has 4 tokens"),
    ] {
        let error = bench.plan(&[set("general.name=Other"), edit]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Edit);
        assert!(error.to_string().contains(words), "{error}\n{words}");
    }
    assert!(bench.bytes() == before);
    assert!(
        Edit::parse_unset("[").unwrap_err().to_string().starts_with("pattern \"[\", character ")
    );
    // A program learns which it was without reading the text.
    let error = bench.plan(&[token("bos", "a")]).unwrap_err();
    let cause = error.cause().and_then(|cause| cause.downcast_ref::<EditError>());
    assert_eq!(
        cause,
        Some(&EditError::AmbiguousToken {
            key: "tokenizer.ggml.bos_token_id",
            token: "a".into(),
            ids: [2, 3]
        })
    );
}

#[test]
fn typed_values_keep_their_types() {
    for endian in [Endian::Little, Endian::Big] {
        let bench = Bench::new(&model(small(), endian));
        bench
            .edit(&[
                Edit::set("my.number", &7i64),
                Edit::set("my.floats", &[0.5f32, 1.0].as_slice()),
                Edit::set("general.name", &"Other"),
            ])
            .unwrap();
        // Whatever the type was before.
        bench.edit(&[Edit::set("my.number", &true)]).unwrap();
        let (metadata, _) = content(&bench.bytes());
        assert_eq!(metadata.get("my.number"), Some(Value::Bool(true)));
        assert_eq!(
            metadata
                .get("my.floats")
                .unwrap()
                .as_array()
                .unwrap()
                .floats()
                .unwrap()
                .collect::<Vec<_>>(),
            [0.5, 1.0]
        );
        assert_eq!(metadata.get("general.name").unwrap().as_str(), Some("Other"));
    }
}

/// A file with the metadata of a shard and another name cannot be opened as part of a set. Removing all
/// `split.*` keys fixes it.
#[test]
fn split_keys_cannot_be_set_and_are_removed_together() {
    let lone = Bench::new(&model(small(), Endian::Little));
    for edit in [set("split.count=2"), set("split.no:u16=0"), rename("general.name", "split.count")]
    {
        let error = lone.plan(&[edit]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("identifies a shard within its set; `ggmill split` creates shard sets"),
            "{error}"
        );
    }
    let mut part = small();
    part.set("split.no", 1u16);
    part.set("split.count", 2u16);
    let part = Bench::new(&model(part, Endian::Little));
    let error = part.plan(&[unset("split.no")]).unwrap_err();
    assert!(error.to_string().starts_with("key \"split.no\": identifies the shard"), "{error}");
    part.plan(&[unset("split.*")]).unwrap();
}

/// Keys that begin with the old architecture are counted in a remark; without any there is none.
/// Edits take time proportional to the size of the metadata, also if they change every key.
#[test]
fn edits_of_many_keys_are_not_quadratic() {
    let count = 100_000u32;
    let mut file = FileBytes::v3(0, u64::from(count) + 2);
    file.pair("general.architecture", &"llama".into());
    for number in 0..count {
        file.pair(format!("x.{number}"), &bytes::Value::U32(number));
    }
    file.pair("x.0", &bytes::Value::U32(7));
    let bytes = file.into_bytes();
    let metadata = MetadataBuf::copy_of(&Header::parse(&bytes).unwrap().metadata()).unwrap();
    let start = Instant::now();
    let edited = edit_metadata(&metadata, &[Edit::set("general.name", &"A")], None).unwrap();
    let keys: Vec<_> = edited.changes().iter().map(|change| &*change.key).collect();
    // The duplicate key has two values before and after the edit, so it does not change.
    assert_eq!(keys, [b"general.name"]);
    let edited = edit_metadata(&metadata, &[set("x.0=0")], None).unwrap();
    assert_eq!(edited.changes().len(), 1);
    let edited = edit_metadata(&metadata, &[unset("x.*")], None).unwrap();
    assert_eq!(edited.changes().len(), count as usize);
    assert_eq!(edited.metadata().len(), 1);
    // Test builds are many times slower than release builds; quadratic time would be minutes.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn keys_of_the_old_architecture_are_counted() {
    let bench = Bench::new(&model(small(), Endian::Little));
    let editor = Editor::open(bench.path()).unwrap();
    let notes = |edits: &[Edit]| editor.edit(edits).unwrap().notes().join("; ");
    let edits: Vec<Edit> = small()
        .iter()
        .filter_map(|(key, _)| {
            Some((key.to_string(), key.to_string().strip_prefix("llama.")?.to_owned()))
        })
        .map(|(key, name)| rename(&key, &format!("mine.{name}")))
        .chain([set("general.architecture=mine")])
        .collect();
    let last = [edits[edits.len() - 1].clone()];
    let count = edits.len() - 1;
    assert!(notes(&last).contains(&format!("{count} keys still begin with \"llama.\"")));
    assert!(notes(&edits[1..]).contains("1 key still begins with \"llama.\""));
    assert!(!notes(&edits).contains("still"), "{}", notes(&edits));
}

/// The steps of a graph are an array of strings for every architecture.
#[test]
fn a_graph_is_an_array_of_strings() {
    let bench = Bench::new(&model(small(), Endian::Little));
    let steps = EditValue::Content("v0 = a\nlogits = v0\n".into());
    let key = "ggmill.graph".to_owned();
    bench.edit(&[Edit::Set { key, key_type: None, value: steps }]).unwrap();
    let (metadata, _) = content(&bench.bytes());
    let list = metadata.get("ggmill.graph").unwrap();
    assert_eq!(list.as_array().unwrap().strings().unwrap().count(), 2);
}

/// An integer becomes a float for a key that is a float in every architecture, also in one without a
/// description.
#[test]
fn keys_of_all_architectures_get_their_standard_type() {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "nobody");
    for (typed, expected) in [
        ("nobody.rope.freq_base=10000", "F32(10000.0)"),
        ("bert.rope.freq_base=10000", "F32(10000.0)"),
        ("nobody.use_parallel_residual=1", "Bool(true)"),
        ("nobody.context_length=4096", "U32(4096)"),
        ("nobody.feed_forward_length=[1, 2]", "Array("),
        ("nobody.something=1", "U32(1)"),
    ] {
        let edited = ggmill_edit::edit_metadata(&metadata, &[set(typed)], None).unwrap();
        let value = edited.metadata().get(typed.split_once('=').unwrap().0).unwrap();
        assert!(format!("{value:?}").starts_with(expected), "{typed}: {value:?}");
    }
}

/// Shorter, longer, much longer, and the original again: each method keeps every byte after the header.
#[test]
fn each_method_keeps_the_data() {
    for endian in [Endian::Little, Endian::Big] {
        let bench = Bench::new(&model(small(), endian));
        let original = bench.bytes();
        let (_, data) = content(&original);
        let name = |len: usize| set(&format!("general.name={}", "x".repeat(len)));
        assert_eq!(bench.edit(&[name(4)]).unwrap(), EditMethod::InPlace);
        assert!(bench.bytes() != original && filler(&bench.bytes()).is_none());
        assert_eq!(bench.edit(&[name(4)]).unwrap(), EditMethod::Unchanged);

        let way = bench.edit(&[name(1000)]).unwrap();
        if !matches!(way, EditMethod::Insert(4096)) {
            println!("this file system inserts nothing: {way:?}");
            assert!(matches!(way, EditMethod::Copy(_)));
        }
        assert!(filler(&bench.bytes()).unwrap() > 1000, "the rest is room");
        assert_eq!(bench.edit(&[name(1500)]).unwrap(), EditMethod::InPlace);
        assert_eq!(bench.edit(&[set("general.name=Tiny")]).unwrap(), EditMethod::InPlace);
        assert!(content(&bench.bytes()).1 == data);

        // The room can be given back.
        assert!(matches!(
            bench.edit(&[unset(FILLER_KEY)]).unwrap(),
            EditMethod::Copy("no space is to be reserved")
        ));
        assert!(bench.bytes() == original);
    }
}

/// The filler can have every size: the data keeps its offset for every length of a value.
#[test]
fn every_length_of_a_value_fits() {
    let mut metadata = small();
    metadata.set("general.name", "x".repeat(200).as_str());
    for alignment in [None, Some(64u32), Some(8)] {
        if let Some(alignment) = alignment {
            metadata.set("general.alignment", alignment);
        }
        let bench = Bench::new(&model(metadata.clone(), Endian::Little));
        let original = bench.bytes();
        let data = content(&original).1;
        let mut in_place = 0;
        for len in 0..=200 {
            let text = "y".repeat(len);
            in_place += usize::from(
                bench.edit(&[set(&format!("general.name={text}"))]).unwrap() == EditMethod::InPlace,
            );
            let (metadata, tensors) = content(&bench.bytes());
            assert!(
                tensors == data && metadata.get("general.name").unwrap().as_str() == Some(&text)
            );
            if len == 0 {
                fs::write(bench.path(), &original).unwrap();
            }
        }
        assert!(
            in_place >= if alignment == Some(8) { 150 } else { 200 },
            "{alignment:?}: {in_place}"
        );
    }
}

#[test]
fn another_alignment_moves_every_tensor() {
    for endian in [Endian::Little, Endian::Big] {
        let bench = Bench::new(&model(small(), endian));
        let before = content(&bench.bytes());
        assert!(matches!(
            bench.edit(&[set("general.alignment=4096")]).unwrap(),
            EditMethod::Rewrite(_)
        ));
        let bytes = bench.bytes();
        let model = Header::parse(&bytes).unwrap();
        assert!(
            model.endian() == endian
                && model.tensors().iter().all(|tensor| tensor.offset().is_multiple_of(4096))
        );
        let (metadata, tensors) = content(&bytes);
        assert!(tensors == before.1 && metadata.len() == before.0.len() + 1);
        assert!(matches!(
            bench.edit(&[unset("general.alignment")]).unwrap(),
            EditMethod::Rewrite(_)
        ));
        assert!(content(&bench.bytes()) == before);
    }
}

/// Real files: an edit and its inverse, in place and into a new file.
#[test]
fn an_edit_and_its_inverse_restore_real_files() {
    for path in every_gguf() {
        let bytes = fs::read(&path).unwrap();
        if bytes.len() > 32 << 20 || Header::parse(&bytes).is_err() {
            continue;
        }
        let before = content(&bytes);
        if before.0.get("general.architecture").is_none() {
            continue;
        }
        let bench = Bench::new(&bytes);
        let there = [
            set("edit.test.number=1"),
            set("edit.test.text=some text"),
            rename("general.architecture", "edit.test.arch"),
            rename("edit.test.arch", "general.architecture"),
        ];
        let edited = match bench.edit(&there) {
            Ok(_) => bench.bytes(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{}: {error}", path.display());
                continue;
            }
        };
        assert!(content(&edited).0.len() == before.0.len() + 2, "{}", path.display());
        bench.edit(&[unset("edit.test.*")]).unwrap();
        assert!(content(&bench.bytes()) == before, "{}", path.display());
        let model = Header::parse(&bytes).unwrap();
        if model.version() > 1 && !model.tensors().is_empty() {
            bench.edit(&[unset(FILLER_KEY)]).unwrap();
            assert!(bench.bytes() == bytes, "{}", path.display());
        }
    }
}

#[test]
fn a_vocabulary_is_replaced_as_a_whole() {
    let bench = Bench::new(&fs::read(real("ggml-vocab-phi-3.gguf")).unwrap());
    let model = content(&bench.bytes()).0;
    let count = model.get("tokenizer.ggml.tokens").unwrap().as_array().unwrap().len();
    let tokens: Vec<String> = (0..count).map(|id| format!("token {id}")).collect();
    bench
        .edit(&[
            Edit::Tokens(tokens),
            Edit::SpecialToken { role: "pad".into(), token: "token 17".into() },
        ])
        .unwrap();
    let model = content(&bench.bytes()).0;
    assert_eq!(model.get("tokenizer.ggml.padding_token_id"), Some(Value::U32(17)));
    let last = model
        .get("tokenizer.ggml.tokens")
        .unwrap()
        .as_array()
        .unwrap()
        .get(count - 1)
        .unwrap()
        .unwrap();
    assert_eq!(last.as_str(), Some(&*format!("token {}", count - 1)));
}

/// A file that another program changes between opening and writing keeps the content of that program.
#[test]
fn a_file_that_changes_meanwhile_is_not_edited() {
    let original = model(small(), Endian::Little);
    for edit in [
        set("general.name=Five5"),
        set(&format!("general.name={}", "x".repeat(1000))),
        set("general.alignment=64"),
    ] {
        let bench = Bench::new(&original);
        let mut editor = Editor::open(bench.path()).unwrap();
        let edited = editor.edit(std::slice::from_ref(&edit)).unwrap();
        let plan = editor.plan(edited).unwrap();
        fs::OpenOptions::new().append(true).open(bench.path()).unwrap().write_all(b"more").unwrap();
        let changed = bench.bytes();
        let error = editor.apply(plan, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(error.to_string().contains("another program changed the file"), "{error}");
        assert!(bench.bytes() == changed);
    }
}

/// No file system inserts 32 bytes, so the file is copied. The copy has the edit of the plan, and not
/// a later one of the same editor.
#[test]
fn a_plan_that_falls_back_to_a_copy_writes_its_own_edit() {
    let bench = Bench::new(&model(small(), Endian::Little));
    let mut editor = Editor::open(bench.path()).unwrap();
    let edited = editor.edit(&[set(&format!("general.name={}", "x".repeat(1000)))]).unwrap();
    let destination = Destination::SameFile { insert_block: Some(1), names: 1 };
    let plan = EditPlan::new(editor.model(), edited, destination).unwrap();
    assert!(matches!(plan.method(), EditMethod::Insert(_)), "{:?}", plan.method());
    let _later = editor.plan(editor.edit(&[unset("general.name")]).unwrap()).unwrap();
    let method = editor.apply(plan, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(matches!(method, EditMethod::Copy(_)), "{method:?}");
    let name = content(&bench.bytes()).0.get("general.name").unwrap().as_str().map(str::len);
    assert_eq!(name, Some(1000));
}

/// The second of two editors of a file is refused.
#[test]
fn one_editor_at_a_time() {
    let bench = Bench::new(&model(small(), Endian::Little));
    let first = Editor::open(bench.path()).unwrap();
    let error = Editor::open(bench.path()).unwrap_err();
    assert!(error.to_string().ends_with("another program is editing it"), "{error}");
    drop(first);
    assert!(Editor::open(bench.path()).is_ok());
}

#[cfg(unix)]
#[test]
fn names_and_links() {
    let bench = Bench::new(&model(small(), Endian::Little));
    let (link, other) =
        (bench.directory.path().join("link.gguf"), bench.directory.path().join("other.gguf"));
    std::os::unix::fs::symlink(bench.path(), &link).unwrap();
    let error = Editor::open(&link).unwrap_err().to_string();
    assert!(
        error.contains("is a symbolic link to ")
            && error.ends_with("model.gguf, expected the file itself"),
        "{error}"
    );
    fs::hard_link(bench.path(), &other).unwrap();
    let before = fs::read(&other).unwrap();
    let mut editor = Editor::open(bench.path()).unwrap();
    let edited = editor.edit(&[set("general.name=Five")]).unwrap();
    let plan = editor.plan(edited).unwrap();
    assert!(matches!(plan.method(), EditMethod::Copy(why) if why.contains("hard links")));
    editor.apply(plan, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(fs::read(&other).unwrap() == before && bench.bytes() != before);
}

/// A value as JSON, and its type.
fn as_json(value: &Value<'_>) -> (String, serde_json::Value) {
    match *value {
        Value::Str(text) => ("string".into(), text.to_str().unwrap().into()),
        Value::U32(number) => ("u32".into(), number.into()),
        Value::I64(number) => ("i64".into(), number.into()),
        Value::Bool(value) => ("bool".into(), value.into()),
        Value::Array(array) => (
            "[string]".into(),
            array
                .strings()
                .unwrap()
                .map(|text| text.unwrap().to_str().unwrap())
                .collect::<Vec<_>>()
                .into(),
        ),
        ref other => unreachable!("{other:?}"),
    }
}

#[derive(Clone, Debug)]
enum Random {
    Text(String),
    Number(u32),
    Long(i64),
    Flag(bool),
    List(Vec<String>),
}

impl Random {
    fn put(&self, metadata: &mut MetadataBuf, key: &str) {
        let value: &dyn Fn(&mut MetadataBuf) = &|metadata| match self {
            Self::Text(v) => put(metadata, key, v.as_str()),
            Self::Number(v) => put(metadata, key, *v),
            Self::Long(v) => put(metadata, key, *v),
            Self::Flag(v) => put(metadata, key, *v),
            Self::List(v) => put(metadata, key, v.clone()),
        };
        value(metadata);
    }
}

fn put(metadata: &mut MetadataBuf, key: &str, value: impl ToValue) {
    metadata.set(key, value);
}

fn random() -> impl Strategy<Value = Random> {
    prop_oneof![
        "[ -~é]{0,80}".prop_map(Random::Text),
        any::<u32>().prop_map(Random::Number),
        any::<i64>().prop_map(Random::Long),
        any::<bool>().prop_map(Random::Flag),
        proptest::collection::vec("[a-z]{0,12}", 0..40).prop_map(Random::List),
    ]
}

/// An edit and its inverse, given the metadata before it.
fn step(
    metadata: &MetadataBuf,
    kind: u8,
    place: usize,
    value: &Random,
    number: usize,
) -> (Edit, Edit) {
    let keys: Vec<String> = metadata
        .iter()
        .map(|(key, _)| key.to_string())
        .filter(|key| key.starts_with("k."))
        .collect();
    let set_to = |key: &str, value: &Value<'_>| {
        let (key_type, json) = as_json(value);
        Edit::Set {
            key: key.into(),
            key_type: Some(key_type.parse().unwrap()),
            value: EditValue::Json(json),
        }
    };
    let mut one = MetadataBuf::new();
    value.put(&mut one, "v");
    let new = one.get("v").unwrap();
    match (kind, keys.get(place % keys.len().max(1))) {
        (0, Some(key)) => (set_to(key, &new), set_to(key, &metadata.get(key).unwrap())),
        (1, Some(key)) => (
            rename(key, &format!("k.renamed.{number}")),
            rename(&format!("k.renamed.{number}"), key),
        ),
        _ => (set_to(&format!("k.new.{number}"), &new), unset(&format!("k.new.{number}"))),
    }
}

/// Edits, then their inverses in reverse order, restore the metadata in its order and the data, and
/// without a filler every byte.
#[test]
fn an_edit_and_its_inverse_cancel() {
    let cases = (
        proptest::collection::vec(random(), 0..6),
        proptest::collection::vec((0u8..3, any::<usize>(), random()), 1..6),
        prop_oneof![Just(Endian::Little), Just(Endian::Big)],
        any::<bool>(),
    );
    let mut runner =
        TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    runner
        .run(&cases, |(values, steps, endian, at_once)| {
            let mut metadata = MetadataBuf::new();
            metadata.set("general.architecture", "llama");
            for (number, value) in values.iter().enumerate() {
                value.put(&mut metadata, &format!("k.{number}"));
            }
            let original = model(metadata, endian);
            let bench = Bench::new(&original);
            let before = content(&original);
            let mut now = before.0.clone();
            let (mut there, mut back) = (Vec::new(), Vec::new());
            for (number, (kind, place, value)) in steps.iter().enumerate() {
                let (edit, inverse) = step(&now, *kind, *place, value, number);
                now = ggmill_edit::edit_metadata(&now, std::slice::from_ref(&edit), None)
                    .unwrap()
                    .metadata()
                    .clone();
                there.push(edit);
                back.insert(0, inverse);
            }
            if at_once {
                bench.edit(&there).unwrap();
                prop_assert!(content(&bench.bytes()) == (now, before.1.clone()));
                bench.edit(&back).unwrap();
            } else {
                for edit in there.iter().chain(&back) {
                    bench.edit(std::slice::from_ref(edit)).unwrap();
                    prop_assert!(content(&bench.bytes()).1 == before.1);
                }
            }
            let bytes = bench.bytes();
            prop_assert!(content(&bytes) == before);
            prop_assert!(filler(&bytes).is_some() || bytes == original);
            Ok(())
        })
        .unwrap();
}

#[test]
fn control_characters_are_escaped_in_messages() {
    let bench = Bench::new(&model(small(), Endian::Little));
    let unfit = bench.plan(&[unset("\u{1b}2J")]).unwrap_err().to_string();
    assert!(unfit.contains(r"\u{1b}2J") && !unfit.contains('\u{1b}'), "{unfit}");
    let error = Edit::parse_unset("\u{1b}[2J").unwrap_err().to_string();
    assert!(error.contains(r"\u{1b}[2J") && !error.contains('\u{1b}'), "{error}");
}
