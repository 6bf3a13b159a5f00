//! A worker of `python3 conformance/run.py quant`: quantizes or dequantizes on request, and measures the
//! time.
//!
//! A request is a line of standard input with eight fields, separated by tabs: `quantize` or `dequantize`,
//! a type, an instruction set (or `best`), a file of values or blocks, the row length, a file of importance
//! weights (or `-`), the number of repetitions (or `marked`), and a file for the result (or `-`). The answer
//! is a line with the CPU time of the thread for each repetition, in nanoseconds.
//!
//! `marked` work is done twice. The process stops itself (SIGSTOP) before and after the second time, so that
//! another program can count the instructions in between.
//!
//! The request `isas` is answered with the available instruction sets, the best last.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, BufRead as _, Write as _};
use std::{fs, mem};

use ggmill_core::GgmlType;
use ggmill_quant::{BlockCodec, Isa, codec_with};
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};

type Done<T> = Result<T, Box<dyn Error>>;

fn main() -> Done<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        match answer(&line?) {
            Ok(answer) => writeln!(out, "{answer}")?,
            Err(error) => writeln!(out, "error: {error}")?,
        }
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Done<String> {
    if line == "isas" {
        return Ok(Isa::available().map(|isa| isa.to_string()).collect::<Vec<_>>().join("\t"));
    }
    let [work, name, isa, input, row_len, weights, times, result] =
        line.split('\t').collect::<Vec<_>>()[..]
    else {
        return Err("expected eight words".into());
    };
    let ggml_type = name.parse::<GgmlType>().map_err(|_| "no such type")?;
    let isa = if isa == "best" {
        Isa::best()
    } else {
        Isa::available().find(|known| known.to_string() == isa).ok_or("no such instruction set")?
    };
    let codec = codec_with(ggml_type, isa)?;
    let input = fs::read(input)?;
    let weights = if weights == "-" { None } else { Some(floats(&fs::read(weights)?)) };
    let times = if times == "marked" { Times::Marked } else { Times::Timed(times.parse()?) };
    let (output, taken) = match work {
        "quantize" => {
            quantize(codec, &floats(&input), row_len.parse()?, weights.as_deref(), times)?
        }
        "dequantize" => dequantize(codec, &input, times)?,
        _ => return Err(format!("no work {work}").into()),
    };
    if result != "-" {
        fs::write(result, output)?;
    }
    Ok(taken.iter().map(u64::to_string).collect::<Vec<_>>().join("\t"))
}

fn quantize(
    codec: &dyn BlockCodec,
    values: &[f32],
    row_len: usize,
    weights: Option<&[f32]>,
    times: Times,
) -> Done<(Vec<u8>, Vec<u64>)> {
    let layout = codec.ggml_type().layout().ok_or("a type without a layout")?;
    let length = layout.bytes_for(values.len() as u64).ok_or("not whole blocks")?;
    let mut out = vec![0; usize::try_from(length)?];
    let taken =
        times.run(|| Ok(codec.quantize(black_box(values), row_len, weights, &mut out)?))?;
    Ok((out, taken))
}

fn dequantize(codec: &dyn BlockCodec, blocks: &[u8], times: Times) -> Done<(Vec<u8>, Vec<u64>)> {
    let layout = codec.ggml_type().layout().ok_or("a type without a layout")?;
    let length = blocks.len() as u64 / u64::from(layout.bytes) * u64::from(layout.elements);
    let mut out = vec![0.0; usize::try_from(length)?];
    let taken = times.run(|| Ok(codec.dequantize(black_box(blocks), &mut out)?))?;
    Ok((out.iter().flat_map(|value: &f32| value.to_le_bytes()).collect(), taken))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<{ mem::size_of::<f32>() }>()
        .0
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect()
}

/// The number of repetitions, and how they are measured.
#[derive(Clone, Copy)]
enum Times {
    Timed(usize),
    Marked,
}

impl Times {
    /// Does the work, and returns the nanoseconds of each repetition; none if another program measures.
    fn run(self, mut work: impl FnMut() -> Done<()>) -> Done<Vec<u64>> {
        let Self::Timed(times) = self else {
            work()?;
            stop()?;
            work()?;
            stop()?;
            return Ok(Vec::new());
        };
        (0..times)
            .map(|_| {
                let begin = now();
                work()?;
                Ok(now() - begin)
            })
            .collect()
    }
}

/// Stops this process until another one sends SIGCONT.
fn stop() -> Done<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// Returns the CPU time of this thread in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
