//! Runs the fuzz targets on a stable toolchain: every seed, then random changes of seeds until the
//! time is up, without coverage guidance.
//!
//! `harness targets` lists the targets. `harness seeds DIRECTORY` writes the seeds of every target
//! to DIRECTORY/<target>; `harness run TARGET SECONDS [DIRECTORY]` runs one target.

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs, panic};

use ggmill_fuzz::{TARGETS, Target, seeds::seeds};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["targets"] => {
            for (name, _) in TARGETS {
                println!("{name}");
            }
            Ok(())
        }
        ["seeds", directory] => write_seeds(Path::new(directory)),
        ["run", target, seconds] => run(target, seconds, None),
        ["run", target, seconds, directory] => run(target, seconds, Some(Path::new(directory))),
        _ => Err("usage: harness targets | harness seeds DIRECTORY | harness run TARGET SECONDS \
                  [DIRECTORY]"
            .to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn write_seeds(directory: &Path) -> Result<(), String> {
    for (target, _) in TARGETS {
        let directory = directory.join(target);
        let failed = |error| format!("{}: {error}", directory.display());
        fs::create_dir_all(&directory).map_err(failed)?;
        for (name, bytes) in seeds(target) {
            fs::write(directory.join(name), bytes).map_err(failed)?;
        }
    }
    Ok(())
}

/// Runs a target on its seeds and the files of a directory, then on changed copies of them.
fn run(name: &str, seconds: &str, directory: Option<&Path>) -> Result<(), String> {
    let (_, target) = TARGETS
        .into_iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| format!("no target {name}"))?;
    let seconds: f64 = seconds.parse().map_err(|_| format!("{seconds} is no number of seconds"))?;
    let mut inputs: Vec<Vec<u8>> = seeds(name).into_iter().map(|(_, bytes)| bytes).collect();
    for entry in directory
        .into_iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .flatten()
    {
        inputs.extend(fs::read(entry.path()));
    }
    // A finding prints its message once, with the input that caused it.
    panic::set_hook(Box::new(|info| eprintln!("{info}")));
    for input in &inputs {
        held(name, target, input)?;
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut executions = inputs.len() as u64;
    let begin = Instant::now();
    let limit = Duration::from_secs_f64(seconds);
    while begin.elapsed() < limit {
        for _ in 0..256 {
            let mut input = inputs[random.below(inputs.len())].clone();
            for _ in 0..=random.below(4) {
                change(&mut input, &inputs, &mut random);
            }
            held(name, target, &input)?;
            executions += 1;
        }
    }
    println!("{name}: {executions} executions, no finding");
    Ok(())
}

/// Runs the target. A panic becomes an error, after the input is written to a file.
fn held(name: &str, target: Target, input: &[u8]) -> Result<(), String> {
    panic::catch_unwind(|| target(black_box(input))).map_err(|_| {
        let path = env::temp_dir().join(format!("ggmill-fuzz-{name}-finding"));
        let place = fs::write(&path, input)
            .map_or_else(|error| format!("not written: {error}"), |()| path.display().to_string());
        format!("{name}: a finding, input of {} bytes: {place}", input.len())
    })
}

/// Integers at limits, which parsers handle badly.
const EDGE_CASES: [u64; 12] = [
    0,
    1,
    2,
    7,
    8,
    12,
    32,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fff0,
    u64::MAX,
];

/// One small change of the kinds a fuzzer makes.
fn change(input: &mut Vec<u8>, inputs: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len().max(1)).min(input.len());
    match random.below(8) {
        0 => input.truncate(at),
        1 => {
            let byte = random.byte();
            input.insert(at, byte);
        }
        2 if !input.is_empty() => drop(input.remove(at)),
        3 => overwrite(
            input,
            at,
            &EDGE_CASES[random.below(EDGE_CASES.len())].to_le_bytes()[..1 << random.below(4)],
        ),
        4 => overwrite(
            input,
            at,
            &EDGE_CASES[random.below(EDGE_CASES.len())].to_be_bytes()[8 - (1 << random.below(4))..],
        ),
        5 => {
            let other = &inputs[random.below(inputs.len())];
            let from = random.below(other.len().max(1)).min(other.len());
            let len = random.below(64).min(other.len() - from);
            let piece = other[from..from + len].to_vec();
            input.splice(at..at, piece);
        }
        6 => overwrite(input, at, &[random.byte()]),
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    for (old, new) in input[at..].iter_mut().zip(bytes) {
        *old = *new;
    }
}

/// SplitMix64, for equal inputs in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}
