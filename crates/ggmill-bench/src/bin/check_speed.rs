//! Measures the speed of `ggmill check`, each time alternating with a baseline in the same run:
//!
//! - without `--data`, on a file with a vocabulary: the baselines are opening the file, and the program
//!   `ggmill inspect`;
//! - with `--data`, on files of one type each: the baseline is a sum over the same amount of memory on the
//!   same number of threads;
//! - a thousand small files in one call: files per second.
//!
//! `check_speed GGMILL VOCABULARY DIRECTORY` takes the built program, the file, and a directory for
//! temporary files.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "it prints what it measured, to a few digits"
)]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use ggmill_check::{Input, Options, check};
use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};

/// Bytes of tensor data in each file.
const SIZE: usize = 256 << 20;
const ROUNDS: usize = 7;
const FILES: usize = 1000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, vocabulary, directory] = &arguments[..] else {
        eprintln!("usage: check_speed GGMILL VOCABULARY DIRECTORY");
        return ExitCode::from(2);
    };
    match measure(Path::new(program), Path::new(vocabulary), Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn measure(program: &Path, vocabulary: &Path, directory: &Path) -> Done {
    header(program, vocabulary)?;
    for ggml_type in [
        GgmlType::F32,
        GgmlType::F16,
        GgmlType::BF16,
        GgmlType::Q8_0,
        GgmlType::Q4_0,
        GgmlType::Q4_K,
        GgmlType::Q6_K,
        GgmlType::IQ1_M,
        GgmlType::MXFP4,
    ] {
        data(program, directory, ggml_type)?;
    }
    many(program, directory)
}

fn seconds(work: impl FnOnce() -> Done) -> Done<f64> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_secs_f64())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Measures opening and checking a file, within this process and as programs.
fn header(program: &Path, path: &Path) -> Done {
    let (mut opening, mut opening_damaged, mut checking) = (Vec::new(), Vec::new(), Vec::new());
    let (mut inspect, mut check_it) = (Vec::new(), Vec::new());
    for _ in 0..5 * ROUNDS {
        opening.push(seconds(|| {
            black_box(ggmill_io::open_alone(path)?);
            Ok(())
        })?);
        opening_damaged.push(seconds(|| {
            black_box(ggmill_io::open_damaged(path)?);
            Ok(())
        })?);
        checking.push(seconds(|| {
            let model = ggmill_io::open_damaged(path)?;
            black_box(check(&Input::new(&model.parts()[0]), &Options::default()));
            Ok(())
        })?);
        inspect.push(seconds(|| run(program, &["inspect"], path))?);
        check_it.push(seconds(|| run(program, &["check"], path))?);
    }
    let (opening, checking) = (median(opening), median(checking));
    println!("| {}, opened by reading | {:.2} ms |", path.display(), opening * 1e3);
    println!("| opened as `check` does | {:.2} ms |", median(opening_damaged) * 1e3);
    println!("| opened and checked | {:.2} ms | {:.2}× |", checking * 1e3, checking / opening);
    let (inspect, check_it) = (median(inspect), median(check_it));
    println!("| `inspect`, the whole program | {:.2} ms |", inspect * 1e3);
    println!(
        "| `check`, the whole program | {:.2} ms | {:.2}× |",
        check_it * 1e3,
        check_it / inspect
    );
    Ok(())
}

/// Writes a file with one tensor of valid blocks of a type; returns the size of its data.
fn write(path: &Path, ggml_type: GgmlType) -> Done<u64> {
    let layout = ggml_type.layout().ok_or("no layout")?;
    let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
    let row = 1 << 12;
    let rows = SIZE / (row / elements * bytes);
    let values: Vec<f32> = (0..row).map(|number| (number as f32 * 0.7).sin() / 16.0).collect();
    let mut blocks = vec![0; row / elements * bytes];
    ggmill_quant::quantize(ggml_type, &values, row, Some(&vec![1.0; row]), &mut blocks)?;
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    let plan = Builder::new()
        .metadata(metadata)
        .tensor("blk.0.ffn_up.weight", ggml_type, Shape::new(&[row as u64, rows as u64])?)
        .plan()?;
    let mut file = plan.header().to_vec();
    for _ in 0..rows {
        file.extend_from_slice(&blocks);
    }
    file.resize(usize::try_from(plan.total_len())?, 0);
    fs::write(path, &file)?;
    // Unwritten pages would be written while the time is measured.
    fs::File::open(path)?.sync_all()?;
    Ok((rows * blocks.len()) as u64)
}

/// Runs the program. Findings are not an error.
fn run(program: &Path, arguments: &[&str], target: &Path) -> Done {
    let status = Command::new(program)
        .args(arguments)
        .arg(target)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.code().is_none_or(|code| code > 1) {
        Err(format!("{}: {status}", target.display()).into())
    } else {
        Ok(())
    }
}

fn data(program: &Path, directory: &Path, ggml_type: GgmlType) -> Done {
    let path = directory.join("data.gguf");
    let size = write(&path, ggml_type)?;
    let memory = vec![1u64; SIZE / 8];
    let threads = thread::available_parallelism()?.get();
    let (mut sums, mut checks) = (Vec::new(), Vec::new());
    run(program, &["check", "--data"], &path)?;
    for _ in 0..ROUNDS {
        sums.push(seconds(|| {
            thread::scope(|scope| {
                for part in memory.chunks(memory.len().div_ceil(threads)) {
                    scope.spawn(|| {
                        black_box(part.iter().fold(0u64, |sum, number| sum.wrapping_add(*number)))
                    });
                }
            });
            Ok(())
        })?);
        checks.push(seconds(|| run(program, &["check", "--data"], &path))?);
    }
    let gigabytes = |bytes: u64, time: f64| bytes as f64 / time / 1e9;
    let (sum, check) = (gigabytes(SIZE as u64, median(sums)), gigabytes(size, median(checks)));
    println!(
        "| {ggml_type} | memory sum {sum:.1} GB/s | check --data {check:.1} GB/s | {:.2} |",
        check / sum
    );
    fs::remove_file(path)?;
    Ok(())
}

fn many(program: &Path, directory: &Path) -> Done {
    let directory = directory.join("many");
    fs::create_dir_all(&directory)?;
    for number in 0..FILES {
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", "llama");
        metadata.set("general.name", format!("Model {number}").as_str());
        metadata.set(
            "tokenizer.chat_template",
            "{% for message in messages %}{{ message.content }}{% endfor %}",
        );
        let plan = Builder::new()
            .metadata(metadata)
            .tensor("token_embd.weight", GgmlType::F32, Shape::new(&[64, 32])?)
            .plan()?;
        let mut file = plan.header().to_vec();
        file.resize(usize::try_from(plan.total_len())?, 0);
        fs::write(directory.join(format!("{number}.gguf")), file)?;
    }
    run(program, &["check"], &directory)?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(seconds(|| run(program, &["check"], &directory))?);
    }
    println!("| {FILES} small files | {:.0} files/s |", FILES as f64 / median(times));
    fs::remove_dir_all(directory)?;
    Ok(())
}
