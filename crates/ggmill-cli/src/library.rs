//! Runs a checkpoint with the transformers library, in a Python process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::{env, thread};

use ggmill::{LibraryAnswer, LibraryRequest, RawStr};
use serde_json::{Value, json};

/// The program of the process.
const SCRIPT: &str = include_str!("library.py");

/// The environment variable with the Python interpreter.
const PYTHON: &str = "GGMILL_PYTHON";

/// The interpreter without that variable.
const DEFAULT_PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

/// The maximum numbers per token in an answer.
const MAX_WIDTH: u64 = 1 << 21;

/// The maximum bytes of the line before the logits.
const MAX_LINE: u64 = 1 << 20;

/// The maximum bytes of messages that are kept; the last lines have the error.
const MAX_MESSAGES: usize = 4096;

/// Runs a checkpoint on tokens with the library, in a Python process. No code of the checkpoint is executed,
/// and nothing is downloaded. Returns why there is no answer as an error.
pub(crate) fn run(request: &LibraryRequest) -> Result<LibraryAnswer, String> {
    if !request.path.is_dir() {
        return Err("the library reads only directories".to_owned());
    }
    let path = request.path.canonicalize().map_err(|error| error.to_string())?;
    let path = path.to_str().ok_or("the path is not UTF-8")?;
    let python = env::var_os(PYTHON).unwrap_or_else(|| DEFAULT_PYTHON.into());
    let shown = RawStr::new(python.as_encoded_bytes()).to_string();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let mut child = Command::new(&python)
        .args(["-c", SCRIPT])
        .envs([("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "1")])
        // The CPU computes F32 as it is; accelerators can round.
        .env("CUDA_VISIBLE_DEVICES", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let input = json!({ "path": path, "text": request.text, "tokens": request.tokens });
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, stderr) else {
        return Err(format!("{shown}: no pipes"));
    };
    let (mut line, mut logits) = (Vec::new(), Vec::new());
    let (messages, read) = thread::scope(|scope| {
        let messages = scope.spawn(move || {
            let (mut kept, mut buffer) = (Vec::new(), [0; MAX_MESSAGES]);
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                kept.extend_from_slice(&buffer[..count]);
                kept.drain(..kept.len().saturating_sub(MAX_MESSAGES));
            }
            kept
        });
        // A process that ended early reports why on its standard error.
        let _ = stdin.write_all(input.to_string().as_bytes());
        drop(stdin);
        let mut out = BufReader::new(stdout);
        let read = (&mut out).take(MAX_LINE).read_until(b'\n', &mut line).and_then(|_| {
            let most = request.tokens.len() as u64 * MAX_WIDTH * 4;
            out.take(most).read_to_end(&mut logits)
        });
        (messages.join().unwrap_or_default(), read)
    });
    read.map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        let messages = String::from_utf8_lossy(&messages);
        let last = messages.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("");
        return Err(format!("{shown} failed ({status}): {}", RawStr::from(last)));
    }
    answer(&line, &logits)
}

/// Reads the answer of the process.
fn answer(line: &[u8], logits: &[u8]) -> Result<LibraryAnswer, String> {
    let unreadable = |_| "the answer of the Python process is not readable".to_owned();
    let line: Value = serde_json::from_slice(line).map_err(unreadable)?;
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    if let Some(error) = text("absent") {
        return Err(format!("{error}; {PYTHON} names an interpreter with torch and transformers"));
    }
    if let Some(reason) = text("incomparable") {
        return Err(reason.to_owned());
    }
    let (numbers, _) = logits.as_chunks::<4>();
    let tokens = line.get("tokens").and_then(Value::as_array).and_then(|ids| {
        let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        ids.iter().map(id).collect()
    });
    Ok(LibraryAnswer {
        version: text("version").unwrap_or_default().to_owned(),
        tokens,
        logits: numbers.iter().map(|&number| f32::from_le_bytes(number)).collect(),
    })
}
