//! The ggmill side of `conformance/run_speed.py`: runs a model on pseudorandom texts and prints times.
//!
//! ```text
//! speed MODEL.gguf INSTRUCTIONS THREADS TEXTS TOKENS ROUNDS LOGITS
//! ```
//!
//! INSTRUCTIONS is a name of `ggmill_quant::Isa`, or `-` for the best available. Each round computes the
//! output for every token of TEXTS texts of TOKENS tokens, run together. The output for the last token of
//! the first text is written to LOGITS as little-endian F32.
//!
//! Prints tab-separated lines: `cpu` and `wall`, the CPU time of all threads and the wall-clock time of each
//! round in nanoseconds; `peak`, the peak resident memory in bytes; `arena`, the result of
//! `Program::memory`; `weights`, the file size in bytes.

use std::error::Error;
use std::fs;
use std::time::Instant;

use ggmill_arch::Catalogue;
use ggmill_core::keys;
use ggmill_quant::Isa;
use ggmill_run::{Options, Program, Runner};

type Done<T> = Result<T, Box<dyn Error>>;

fn main() -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, isa, threads, texts, tokens, rounds, logits] = &*arguments else {
        return Err("MODEL.gguf INSTRUCTIONS THREADS TEXTS TOKENS ROUNDS LOGITS".into());
    };
    let (threads, texts, length): (usize, usize, usize) =
        (threads.parse()?, texts.parse()?, tokens.parse()?);
    let isa = Isa::available().filter(|known| isa == "-" || known.to_string() == *isa).last();
    let isa = isa.ok_or("instructions that this machine does not have")?;
    let model = ggmill_io::open(path)?;
    let catalogue = Catalogue::new();
    let name = model.metadata().str(keys::GENERAL_ARCHITECTURE)?.to_owned();
    let description = catalogue.by_name(&name).ok_or("an architecture without description")?;
    let program = Program::of(&model, description)?;
    let options = Options::default().with_threads(Some(threads)).with_isa(isa);
    let runner = Runner::new(options.with_memory(u64::MAX))?;
    let vocabulary = u32::try_from(program.vocabulary())?;
    let all: Vec<u32> =
        random_tokens(texts.checked_mul(length).ok_or("too many tokens")?, vocabulary);
    let texts: Vec<&[u32]> = all.chunks(length).collect();
    let round = || {
        let states = runner.states(&program, &texts)?;
        let mut last = Vec::new();
        for text in 0..texts.len() {
            let output = runner.output(&program, &states, text, 0..length)?;
            if text == 0 {
                let width = usize::try_from(program.output_len())?;
                last = output[output.len().saturating_sub(width)..].to_vec();
            }
        }
        Ok::<_, Box<dyn Error>>(last)
    };
    // A warm-up round reads the file and touches memory.
    let bytes: Vec<u8> = round()?.iter().flat_map(|logit| logit.to_le_bytes()).collect();
    fs::write(logits, bytes)?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for _ in 0..rounds.parse()? {
        let (start, clock) = (cpu_time()?, Instant::now());
        round()?;
        wall.push(u64::try_from(clock.elapsed().as_nanos())?);
        cpu.push(cpu_time()?.saturating_sub(start));
    }
    line("cpu", &cpu);
    line("wall", &wall);
    line("peak", &[peak()?]);
    line("arena", &[program.memory(texts.len() as u64, length as u64, threads as u64)]);
    line("weights", &[fs::metadata(path)?.len()]);
    Ok(())
}

/// Returns the pseudorandom tokens that `run_speed.py` uses too.
fn random_tokens(count: usize, below: u32) -> Vec<u32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8).checked_rem(below).unwrap_or(0)
    };
    (0..count).map(|_| next()).collect()
}

/// Returns the CPU time of all live threads of this process, in nanoseconds.
fn cpu_time() -> Done<u64> {
    let mut sum = 0u64;
    for thread in fs::read_dir("/proc/self/task")? {
        let line = fs::read_to_string(thread?.path().join("schedstat"))?;
        let time: u64 = line.split(' ').next().unwrap_or_default().parse()?;
        sum = sum.saturating_add(time);
    }
    Ok(sum)
}

fn peak() -> Done<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()?.saturating_mul(1024))
}

fn line(word: &str, numbers: &[u64]) {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    #[expect(clippy::print_stdout, reason = "the answer of the program")]
    {
        println!("{word}\t{}", numbers.join("\t"));
    }
}
