//! Reading and writing at a position, by whatever means the system has.

use std::fs::File;
use std::io;

/// Reads some bytes from `offset` on: none at the end of the file.
pub(crate) fn read_once(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    system::read_once(file, offset, out)
}

/// Fills `out` from `offset` on.
pub(crate) fn read_exact(file: &File, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
    while !out.is_empty() {
        match system::read_once(file, offset, out) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                out = out.get_mut(read..).unwrap_or_default();
                offset = offset.saturating_add(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all bytes at `offset`.
pub(crate) fn write_all(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match system::write_once(file, offset, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset = offset.saturating_add(written as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(unix)]
mod system {
    use std::os::unix::fs::FileExt as _;

    use super::{File, io};

    pub(super) fn read_once(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        file.read_at(out, offset)
    }

    pub(super) fn write_once(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }
}

#[cfg(windows)]
mod system {
    use std::os::windows::fs::FileExt as _;

    use super::{File, io};

    pub(super) fn read_once(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        file.seek_read(out, offset)
    }

    pub(super) fn write_once(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        file.seek_write(bytes, offset)
    }
}

/// Systems that know one place in a file only: it is moved there and used before another thread can
/// move it.
#[cfg(not(any(unix, windows)))]
mod system {
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
    use std::sync::{Mutex, PoisonError};

    use super::{File, io};

    static PLACE: Mutex<()> = Mutex::new(());

    pub(super) fn read_once(mut file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let _held = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read(out)
    }

    pub(super) fn write_once(mut file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let _held = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.write(bytes)
    }
}
