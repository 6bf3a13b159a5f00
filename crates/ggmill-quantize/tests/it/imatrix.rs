//! Importance matrices: reading, writing, merging, and measuring in parts.

use ggmill_core::Header;
use ggmill_pipeline::ErrorKind;
use ggmill_quantize::{Imatrix, ImatrixForm, ImatrixRun, ResumeError};
use ggmill_testdata::models::models;
use ggmill_testdata::shared;

/// A published file: 22 layers of seven tensors.
#[test]
fn a_published_legacy_file_is_read() {
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
fn both_forms_have_the_same_entries() {
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
fn an_unused_matrix_has_even_weights() {
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

/// Truncation at any byte and any single-bit error give an error or a matrix, never a panic.
#[test]
fn broken_files_do_not_panic() {
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
fn counts_beyond_the_file_are_errors_before_allocation() {
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

/// Sparse files of enormous size: limits are checked before memory is allocated.
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
    // One entry of 2^26 + 1 values, all of which are in the file.
    let entry: Vec<u8> = [1, 0, 1, (1 << 26) + 1].into_iter().flat_map(i32::to_le_bytes).collect();
    let error = open(&entry, 16 + (4 << 26) + 4);
    assert!(error.contains("67108865 values, the limit is 67108864"), "{error}");
}

/// A file that is read and written is unchanged, byte for byte.
#[test]
fn files_round_trip() {
    for model in models() {
        let file = model.imatrix();
        let imatrix = Imatrix::parse(&file).unwrap();
        let again = imatrix.to_bytes(ImatrixForm::Gguf).unwrap();
        assert!(Imatrix::parse(&again).unwrap() == imatrix);
        let shapes = |bytes: &[u8]| {
            let file = Header::parse(bytes.to_vec()).unwrap();
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
fn merging_adds_sums_and_counts() {
    let mixtral = models().into_iter().find(|model| model.name == "mixtral").unwrap();
    let (new, old) = (
        Imatrix::parse(&mixtral.imatrix()).unwrap(),
        Imatrix::parse(&mixtral.legacy_imatrix()).unwrap(),
    );
    let name = b"blk.0.ffn_up_exps.weight";
    // A legacy file with 5 calls of 512 tokens, and a file with 96 tokens, none for the first
    // expert.
    let both = Imatrix::merge(&[old.clone(), new.clone()], 0).unwrap();
    assert_eq!(both.get(name).unwrap().counts(), [2560, 2656, 2656, 2656, 2656, 2656, 2656, 2656]);
    assert_eq!((both.chunk_count(), both.chunk_size()), (5, 512));
    assert_eq!(
        both.datasets().map(|name| name.to_string()).collect::<Vec<_>>(),
        ["one.txt", "one.txt", "two.txt"]
    );
    // Merging equal measurements does not change the means: 5 calls of 512 tokens, and 96 tokens.
    let twice = Imatrix::merge(&[new.clone(), new.clone()], 0).unwrap();
    assert_eq!(twice.get(name).unwrap().weights(), new.get(name).unwrap().weights());
    assert_eq!(Imatrix::merge(&[old], 2048).unwrap().get(name).unwrap().counts(), [5 * 2048]);
}

#[test]
fn merging_matrices_of_different_models_is_an_error() {
    let [llama, mixtral, .., falcon] = &models()[..] else { panic!("four models") };
    let parse = |model: &ggmill_testdata::models::Model| Imatrix::parse(&model.imatrix()).unwrap();
    let error = Imatrix::merge(&[parse(llama), parse(falcon)], 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"entry "blk.0.ffn_down.weight": 512 columns, but 256 in a different input, counted over all matrices"#
    );
    // Counts for all experts together cannot be added to counts for each expert in this order.
    let old = Imatrix::parse(&mixtral.legacy_imatrix()).unwrap();
    let as_one = Imatrix::merge(&[old], 0).unwrap();
    let error = Imatrix::merge(&[parse(mixtral), as_one], 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"entry "blk.0.ffn_down_exps.weight": 8 matrices, but 1 in a different input"#
    );
}

/// Conversion to the legacy form and back: sums are scaled to calls, and an unused expert has 1.
#[test]
fn conversion_to_the_legacy_form_round_trips() {
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

/// Returns the sums of a chunk: of a matrix of two columns, and of two experts, of which each chunk
/// uses one.
fn chunk(number: usize) -> [(&'static str, Vec<f64>, Vec<u64>); 2] {
    let sum = [1.0, 0.25, 3.0, 0.5][number];
    let of_experts = if number.is_multiple_of(2) { [16, 0] } else { [0, 16] };
    let sums = [
        sum * f64::from(u8::from(of_experts[0] > 0)),
        sum * f64::from(u8::from(of_experts[1] > 0)),
    ];
    [
        ("blk.0.ffn_up.weight", vec![sum, 2.0 * sum], vec![16]),
        ("blk.0.ffn_up_exps.weight", sums.to_vec(), of_experts.to_vec()),
    ]
}

/// Returns the sums of several chunks.
fn sums(chunks: std::ops::Range<usize>) -> [(&'static str, Vec<f64>, Vec<u64>); 2] {
    let mut all = chunks.map(chunk);
    let first = all.next().unwrap();
    all.fold(first, |mut all, chunk| {
        for (tensor, more) in all.iter_mut().zip(chunk) {
            tensor.1.iter_mut().zip(more.1).for_each(|(sum, more)| *sum += more);
            tensor.2.iter_mut().zip(more.2).for_each(|(count, more)| *count += more);
        }
        all
    })
}

fn measured(run: &ImatrixRun, chunks: std::ops::Range<usize>) -> Imatrix {
    let count = chunks.len();
    let sums = sums(chunks);
    run.imatrix(sums.iter().map(|(name, sums, counts)| (*name, &**sums, &**counts)), count).unwrap()
}

fn run() -> ImatrixRun {
    ImatrixRun::new(16).with_dataset(Some("text.txt".to_owned()))
}

#[test]
fn a_resumed_run_equals_one_run() {
    let whole = measured(&run(), 0..4);
    assert_eq!((whole.chunk_count(), whole.chunk_size()), (4, 16));
    for interrupted in 1..4 {
        let earlier = measured(&run(), 0..interrupted);
        // As it comes from the file.
        let file = earlier.to_bytes(ImatrixForm::Gguf).unwrap();
        let continued = run().resume(Imatrix::parse(&file).unwrap()).unwrap();
        assert_eq!(continued.done(), interrupted);
        assert_eq!(continued.earlier(), Some(&earlier));
        assert_eq!(measured(&continued, interrupted..4), whole);
    }
}

/// A matrix without a dataset name gets the name of the run that resumes it.
#[test]
fn the_dataset_name_is_kept() {
    let earlier = measured(&ImatrixRun::new(16), 0..2);
    assert_eq!(earlier.datasets().len(), 0);
    let continued = run().resume(earlier).unwrap();
    assert_eq!(measured(&continued, 2..4), measured(&run(), 0..4));
}

#[test]
fn checkpoints_are_due_at_the_interval() {
    let due = |every, groups: &[usize]| {
        let mut run = run().with_save_every(every);
        let due = groups.iter().copied().filter(|&chunks| run.is_due(chunks));
        due.collect::<Vec<_>>()
    };
    assert_eq!(due(3, &[1, 2, 3, 4, 5, 6, 7]), [3, 6]);
    // Chunks that run together complete at the same time.
    assert_eq!(due(3, &[2, 4, 6, 8, 10]), [4, 8]);
    assert_eq!(due(0, &[1, 2, 3]), [1, 2, 3]);
    let mut never = run();
    assert!(!never.is_due(1 << 30));
}

#[test]
fn resuming_from_another_run_is_an_error() {
    let refused = |run: ImatrixRun, earlier: &Imatrix| run.resume(earlier.clone()).unwrap_err();
    let earlier = measured(&run(), 0..2);
    let other = ImatrixRun::new(32).with_dataset(Some("text.txt".to_owned()));
    let error = refused(other, &earlier);
    assert_eq!(error, ResumeError::ChunkSize { found: 16, expected: 32 });
    assert_eq!(error.to_string(), "chunks of 16 tokens, expected 32");
    let error = refused(run().with_dataset(Some("other.txt".to_owned())), &earlier);
    assert_eq!(error.to_string(), "measured on text.txt, expected other.txt");
    let error = refused(run().with_dataset(None), &earlier);
    assert_eq!(error.to_string(), "measured on text.txt, expected no other text");
    let error = refused(run().with_output(true), &earlier);
    assert_eq!(error, ResumeError::Output { is_measured: false });
    let output = [("output.weight", &[1.0][..], &[16][..])];
    let with_output = run().with_output(true).imatrix(output, 1).unwrap();
    assert_eq!(refused(run(), &with_output), ResumeError::Output { is_measured: true });
    let uncounted = Imatrix::from_sums([("a", vec![1.0], vec![16])], None, (0, 16)).unwrap();
    assert_eq!(refused(run(), &uncounted), ResumeError::NoChunkCount);
}
