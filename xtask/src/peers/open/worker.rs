//! A process that opens files when told to, and says how long it took.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::process::{Done, shown};

pub(super) struct Worker {
    name: String,
    child: Child,
    /// `None` once it has been closed, which tells the worker to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

pub(super) enum Answer {
    Opened {
        /// Of each time, in order.
        nanoseconds: Vec<u64>,
        /// Pairs and tensors.
        found: (u64, u64),
    },
    Refused(String),
}

impl Worker {
    pub(super) fn start(command: &mut Command) -> Done<Self> {
        let name = shown(command);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{name}: {error}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or("a pipe is missing")?);
        Ok(Self { name, child, input, output: BufReader::new(output) })
    }

    /// Sends a line and waits for the one that answers it.
    pub(super) fn ask(&mut self, line: &str) -> Done<String> {
        let failed = |error| format!("{}: {error}", self.name);
        let input = self.input.as_mut().ok_or("the worker is closed")?;
        writeln!(input, "{line}").map_err(failed)?;
        let mut answer = String::new();
        let read = self.output.read_line(&mut answer).map_err(failed)?;
        if read == 0 {
            Err(format!("{}: ended without an answer to {line:?}", self.name))
        } else {
            Ok(answer.trim_end().to_owned())
        }
    }

    /// Has the worker open a file so many times.
    pub(super) fn open(&mut self, reader: &str, file: &Path, times: u64) -> Done<Answer> {
        let answer = self.ask(&format!("{reader}\t{times}\t{}", file.display()))?;
        if let Some(why) = answer.strip_prefix("error: ") {
            return Ok(Answer::Refused(why.to_owned()));
        }
        let numbers: Result<Vec<u64>, _> = answer.split('\t').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([pairs, tensors, nanoseconds @ ..]) => {
                Ok(Answer::Opened { nanoseconds: nanoseconds.to_vec(), found: (*pairs, *tensors) })
            }
            _ => Err(format!("{}: answered {answer:?}", self.name)),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself at the end of its input; how is of no interest.
        let _ = self.child.wait();
    }
}
