//! Importance matrices measured in parts: saved on the way, and continued.

use ggmill_quantize::{Imatrix, ImatrixForm, ImatrixRun, ResumeError};

/// The sums of each chunk: of a matrix of two columns, and of two experts of which each chunk takes
/// one.
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

/// The sums of some chunks together.
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

fn made(run: &ImatrixRun, chunks: std::ops::Range<usize>) -> Imatrix {
    let count = chunks.len();
    let sums = sums(chunks);
    run.imatrix(sums.iter().map(|(name, sums, counts)| (*name, &**sums, &**counts)), count).unwrap()
}

fn run() -> ImatrixRun {
    ImatrixRun::new(16).with_dataset(Some("text.txt".to_owned()))
}

#[test]
fn a_run_that_is_continued_gives_what_one_run_gives() {
    let whole = made(&run(), 0..4);
    assert_eq!((whole.chunk_count(), whole.chunk_size()), (4, 16));
    for interrupted in 1..4 {
        let earlier = made(&run(), 0..interrupted);
        // As it comes from the file.
        let file = earlier.to_bytes(ImatrixForm::Gguf).unwrap();
        let continued = run().resume(Imatrix::parse(&file).unwrap()).unwrap();
        assert_eq!(continued.done(), interrupted);
        assert_eq!(continued.earlier(), Some(&earlier));
        assert_eq!(made(&continued, interrupted..4), whole);
    }
}

/// A matrix without the name of a text gets that of the run that continues it.
#[test]
fn the_name_of_the_text_is_not_lost() {
    let earlier = made(&ImatrixRun::new(16), 0..2);
    assert_eq!(earlier.datasets().len(), 0);
    let continued = run().resume(earlier).unwrap();
    assert_eq!(made(&continued, 2..4), made(&run(), 0..4));
}

#[test]
fn it_is_saved_after_every_so_many_chunks() {
    let due = |every, groups: &[usize]| {
        let mut run = run().with_save_every(every);
        let due = groups.iter().copied().filter(|&chunks| run.is_due(chunks));
        due.collect::<Vec<_>>()
    };
    assert_eq!(due(3, &[1, 2, 3, 4, 5, 6, 7]), [3, 6]);
    // Chunks that are run together are done at once.
    assert_eq!(due(3, &[2, 4, 6, 8, 10]), [4, 8]);
    assert_eq!(due(0, &[1, 2, 3]), [1, 2, 3]);
    let mut never = run();
    assert!(!never.is_due(1 << 30));
}

#[test]
fn a_matrix_of_another_run_is_refused() {
    let refused = |run: ImatrixRun, earlier: &Imatrix| run.resume(earlier.clone()).unwrap_err();
    let earlier = made(&run(), 0..2);
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
