//! The front door: the verbs, their results, and the error.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill::core::Builder;
use ggmill::{Error, GgmlType, Hint, MetadataBuf, Model, Note, Shape, Stage};

/// Writes a model with two matrices.
fn model(directory: &Path) -> PathBuf {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    let shape = Shape::new(&[64, 4]).unwrap();
    let plan = Builder::new()
        .metadata(metadata)
        .tensor("output_norm.weight", GgmlType::F32, Shape::new(&[64]).unwrap())
        .tensor("blk.0.ffn_up.weight", GgmlType::F32, shape)
        .plan()
        .unwrap();
    let mut bytes = plan.header().to_vec();
    bytes.resize(usize::try_from(plan.total_len()).unwrap(), 0);
    let path = directory.join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn an_error_has_the_size_of_a_pointer() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<ggmill::Result<()>>(), size_of::<usize>());
}

#[test]
fn errors_have_accessors() {
    let directory = tempfile::tempdir().unwrap();
    let path = model(directory.path());
    let missing = Model::open(directory.path().join("no.gguf")).unwrap_err();
    assert!(missing.is_not_found() && missing.os_code().is_some(), "{missing:?}");
    assert_eq!(missing.path(), Some(&*directory.path().join("no.gguf")));

    let open = Model::open(&path).unwrap();
    let missing = open.tensor("no.weight").unwrap_err();
    assert!(missing.is_not_found() && missing.path() == Some(&*path), "{missing:?}");
    assert_eq!(missing.tensor().unwrap().to_str().unwrap(), "no.weight");
    let missing = Error::from(open.metadata().str("no.key").unwrap_err());
    assert!(missing.is_not_found() && missing.key().is_some(), "{missing:?}");

    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    let cut = Model::open(&path).unwrap_err();
    assert!(cut.is_truncated() && cut.hint() == Some(&Hint::DownloadRest), "{cut:?}");
    assert_eq!(Model::open_damaged(&path).unwrap().tensors().len(), 2);
    std::fs::write(&path, "<!DOCTYPE html>").unwrap();
    let other = Model::open(&path).unwrap_err();
    assert!(matches!(other.hint(), Some(Hint::Content(_))), "{other:?}");
}

#[test]
fn an_output_is_replaced_only_with_overwrite() {
    let directory = tempfile::tempdir().unwrap();
    let open = Model::open(model(directory.path())).unwrap();
    let out = directory.path().join("out.gguf");
    std::fs::write(&out, "precious").unwrap();
    let refused = ggmill::quantize(&open, "Q8_0").unwrap().write(&out).unwrap_err();
    assert!(refused.is_already_exists() && refused.hint() == Some(&Hint::Overwrite), "{refused}");
    let over_itself = ggmill::quantize(&open, "Q8_0").unwrap().overwrite(true);
    let refused = over_itself.write(directory.path().join("model.gguf")).unwrap_err();
    assert!(refused.is_misuse(), "{refused:?}");

    let quantize = ggmill::quantize(&open, "Q8_0").unwrap().overwrite(true).threads(2);
    let mut written = quantize.write(&out).unwrap();
    let len = std::fs::metadata(&out).unwrap().len();
    assert_eq!((written.paths(), written.total_len()), (&[out.clone()][..], len));
    assert_eq!(written.losses().unwrap().tensors.len(), 2);
    let small = Model::open(&out).unwrap();
    let up = small.tensor("blk.0.ffn_up.weight").unwrap();
    assert_eq!((up.ggml_type(), up.row_f32(3).unwrap()), (GgmlType::Q8_0, vec![0.0; 64]));
    assert!(up.row_f32(4).unwrap_err().is_misuse());
}

#[test]
fn a_callback_cancels_the_call_and_no_files_remain() {
    let directory = tempfile::tempdir().unwrap();
    let open = Model::open(model(directory.path())).unwrap();
    let out = directory.path().join("out.gguf");
    let mut seen = Vec::new();
    let quantize = ggmill::quantize(&open, "Q8_0").unwrap().on_progress(|now| {
        assert_eq!(now.stage, Stage::Writing);
        seen.push((now.tensor.to_owned(), now.number));
        ControlFlow::Break(())
    });
    let stopped = quantize.write(&out).unwrap_err();
    assert!(stopped.is_cancelled(), "{stopped:?}");
    assert_eq!(seen.len(), 1);
    assert!(seen[0].1.is_some_and(|(_, count)| count == 2), "{seen:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_refusal_to_write_does_not_prevent_planning() {
    let directory = tempfile::tempdir().unwrap();
    let open = Model::open(model(directory.path())).unwrap();
    let out = directory.path().join("out.gguf");
    // Rows of 64 elements do not fit blocks of 256, so a substitute type is noted.
    let plan = ggmill::quantize(&open, "Q4_K_M").unwrap().plan(&out).unwrap();
    assert!(plan.refusal().is_none());
    let notes = plan.notes();
    assert!(notes.iter().any(|note| matches!(note, Note::Plan(_))), "{notes:?}");
    assert!(!out.exists());
    assert_eq!(plan.write().unwrap().notes(), notes);

    let unknown = ggmill::quantize(&open, "Q4KM").unwrap_err();
    assert_eq!(unknown.hint(), Some(&Hint::SimilarTypes(vec!["Q4_K_M"])), "{unknown}");
    let unmatched = ggmill::quantize(&open, "Q8_0").unwrap().tensor_type("ffn_upp=q6_k").unwrap();
    let unmatched = unmatched.plan(directory.path().join("x.gguf")).unwrap_err();
    assert!(matches!(unmatched.hint(), Some(Hint::TensorPattern { .. })), "{unmatched:?}");
}

#[test]
fn a_file_is_edited_in_place_or_into_a_copy() {
    let directory = tempfile::tempdir().unwrap();
    let path = model(directory.path());
    let name = |path: &Path| {
        let open = Model::open(path).unwrap();
        open.metadata().str("general.name").map(str::to_owned).ok()
    };
    let edit = || ggmill::edit(&path).unwrap().set("general.name", "Tiny").unwrap();
    let planned = edit().plan().unwrap();
    assert_eq!(planned.new_keys().map(|key| key.to_string()).collect::<Vec<_>>(), ["general.name"]);
    assert!(!planned.is_written() && planned.check_outputs().is_ok());
    drop(planned);
    assert_eq!(name(&path), None);
    assert!(edit().apply().unwrap().is_written());
    assert_eq!(name(&path).as_deref(), Some("Tiny"));

    let copy = directory.path().join("copy.gguf");
    edit().set("general.name", "Copy").unwrap().write(&copy).unwrap();
    assert_eq!((name(&path).as_deref(), name(&copy).as_deref()), (Some("Tiny"), Some("Copy")));
    let exists = edit().write(&copy).unwrap_err();
    assert!(exists.is_already_exists() && exists.hint() == Some(&Hint::Overwrite), "{exists:?}");
    let itself = edit().overwrite(true).write(&path).unwrap_err();
    assert_eq!(itself.hint(), Some(&Hint::EditInPlace));

    let misspelled = || ggmill::edit(&path).unwrap().set("llama.context_lenght", "1").unwrap();
    let refused = misspelled().apply().unwrap_err();
    assert!(refused.is_refused() && refused.hint() == Some(&Hint::ForceEdit), "{refused:?}");
    misspelled().force(true).apply().unwrap();
    let unmatched = ggmill::edit(&path).unwrap().unset("general.nam").unwrap().apply().unwrap_err();
    assert!(matches!(unmatched.hint(), Some(Hint::Pattern(_))), "{unmatched:?}");
    assert!(ggmill::edit("https://example.com/a.gguf").unwrap_err().is_unsupported());
}

#[test]
fn a_model_is_split_and_merged_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = model(directory.path());
    let open = Model::open(&path).unwrap();
    let split = ggmill::split(&open).unwrap().limit(ggmill::pipeline::ShardLimit::Tensors(1));
    let shards = split.write(directory.path().join("shard")).unwrap();
    assert_eq!((shards.is_split(), shards.paths().len()), (true, 2));
    let out = directory.path().join("merged.gguf");
    let mut notes = Vec::new();
    let merge = ggmill::merge([&shards.paths()[1]]).unwrap().delete_shards(true);
    let merged = merge.on_note(|note| notes.push(note.clone())).write(&out).unwrap();
    assert!(merged.written().is_some() && merged.total_len() > 0);
    assert_eq!(notes, [Note::ShardsDeleted(2)]);
    assert!(shards.paths().iter().all(|path| !path.exists()));
    let merged = Model::open(&out).unwrap();
    assert!(ggmill::diff(&open, &merged).unwrap().run().unwrap().is_same());
    let hashed = |model: &Model| {
        ggmill::hash(model)
            .unwrap()
            .run()
            .unwrap()
            .lines()
            .iter()
            .map(|line| line.digest.clone())
            .collect()
    };
    let (one, two): (Vec<String>, Vec<String>) = (hashed(&open), hashed(&merged));
    assert!(one == two && one.len() == 3, "{one:?}");
}

#[test]
fn tensors_are_extracted_and_grafted_and_the_result_is_checked() {
    let directory = tempfile::tempdir().unwrap();
    let path = model(directory.path());
    let open = Model::open(&path).unwrap();
    let norm = directory.path().join("norm.npy");
    let extract = ggmill::extract(&open).unwrap().tensors(["output_norm*".parse().unwrap()]);
    assert_eq!(extract.write(&norm).unwrap().tensors(), 1);
    let unmatched = ggmill::extract(&open).unwrap().tensors(["output_nrom".parse().unwrap()]);
    let unmatched = unmatched.write(directory.path().join("x.npy")).unwrap_err();
    assert!(unmatched.is_not_found(), "{unmatched:?}");

    let out = directory.path().join("grafted.gguf");
    let graft = ggmill::graft(&open).unwrap().donor(&norm, Some("blk.0.norm.weight")).add(true);
    let graft = graft.rename(["blk.0.ffn_up.weight=blk.1.ffn_up.weight".parse().unwrap()]);
    graft.write(&out).unwrap();
    let grafted = Model::open(&out).unwrap();
    let names: Vec<String> = grafted.tensors().map(|tensor| tensor.name().to_string()).collect();
    assert_eq!(names, ["output_norm.weight", "blk.1.ffn_up.weight", "blk.0.norm.weight"]);
    assert!(!ggmill::diff(&open, &grafted).unwrap().run().unwrap().is_same());

    let repacked = directory.path().join("big.gguf");
    let repack = ggmill::repack(&open).unwrap().endian(ggmill::Endian::Big);
    repack.write(&repacked).unwrap();
    let checked = ggmill::check(&repacked).unwrap().data(true).run().unwrap();
    let [file] = checked.files() else { panic!("one file") };
    assert!(file.error().is_none() && file.report().is_some() && !file.is_data_unread());
    std::fs::write(&repacked, "<!DOCTYPE html>").unwrap();
    let checked = ggmill::check(&repacked).unwrap().run().unwrap();
    let error = checked.files()[0].error().unwrap();
    assert!(matches!(error.hint(), Some(Hint::Content(_))), "{error:?}");
    assert!(checked.files()[0].report().is_some_and(ggmill::check::Report::has_errors));
}
