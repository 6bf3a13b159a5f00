//! Importance matrices: real, made, and broken.

use ggmill_core::Gguf;
use ggmill_pipeline::ErrorKind;
use ggmill_quantize::{Imatrix, ImatrixForm};
use ggmill_testdata::models::models;
use ggmill_testdata::shared;

/// A file that people used: 22 layers of seven tensors.
#[test]
fn a_real_file_of_the_old_form_is_read() {
    let Some(path) = shared("imatrix/tinyllama-1.1b-shape.imatrix.dat") else { return };
    let imatrix = Imatrix::open(path).unwrap();
    assert_eq!(
        (imatrix.form(), imatrix.entries().len(), imatrix.chunk_count()),
        (ImatrixForm::Legacy, 154, 365)
    );
    assert_eq!(
        imatrix.datasets().map(|name| name.to_string()).collect::<Vec<_>>(),
        ["imatrix-training-full-3"]
    );
    let entry = imatrix.get(b"blk.21.ffn_up.weight").unwrap();
    assert_eq!((entry.len(), entry.counts()), (2048, &[365][..]));
    // The first value is 27.720335, over 365 calls.
    assert_eq!(entry.weights()[0].to_bits(), (f32::from_bits(0x41dd_c33f) / 365.0).to_bits());
}

#[test]
fn both_forms_hold_the_same_entries() {
    for model in models() {
        let (new, old) = (
            Imatrix::parse(&model.imatrix()).unwrap(),
            Imatrix::parse(&model.legacy_imatrix()).unwrap(),
        );
        assert_eq!(
            (new.form(), new.chunk_count(), new.chunk_size(), new.datasets().len()),
            (ImatrixForm::Gguf, 7, 512, 2)
        );
        assert_eq!(
            (old.form(), old.chunk_count(), old.chunk_size(), old.datasets().len()),
            (ImatrixForm::Legacy, 7, 0, 1)
        );
        assert!(
            new.entries()
                .map(|(name, entry)| (name, entry.len()))
                .eq(old.entries().map(|(name, entry)| (name, entry.len())))
        );
    }
}

#[test]
fn a_matrix_that_was_never_used_matters_evenly() {
    let mixtral = models().into_iter().find(|model| model.name == "mixtral").unwrap();
    let imatrix = Imatrix::parse(&mixtral.imatrix()).unwrap();
    let entry = imatrix.get(b"blk.0.ffn_up_exps.weight").unwrap();
    assert_eq!((entry.width(), entry.counts()), (256, &[0, 96, 96, 96, 96, 96, 96, 96][..]));
    let weights = entry.weights();
    assert!(
        weights[..256].iter().all(|&weight| weight == 1.0)
            && weights[256..512].iter().any(|&weight| weight != 1.0)
    );
}

/// Wherever a file ends, and whatever bit is wrong, there is an answer.
#[test]
fn broken_files_are_refused_or_read() {
    let falcon = models().into_iter().find(|model| model.name == "falcon").unwrap();
    for (file, least) in [(falcon.imatrix(), 1500), (falcon.legacy_imatrix(), 0)] {
        for end in (0..3000.min(file.len())).chain((3000..file.len()).step_by(97)) {
            let result = Imatrix::parse(&file[..end]);
            assert!(result.is_err() || end >= file.len() - 16, "cut at {end}");
            assert!(result.is_ok() || result.unwrap_err().kind() == ErrorKind::Importance);
        }
        for bit in (0..8 * 2000).chain((least..file.len() * 8).step_by(4099)) {
            let mut broken = file.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let _ = Imatrix::parse(&broken);
        }
    }
}

#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_allocated() {
    let with = |numbers: &[i32]| {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()
    };
    for (file, words) in [
        (with(&[i32::MAX]), "2147483647 entries in the remaining 0 bytes"),
        (with(&[-1, 0, 0, 0, 0]), "-1 entries"),
        (with(&[0]), "has no entries"),
        (with(&[1, i32::MAX, 0, 0, 0]), "2147483647 bytes of a name in the remaining 12 bytes"),
        (with(&[1, 0, 1, i32::MAX, 0]), "2147483647 values in the remaining 4 bytes"),
        (with(&[1, 0, 1, 0, 0]), "has no values"),
        (with(&[1, 0, 1, 1, 0x7fc0_0000]), "weight 0 is not finite"),
        (with(&[2, 0, 1, 1, 0, 0, 1, 1, 0]), "entry \"\" is a duplicate"),
        (with(&[vec![70_000], vec![0; 4 * 70_000]].concat()), "70000 entries, the limit is 65536"),
        (b"GGUF".to_vec(), "offset 0x4"),
        (vec![], "needs 4 bytes, but 0 remain"),
    ] {
        let error = Imatrix::parse(&file).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Importance && error.to_string().contains(words),
            "{error}, expected {words}"
        );
    }
}

/// Files without content, whose size is that of a whole disk: what does not fit is refused before
/// memory is asked for.
#[test]
fn sizes_are_bounded_before_anything_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.imatrix");
    let open = |head: &[u8], len: u64| {
        std::fs::write(&path, head).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        Imatrix::open(&path).unwrap_err().to_string()
    };
    let gguf = {
        let (name, suffix) = (b"a", [".in_sum2", ".counts"]);
        let shape = |len| ggmill_core::Shape::new(&[len]).unwrap();
        let mut builder = ggmill_core::Builder::new();
        for (suffix, len) in suffix.iter().zip([1 << 31, 1]) {
            builder = builder.tensor(
                [name, suffix.as_bytes()].concat(),
                ggmill_core::GgmlType::F32,
                shape(len),
            );
        }
        builder.plan().unwrap().header().to_vec()
    };
    for head in [&gguf[..], &1i32.to_le_bytes(), b""] {
        let error = open(head, 8 << 30);
        assert!(error.contains("8.00 GiB, the limit is 4.00 GiB"), "{error}");
    }
    // One entry of 2^26 + 1 values, in as many bytes as it takes.
    let entry: Vec<u8> = [1, 0, 1, (1 << 26) + 1].into_iter().flat_map(i32::to_le_bytes).collect();
    let error = open(&entry, 16 + (4 << 26) + 4);
    assert!(error.contains("67108865 values, the limit is 67108864"), "{error}");
}

/// Written again, a file is what it was: as the reference writes it, so byte for byte.
#[test]
fn a_matrix_is_written_as_it_was_read() {
    for model in models() {
        let file = model.imatrix();
        let imatrix = Imatrix::parse(&file).unwrap();
        let again = imatrix.to_bytes(ImatrixForm::Gguf).unwrap();
        assert!(Imatrix::parse(&again).unwrap() == imatrix);
        let shapes = |bytes: &[u8]| {
            let file = Gguf::parse(bytes.to_vec()).unwrap();
            file.tensors()
                .iter()
                .map(|tensor| (tensor.name().to_string(), tensor.shape().dimensions().to_vec()))
                .collect::<Vec<_>>()
        };
        assert!(
            shapes(&again)
                .iter()
                .all(|(_, dimensions)| dimensions.len() == 1 || dimensions.last() != Some(&1)),
            "{}",
            model.name
        );
    }
}

#[test]
fn sums_and_counts_add_up() {
    let mixtral = models().into_iter().find(|model| model.name == "mixtral").unwrap();
    let (new, old) = (
        Imatrix::parse(&mixtral.imatrix()).unwrap(),
        Imatrix::parse(&mixtral.legacy_imatrix()).unwrap(),
    );
    let name = b"blk.0.ffn_up_exps.weight";
    // A legacy file with 5 calls of 512 tokens; 96 tokens, none of them for the first expert.
    let both = Imatrix::merge(&[old.clone(), new.clone()], 0).unwrap();
    assert_eq!(both.get(name).unwrap().counts(), [2560, 2656, 2656, 2656, 2656, 2656, 2656, 2656]);
    assert_eq!((both.chunk_count(), both.chunk_size()), (5, 512));
    assert_eq!(
        both.datasets().map(|name| name.to_string()).collect::<Vec<_>>(),
        ["one.txt", "one.txt", "two.txt"]
    );
    // Means of the same measurements are what they were: 5 calls of 512 against 96 tokens.
    let twice = Imatrix::merge(&[new.clone(), new.clone()], 0).unwrap();
    assert_eq!(twice.get(name).unwrap().weights(), new.get(name).unwrap().weights());
    assert_eq!(Imatrix::merge(&[old], 2048).unwrap().get(name).unwrap().counts(), [5 * 2048]);
}

#[test]
fn matrices_of_different_models_are_told_apart_by_name() {
    let [llama, mixtral, .., falcon] = &models()[..] else { panic!("four models") };
    let parse = |model: &ggmill_testdata::models::Model| Imatrix::parse(&model.imatrix()).unwrap();
    let error = Imatrix::merge(&[parse(llama), parse(falcon)], 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"entry "blk.0.ffn_down.weight": 512 columns, but 256 in a different input, counted over all matrices"#
    );
    // Once for all experts, and once for each, in the order that does not work.
    let old = Imatrix::parse(&mixtral.legacy_imatrix()).unwrap();
    let as_one = Imatrix::merge(&[old], 0).unwrap();
    let error = Imatrix::merge(&[parse(mixtral), as_one], 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"entry "blk.0.ffn_down_exps.weight": 8 matrices, but 1 in a different input"#
    );
}

/// There and back: sums scaled to calls, an expert that was never used at 1.
#[test]
fn the_old_form_and_back() {
    for model in models() {
        let new = Imatrix::parse(&model.imatrix()).unwrap();
        let old = Imatrix::parse(&new.to_bytes(ImatrixForm::Legacy).unwrap()).unwrap();
        assert_eq!(
            (old.form(), old.chunk_count(), old.datasets().len()),
            (ImatrixForm::Legacy, 7, 1)
        );
        for ((name, new), (same, old)) in new.entries().zip(old.entries()) {
            assert_eq!(name, same);
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= a.abs() * 1e-6;
            assert!(new.weights().iter().zip(&old.weights()).all(close), "{name}");
        }
    }
    let mixtral = models().into_iter().find(|model| model.name == "mixtral").unwrap();
    let legacy = Imatrix::parse(&mixtral.legacy_imatrix()).unwrap();
    let again = Imatrix::parse(&legacy.to_bytes(ImatrixForm::Legacy).unwrap()).unwrap();
    assert_eq!(again.entries().len(), legacy.entries().len());
}
