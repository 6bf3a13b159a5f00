//! A worker of `conformance/tokenization_speed.py`: tokenizes texts with one vocabulary, and measures the
//! time.
//!
//! ```text
//! tokenizer_worker MODEL.gguf PRE ROUNDS PIECE IDS TEXT…
//! ```
//!
//! PRE is the name of a pre-tokenizer, or `-` for that of the file. Each text is divided into pieces of at
//! most PIECE bytes, between characters (0: one piece), which are tokenized in order. Each round uses a new
//! tokenizer (cold), then the same one again (warm), and decodes the tokens. The IDs are written to IDS as
//! 32-bit little-endian integers (`-`: not written).
//!
//! The output has lines of a word and numbers, separated by tabs: `load` (nanoseconds per round), `bytes`
//! (memory of the first tokenizer), for each text `tokens` (their number), `cold`, `warm` and `decode`
//! (nanoseconds per round), and `call` (nanoseconds for a text of 17 bytes). Times are the CPU time of the
//! thread.

use std::error::Error;
use std::fs;
use std::hint::black_box;

use ggmill_core::Header;
use ggmill_tokenizer::{DecodeOptions, EncodeOptions, LoadOptions, Tokenizer};
use rustix::time::{ClockId, clock_gettime};

type Done<T> = Result<T, Box<dyn Error>>;

/// A short text, and the number of times that it is tokenized per round.
const SHORT: &str = "Hello, my friend!";
const CALLS: u32 = 20_000;

fn main() -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, pre, rounds, piece, ids, texts @ ..] = &*arguments else {
        return Err("expected MODEL.gguf PRE ROUNDS PIECE IDS TEXT…".into());
    };
    let (rounds, piece): (usize, usize) = (rounds.parse()?, piece.parse()?);
    let model = fs::read(model)?;
    let load = || {
        let options = match &**pre {
            "-" => LoadOptions::new(),
            name => LoadOptions::new().pre(name),
        };
        let file = Header::parse(&model)?;
        Ok::<_, Box<dyn Error>>(Tokenizer::with_options(&file.metadata(), &options)?)
    };
    let before = resident()?;
    let kept = load()?;
    let grown = resident()?.saturating_sub(before);
    let mut times = Vec::new();
    for _ in 0..rounds {
        times.push(timed(|| black_box(load()).map(drop))?);
    }
    line("load", &times);
    line("bytes", &[grown]);
    let mut all = Vec::new();
    for text in texts {
        let text = fs::read_to_string(text)?;
        let pieces = pieces(&text, piece);
        let found = measure(&pieces, rounds, &load)?;
        line("tokens", &[found.ids.len() as u64]);
        line("cold", &found.cold);
        line("warm", &found.warm);
        line("decode", &found.decode);
        all.extend(found.ids.iter().flat_map(|id| id.to_le_bytes()));
    }
    let (mut short, mut out) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let taken = timed(|| {
            for _ in 0..CALLS {
                out.clear();
                kept.encode(black_box(SHORT), &EncodeOptions::new(), &mut out)?;
            }
            Ok(())
        })?;
        short.push(taken / u64::from(CALLS));
    }
    line("call", &short);
    if ids != "-" {
        fs::write(ids, all)?;
    }
    Ok(())
}

/// The times for one text, in nanoseconds for each round, and its tokens.
#[derive(Default)]
struct Found {
    cold: Vec<u64>,
    warm: Vec<u64>,
    decode: Vec<u64>,
    ids: Vec<u32>,
}

fn measure(pieces: &[&str], rounds: usize, load: &dyn Fn() -> Done<Tokenizer>) -> Done<Found> {
    let options = EncodeOptions::new().add_special(false).parse_special(false);
    let mut found = Found::default();
    for _ in 0..rounds {
        let tokenizer = load()?;
        let (mut ids, mut text) = (Vec::new(), Vec::new());
        for times in [&mut found.cold, &mut found.warm] {
            ids.clear();
            times.push(timed(|| {
                for piece in pieces {
                    tokenizer.encode(piece, &options, &mut ids)?;
                }
                Ok(())
            })?);
        }
        let decoding = DecodeOptions::new().unparse_special(true);
        // Once for the texts of tokens.
        tokenizer.decode(&ids, &decoding, &mut text)?;
        text.clear();
        found.decode.push(timed(|| Ok(tokenizer.decode(&ids, &decoding, &mut text)?))?);
        found.ids = ids;
    }
    Ok(found)
}

/// Divides a text into parts of at most `length` bytes, or of one character if that is longer; 0 is no
/// limit.
fn pieces(mut text: &str, length: usize) -> Vec<&str> {
    if length == 0 {
        return vec![text];
    }
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let mut end = length.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // A piece has at least one character, even if it is longer than the limit.
        let first = text.chars().next().map_or(0, char::len_utf8);
        let end = end.max(first);
        let (piece, rest) = text.split_at(end);
        pieces.push(piece);
        text = rest;
    }
    pieces
}

fn line(name: &str, numbers: &[u64]) {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    #[expect(clippy::print_stdout, reason = "the answer of the program")]
    {
        println!("{name}\t{}", numbers.join("\t"));
    }
}

/// Returns the CPU time of this thread for some work, in nanoseconds.
fn timed(work: impl FnOnce() -> Done<()>) -> Done<u64> {
    let begin = clock_gettime(ClockId::ThreadCPUTime);
    work()?;
    let end = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(end.tv_sec - begin.tv_sec)?;
    Ok(seconds * 1_000_000_000 + u64::try_from(end.tv_nsec)? - u64::try_from(begin.tv_nsec)?)
}

/// Returns the resident memory of this process in bytes.
fn resident() -> Done<u64> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split(' ').nth(1).ok_or("no such number")?.parse::<u64>()? * 4096)
}
