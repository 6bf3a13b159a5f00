//! The verbs that read models and do not write them: measuring, estimating, rendering, listing,
//! indexing.

use std::ops::ControlFlow;

use ggmill::core::Builder;
use ggmill::quantize::ImatrixForm;
use ggmill::{Error, Hint, MetadataBuf, Model, Note, OpenOptions, RunText, Templates};

/// Returns a small trained model, converted.
fn trained(directory: &std::path::Path) -> Model {
    let path = directory.join("tiny.gguf");
    let checkpoint = ggmill_testdata::real("tinystories260K");
    ggmill::convert(&checkpoint).unwrap().to("F32").unwrap().write(&path).unwrap();
    Model::open(&path).unwrap()
}

/// Returns a model without tensors.
fn header(set: impl FnOnce(&mut MetadataBuf)) -> Model {
    let mut metadata = MetadataBuf::new();
    set(&mut metadata);
    Model::from_bytes(Builder::new().metadata(metadata).plan().unwrap().header().to_vec()).unwrap()
}

#[test]
fn models_are_measured_and_measurements_of_parts_merged() {
    let directory = tempfile::tempdir().unwrap();
    let model = trained(directory.path());
    let ids: Vec<u32> = (0..96).map(|place| 3 + place * 7 % 400).collect();
    let text = || RunText::tokens(ids.clone()).context(16);
    let mut chunks = 0;
    let measure = ggmill::measure(&model).unwrap().against(&model).text(text());
    let scores = measure
        .on_progress(|now| {
            chunks = now.done;
            ControlFlow::Continue(())
        })
        .run()
        .unwrap();
    assert_eq!((chunks, scores.context()), (6, 16));
    let (name, whole) = scores.measurements().remove(0);
    assert!(name.ends_with("tiny.gguf"), "{name}");
    assert!(whole.comparison.as_ref().unwrap().divergence.mean.value.abs() < 1e-9);

    let parts = [text().chunks(Some(2)), text().skip(2)].map(|part| {
        let scores = ggmill::measure(&model).unwrap().against(&model).text(part).run().unwrap();
        let path = directory.path().join(format!("{}.json", scores.measurements()[0].1.chunks));
        std::fs::write(&path, serde_json::to_vec(&scores).unwrap()).unwrap();
        path
    });
    let merged = ggmill::merge_scores(&parts).unwrap();
    assert_eq!(merged.measurements()[0].1, whole);

    let stopped = ggmill::measure(&model).unwrap().text(text());
    let stopped = stopped.on_progress(|_| ControlFlow::Break(())).run().unwrap_err();
    assert!(stopped.is_cancelled(), "{stopped:?}");
    assert!(ggmill::measure(&model).unwrap().run().unwrap_err().is_misuse());
    let short = ggmill::measure(&model).unwrap().text(RunText::tokens([1, 2, 3]));
    assert_eq!(short.run().unwrap_err().hint(), Some(&Hint::SmallerChunks(Some(3))));
}

#[test]
fn an_importance_matrix_is_resumed_and_merged() {
    let directory = tempfile::tempdir().unwrap();
    let model = trained(directory.path());
    let path = directory.path().join("text.json");
    let ids: Vec<u32> = (0..96).map(|place| 3 + place * 7 % 400).collect();
    std::fs::write(&path, serde_json::to_vec(&ids).unwrap()).unwrap();
    let text = || RunText::token_file(&path).context(16);
    let out = directory.path().join("imatrix.gguf");
    let whole = ggmill::imatrix(&model).unwrap().text(text()).run().unwrap();
    let half = ggmill::imatrix(&model).unwrap().text(text().chunks(Some(3)));
    assert_eq!(half.write(&out).unwrap().imatrix().chunk_count(), 3);
    let again = || ggmill::imatrix(&model).unwrap().text(text()).resume(true);
    assert_eq!(again().write(&out).unwrap().imatrix().entries().len(), whole.entries().len());
    let complete = again().write(&out).unwrap();
    assert!(matches!(complete.notes(), [Note::NoChunkLeft(_, 6)]), "{:?}", complete.notes());
    let other = again().text(text().context(32)).write(&out).unwrap_err();
    assert_eq!(other.hint(), Some(&Hint::ChunkSize(16)), "{other}");

    let legacy = directory.path().join("imatrix.dat");
    let written =
        ggmill::merge_imatrices(std::slice::from_ref(&out)).unwrap().write(&legacy).unwrap();
    assert_eq!(written.form(), ImatrixForm::Legacy);
    let over = ggmill::merge_imatrices(&[legacy]).unwrap().write(&out).unwrap_err();
    assert!(over.is_already_exists());
}

#[test]
fn memory_is_estimated_and_fitted() {
    let directory = tempfile::tempdir().unwrap();
    let model = trained(directory.path());
    let builder = ggmill::estimate(&model).unwrap().context(256);
    let on_host = builder.run().unwrap().estimate.total();
    let on_gpu = builder.clone().gpu_layers(u64::MAX).run().unwrap();
    assert_eq!(on_gpu.estimate.devices.len(), 2);
    assert!(on_host > 0);
    let fitted = builder.fit(&[1 << 30]).unwrap();
    assert_eq!(fitted.estimate.layers_on_devices(), fitted.estimate.layer_count());
    let unknown = header(|metadata| metadata.set("general.architecture", "unheard-of"));
    assert!(ggmill::estimate(&unknown).unwrap().fit(&[1 << 30]).is_err());
}

#[test]
fn conversations_are_rendered() {
    const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    let model = header(|metadata| metadata.set("tokenizer.chat_template", TEMPLATE));
    let render = || ggmill::render(&model).unwrap().message("user", "Hello");
    assert_eq!(render().run().unwrap().text(), "user: Hello\n");
    let missing = render().template("rag").run().unwrap_err();
    assert_eq!(missing.hint(), Some(&Hint::Templates(vec!["default".to_owned()])));
    let none = header(|metadata| metadata.set("general.name", "none"));
    let none = ggmill::render(&none).unwrap().message("user", "Hello").run().unwrap_err();
    assert!(none.is_not_found() && none.hint() == Some(&Hint::SetTemplate), "{none:?}");

    let (left, right) = (Templates::of(&model), Templates::parse("{{ messages|length }}").unwrap());
    let samples = ggmill::template::samples();
    let named = || samples.iter().map(|(name, conversation)| (*name, conversation));
    assert_eq!(left.compare(&left, None, named()).unwrap().len(), 0);
    assert_eq!(left.compare(&right, None, named()).unwrap().len(), samples.len());
}

#[test]
fn values_are_read_by_key_and_index() {
    let model = header(|metadata| {
        metadata.set("general.name", "tiny");
        metadata.set("x.list", vec![7u32, 8]);
    });
    assert_eq!(model.value("general.name").unwrap().as_str().unwrap(), "tiny");
    assert_eq!(model.value("x.list[1]").unwrap().as_u64(), Some(8));
    let outside = model.value("x.list[2]").unwrap_err();
    assert_eq!(outside.to_string(), r#"key "x.list[2]": the array has 2 elements, counted from 0"#);
    let missing = model.value("general.nme").unwrap_err();
    assert!(missing.is_not_found() && missing.key().is_some(), "{missing:?}");
    assert_eq!(missing.hint(), Some(&Hint::SimilarKeys(vec!["general.name".to_owned()])));
    assert!(Model::read_header(&b""[..], None, "-").unwrap_err().is_malformed());
    assert!(model.tokenizer().unwrap_err().is_not_found());
}

#[test]
fn directories_are_listed_and_indexed() {
    let directory = tempfile::tempdir().unwrap();
    let model = trained(directory.path());
    std::fs::write(directory.path().join("page.gguf"), "<!DOCTYPE html>").unwrap();
    let listing = OpenOptions::new().list(directory.path()).unwrap();
    let names: Vec<&str> = listing.models.iter().map(|model| &*model.name).collect();
    assert_eq!((names, listing.errors.len()), (vec!["page.gguf", "tiny.gguf"], 1));
    let missing = OpenOptions::new().list(directory.path().join("none")).unwrap_err();
    assert!(missing.is_not_found());

    let out = directory.path().join("models.ndjson");
    let paths = [directory.path().to_owned()];
    let index = || ggmill::index(&paths).unwrap();
    let mut notes = Vec::new();
    let made = index().on_note(|note| notes.push(note.clone())).write(&out).unwrap();
    assert_eq!((made.files, made.broken), (2, 1));
    assert_eq!(made.tensors, model.tensors().len() as u64);
    assert!(matches!(&*notes, [Note::Unreadable(_, why)] if why.contains("web page")), "{notes:?}");
    let exists: Error = index().write(&out).unwrap_err();
    assert_eq!(exists.hint(), Some(&Hint::UpdateOrOverwrite));
    assert_eq!(index().resume(true).write(&out).unwrap().kept, 1);
    let mut text = Vec::new();
    index().write_ndjson(&mut text).unwrap();
    assert_eq!(text, std::fs::read(&out).unwrap());
}
