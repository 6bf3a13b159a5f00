//! Reading all data of a model detects an interrupted edit, and a file that changes during the
//! work.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ggmill::core::{Builder, Model};
use ggmill::io::ErrorKind as IoKind;
use ggmill::pipeline::{
    Checkpoint as _, ErrorKind, GgufCheckpoint, Recipe, Report, Result, RunOptions,
};
use ggmill::{GgmlType, Shape};

/// The operations that read all data of a model, with their names.
const READERS: [(&str, fn(&GgufCheckpoint, &mut Report<'_>) -> Result<()>); 8] = [
    ("run", |model, progress| {
        let plan = Recipe::copy_of(model)?.plan(model)?;
        ggmill::pipeline::run(&plan, model, Vec::new(), &RunOptions::default(), progress).map(drop)
    }),
    ("hash", |model, progress| {
        ggmill::hash::hash(
            model,
            &[ggmill::hash::HashKind::Xxh64],
            true,
            &RunOptions::default(),
            progress,
        )
        .map(drop)
    }),
    ("compare", |model, progress| {
        ggmill::hash::compare(
            model,
            model,
            &[ggmill::hash::ToCompare { a: 0, b: 0 }],
            true,
            &RunOptions::default(),
            progress,
        )
        .map(drop)
    }),
    ("extract to npy", |model, progress| {
        ggmill::formats::extract_npy(model, 0, false, Vec::new(), &RunOptions::default(), progress)
            .map(drop)
    }),
    ("extract to safetensors", |model, progress| {
        ggmill::formats::extract_safetensors(
            model,
            &[0, 1],
            false,
            Vec::new(),
            &RunOptions::default(),
            progress,
        )
        .map(drop)
    }),
    ("loss", |model, progress| {
        let plan = Recipe::copy_of(model)?.plan(model)?;
        ggmill::quantize::loss(&[&plan], model, model, None, &RunOptions::default(), progress)
            .map(drop)
    }),
    ("fit", |model, progress| {
        let options = ggmill::quantize::QuantizeOptions::new(ggmill::quantize::Target::copy());
        let goal = ggmill::quantize::Goal::BitsPerWeight(20.0);
        ggmill::quantize::fit(model, &options, None, goal, &RunOptions::default(), progress)
            .map(drop)
    }),
    ("examine", |model, progress| {
        let part = &model.model().parts()[0];
        ggmill::check::examine(part, &RunOptions::default(), progress).map(drop)
    }),
];

fn write(path: &Path) {
    let builder = ["a.weight", "b.weight"].iter().fold(Builder::new(), |builder, name| {
        builder.tensor(*name, GgmlType::F32, Shape::new(&[32, 2]).unwrap())
    });
    let plan = builder.plan().unwrap();
    let mut bytes = plan.header().to_vec();
    bytes.resize(usize::try_from(plan.total_len()).unwrap(), 1);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_source_that_changes_during_reading_is_an_error() {
    for (name, read) in READERS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        write(&path);
        let model = GgufCheckpoint::open(&path).unwrap();
        read(&model, &mut |_| ControlFlow::Continue(())).unwrap();
        let error = read(&model, &mut |_| {
            // Content of the same length, written a second later.
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
            ControlFlow::Continue(())
        });
        let error = error.err().unwrap_or_else(|| panic!("{name} overlooks it"));
        assert_eq!(error.kind(), ErrorKind::Changed, "{name}: {error}");
        assert_eq!(error.path(), Some(&*path), "{name}");
        assert!(model.model().verify().is_err());
    }
}

#[test]
fn a_file_with_an_interrupted_edit_is_not_read() {
    for (name, read) in READERS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        write(&path);
        fs::write(ggmill::io::journal_path(&path), b"GGMILLJ1").unwrap();
        let model = GgufCheckpoint::open(&path).unwrap();
        assert_eq!(model.tensors().len(), 2);
        let error = read(&model, &mut |_| panic!("{name} reads it")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{name}: {error}");
        assert!(
            error.to_string().contains("an edit of this file was interrupted"),
            "{name}: {error}"
        );
        let cause =
            error.cause().and_then(|cause| cause.downcast_ref::<ggmill::io::Error>()).unwrap();
        assert_eq!(cause.kind(), IoKind::Journal);
    }
}

/// The kind of a read error is preserved through the layers above.
#[test]
fn a_truncated_source_has_its_own_kind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    write(&path);
    let model = GgufCheckpoint::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(300).unwrap();
    assert_eq!(GgufCheckpoint::open(&path).unwrap_err().kind(), ErrorKind::Truncated);
    let error = model.read(1, 0, &mut [0; 256]).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Truncated, Some(&*path)));
    assert_eq!(
        GgufCheckpoint::open(directory.path().join("absent.gguf")).unwrap_err().kind(),
        ErrorKind::Io
    );
    // In memory there is no path; everything else is equal.
    let bytes = fs::read(&path).unwrap();
    assert_eq!(Model::open(bytes).unwrap_err().kind(), ggmill::core::ErrorKind::Truncated);
}
