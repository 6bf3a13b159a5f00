//! Measures inputs that are hard for tokenizers, and the speedup of two threads; prints a Markdown
//! table.
//!
//! ```text
//! tokenizer_extremes MODEL.gguf TEXT
//! ```
//!
//! Runs of one letter, 600 KB with 40,000 special tokens (the vocabulary's end token), and TEXT as
//! one text and as parts of 64 KB, on one thread and on two. Times are medians of nine runs after one
//! that fills the cache of words: those of threads by the clock, for which the machine must be idle,
//! the others those of this thread on a processor.

use std::error::Error;
use std::num::NonZeroUsize;

use ggmill_core::Header;
use ggmill_tokenizer::{EncodeOptions, Tokenizer};
use rustix::time::{ClockId, clock_gettime};

type Done<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 9;
const SPECIALS: usize = 40_000;
const PART: usize = 64 << 10;

fn main() -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, text] = &*arguments else { return Err("expected MODEL.gguf TEXT".into()) };
    let model = std::fs::read(model)?;
    let tokenizer = Tokenizer::from_metadata(&Header::parse(&model)?.metadata())?;
    let options = EncodeOptions::new();
    let mut ids = Vec::new();
    let mut one = |text: &[u8]| {
        median(ClockId::ThreadCPUTime, || {
            ids.clear();
            Ok(tokenizer.encode(text, &options, &mut ids)?)
        })
    };
    line("work", "ms", "")?;
    line("---", "--:", "--:")?;
    for megabytes in [1, 2] {
        let took = one(&vec![b'a'; megabytes * 1_000_000])?;
        line(&format!("{megabytes} MB of one letter"), &format!("{took:.1}"), "")?;
    }
    let vocabulary = tokenizer.vocabulary();
    let end = vocabulary.special_ids().eos.and_then(|id| vocabulary.text(id));
    let special = [end.ok_or("no end token")?, b"ab"].concat().repeat(SPECIALS);
    let took = one(&special)?;
    let name = format!("{} KB with {SPECIALS} special tokens", special.len() / 1000);
    line(&name, &format!("{took:.1}"), "")?;
    let text = std::fs::read(text)?;
    let parts: Vec<&[u8]> = text.chunks(PART).collect();
    for (name, texts) in [("one text", vec![&*text]), ("parts of 64 KB", parts)] {
        let mut took = [0.0; 2];
        for (threads, took) in (1..).zip(&mut took) {
            let threads = NonZeroUsize::new(threads).ok_or("no thread")?;
            *took = median(ClockId::Monotonic, || {
                drop(tokenizer.encode_batch(&texts, &options, threads)?);
                Ok(())
            })?;
        }
        let [alone, both] = took;
        line(&format!("{name}, one thread"), &format!("{alone:.1}"), "")?;
        let gain = format!("{:.2}×", alone / both);
        line(&format!("{name}, two threads"), &format!("{both:.1}"), &gain)?;
    }
    Ok(())
}

/// The median of some runs in milliseconds.
fn median(clock: ClockId, mut work: impl FnMut() -> Done<()>) -> Done<f64> {
    work()?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begin = clock_gettime(clock);
        work()?;
        let end = clock_gettime(clock);
        let seconds = i32::try_from(end.tv_sec - begin.tv_sec)?;
        let nanoseconds = i32::try_from(end.tv_nsec - begin.tv_nsec)?;
        times.push(f64::from(seconds) * 1e3 + f64::from(nanoseconds) / 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

fn line(work: &str, took: &str, gain: &str) -> Done<()> {
    use std::io::Write;
    Ok(writeln!(std::io::stdout(), "| {work} | {took} | {gain} |")?)
}
