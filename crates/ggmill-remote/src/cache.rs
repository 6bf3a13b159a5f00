//! Headers that were read before, by their entity tags, in a directory that several processes may
//! share.
//!
//! A file is written beside and renamed, so that a reader sees all of it or none, and begins with
//! what it is the header of; a damaged one is not used. Where anything of this fails, the header
//! comes from the server.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh64::xxh64;

use crate::options::CacheOptions;
use crate::target::Known;

/// How the name of a file that is being written begins and ends.
const UNFINISHED: (&str, &str) = ("ggmill-", ".tmp");
const MAGIC: &str = "ggmill header 1";
const EXTENSION: &str = "header";
/// The part of the cache that one file may take.
const SHARE: u64 = 4;

impl CacheOptions {
    fn path(&self, address: &str) -> PathBuf {
        let name = Sha256::digest(address).iter().take(20).fold(String::new(), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        self.directory.join(name).with_extension(EXTENSION)
    }

    /// The header of the file at this address.
    pub(crate) fn load(&self, address: &str) -> Option<Known> {
        let path = self.path(address);
        // Windows sets the time only of files that are open for writing.
        let file = File::options().read(true).write(true).open(&path);
        let file = file.or_else(|_| File::open(&path)).ok()?;
        if file.metadata().ok()?.len() > self.max_bytes {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(self.max_bytes).read_to_end(&mut bytes).ok()?;
        let known = parse(&bytes, address)?;
        // The file that was of no use for longest goes first.
        let _ = file.set_modified(SystemTime::now());
        Some(known)
    }

    /// Keeps a header, and lets go of others where there are too many bytes.
    pub(crate) fn store(&self, address: &str, known: &Known) {
        if (known.beginning.len() as u64) < self.max_bytes / SHARE {
            let _ = self.write(address, known).and_then(|()| self.trim(&self.path(address)));
        }
    }

    fn write(&self, address: &str, known: &Known) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let (prefix, suffix) = UNFINISHED;
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix(prefix).suffix(suffix).tempfile_in(&self.directory)?;
        file.write_all(&text(address, known))?;
        file.persist(self.path(address))?;
        Ok(())
    }

    /// Removes the oldest files until the others have few enough bytes. The one just written stays:
    /// others can have the same time.
    fn trim(&self, written: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let path = entry.path();
            let ours = entry.file_name().to_str().is_some_and(is_ours);
            // Another process may have removed it.
            if let Some(metadata) = entry.metadata().ok().filter(|found| ours && found.is_file()) {
                files.push((metadata.modified()?, metadata.len(), path));
            }
        }
        files.sort_unstable();
        let mut total = files.iter().fold(0u64, |total, (_, len, _)| total.saturating_add(*len));
        for (_, len, path) in files.into_iter().filter(|(.., path)| path != written) {
            if total <= self.max_bytes {
                break;
            }
            let _ = fs::remove_file(path);
            total = total.saturating_sub(len);
        }
        Ok(())
    }
}

/// Whether a file has the name of one of this cache: the directory may have others.
fn is_ours(name: &str) -> bool {
    let (prefix, suffix) = UNFINISHED;
    let is_header = name.strip_suffix(EXTENSION).and_then(|rest| rest.strip_suffix('.'));
    is_header.is_some_and(|hash| {
        hash.len() == 40 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }) || (name.starts_with(prefix) && name.ends_with(suffix))
}

/// The file that keeps a header: lines of what it is, then its bytes.
fn text(address: &str, known: &Known) -> Vec<u8> {
    let Known { etag, host, len, beginning } = known;
    let sum = xxh64(beginning, 0);
    // The address can hold a signature, so only its hash is kept.
    let of = format!("{:x}", xxh64(address.as_bytes(), 0));
    let head = format!("{MAGIC}\n{of}\n{host}\n{etag}\n{len}\n{}\n{sum:016x}\n", beginning.len());
    [head.as_bytes(), beginning].concat()
}

fn parse(bytes: &[u8], address: &str) -> Option<Known> {
    let mut rest = bytes;
    let mut line = || {
        let end = rest.iter().take(4096).position(|&byte| byte == b'\n')?;
        let (line, behind) = rest.split_at(end);
        rest = behind.get(1..)?;
        std::str::from_utf8(line).ok()
    };
    if line()? != MAGIC || line()? != format!("{:x}", xxh64(address.as_bytes(), 0)) {
        return None;
    }
    let (host, etag) = (line()?.to_owned(), line()?.to_owned());
    let (len, count): (u64, usize) = (line()?.parse().ok()?, line()?.parse().ok()?);
    let sum = line()?.to_owned();
    let is_whole = rest.len() == count && count as u64 <= len && !etag.is_empty();
    (is_whole && sum == format!("{:016x}", xxh64(rest, 0))).then(|| Known {
        etag,
        host,
        len,
        beginning: rest.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(beginning: &[u8]) -> Known {
        Known {
            etag: "\"tag\"".to_owned(),
            host: "h:1".to_owned(),
            len: 1 << 20,
            beginning: beginning.to_vec(),
        }
    }

    #[test]
    fn a_header_is_found_by_its_address_and_a_damaged_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheOptions::new(directory.path().join("made"), 1 << 20);
        assert!(cache.load("https://h/a").is_none());
        cache.store("https://h/a", &known(b"GGUF\n\nbytes"));
        let found = cache.load("https://h/a").unwrap();
        assert_eq!((found.etag.as_str(), found.len), ("\"tag\"", 1 << 20));
        assert_eq!(found.beginning, b"GGUF\n\nbytes");
        assert!(cache.load("https://h/b").is_none());

        let path = cache.path("https://h/a");
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert!(cache.load("https://h/a").is_none(), "{len} bytes");
        }
        let last = whole.len() - 1;
        let mut turned = whole.clone();
        turned[last] ^= 1;
        fs::write(&path, &turned).unwrap();
        assert!(cache.load("https://h/a").is_none());
        // Under the name of another address it is not taken for that.
        fs::write(cache.path("https://h/b"), &whole).unwrap();
        assert!(cache.load("https://h/b").is_none());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheOptions::new(directory.path(), 10_000);
        for number in 0..10u64 {
            let address = format!("https://h/{number}");
            cache.store(&address, &known(&[7; 2000]));
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + number);
            File::options()
                .write(true)
                .open(cache.path(&address))
                .unwrap()
                .set_modified(at)
                .unwrap();
            // Used again and again, so it stays.
            assert!(cache.load("https://h/0").is_some());
        }
        let total: u64 = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!((6_000..=10_000).contains(&total), "{total}");
        assert!(cache.load("https://h/9").is_some() && cache.load("https://h/1").is_none());
        cache.store("https://h/large", &known(&[7; 5000]));
        assert!(cache.load("https://h/large").is_none());
    }

    #[test]
    fn files_of_other_programs_stay_and_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let others = ["x.tmp", "ggmill.tmp", "notes.header", "0123.header", "ggmill-x.tmp.bak"];
        for name in others {
            fs::write(directory.path().join(name), vec![0; 20_000]).unwrap();
        }
        // What a process that was killed left behind.
        let left = directory.path().join("ggmill-Ab12.tmp");
        fs::write(&left, vec![0; 20_000]).unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        File::options().write(true).open(&left).unwrap().set_modified(later).unwrap();
        let cache = CacheOptions::new(directory.path(), 10_000);
        cache.store("https://h/a", &known(&[7; 2000]));
        assert!(cache.load("https://h/a").is_some() && !left.exists());
        for name in others {
            assert!(directory.path().join(name).exists(), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_header_that_may_only_be_read_is_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheOptions::new(directory.path(), 10_000);
        cache.store("https://h/a", &known(&[7; 2000]));
        let path = cache.path("https://h/a");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(cache.load("https://h/a").is_some());
    }
}
