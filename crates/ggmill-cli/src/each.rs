//! One command on several files.

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Does the work for each file, also after one for which it fails: the last failure is the
/// command's, those before it are printed. There are findings if any file has some.
pub(crate) fn each<T>(
    files: &[T],
    console: Console,
    mut work: impl FnMut(usize, &T) -> Result<Status, Failure>,
) -> Result<Status, Failure> {
    let mut status = Status::Fine;
    let mut failed: Option<Failure> = None;
    for (number, file) in files.iter().enumerate() {
        match work(number, file) {
            Ok(Status::Fine) => {}
            Ok(Status::Findings) => status = Status::Findings,
            Err(Failure::Closed) => return Err(Failure::Closed),
            Err(failure) => {
                if let Some(before) = failed.replace(failure) {
                    console.error(&before);
                }
            }
        }
    }
    failed.map_or(Ok(status), Err)
}
