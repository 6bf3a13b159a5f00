//! A cache of headers in a directory that several processes can share, validated by entity tags.
//!
//! An entry is written to a temporary file and renamed, so that a reader never sees a partial entry. It
//! begins with the address hash, the entity tag, and a checksum; a damaged entry is ignored. If the cache
//! fails, the header is read from the server.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh64::xxh64;

use crate::file::CacheEntry;
use crate::options::CacheOptions;

/// The prefix and suffix of a temporary file.
const TEMPORARY: (&str, &str) = ("ggmill-", ".tmp");
const MAGIC: &str = "ggmill header 1";
const EXTENSION: &str = "header";
/// One entry may have `1 / MAX_SHARE` of the bytes of the cache.
const MAX_SHARE: u64 = 4;

impl CacheOptions {
    fn path(&self, address: &str) -> PathBuf {
        let name = Sha256::digest(address).iter().take(20).fold(String::new(), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        self.directory.join(name).with_extension(EXTENSION)
    }

    /// Returns the cached header of the file at an address.
    pub(crate) fn load(&self, address: &str) -> Option<CacheEntry> {
        let path = self.path(address);
        // Windows can set the time only of a file that is open for writing.
        let file = File::options().read(true).write(true).open(&path);
        let file = file.or_else(|_| File::open(&path)).ok()?;
        if file.metadata().ok()?.len() > self.max_bytes {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(self.max_bytes).read_to_end(&mut bytes).ok()?;
        let entry = parse(&bytes, address)?;
        // `trim` removes the least recently used entries.
        let _ = file.set_modified(SystemTime::now());
        Some(entry)
    }

    /// Stores a header, and removes others if the cache is too large.
    pub(crate) fn store(&self, address: &str, entry: &CacheEntry) {
        if (entry.header.len() as u64) < self.max_bytes / MAX_SHARE {
            let _ = self.write(address, entry).and_then(|()| self.trim(&self.path(address)));
        }
    }

    fn write(&self, address: &str, entry: &CacheEntry) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let (prefix, suffix) = TEMPORARY;
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix(prefix).suffix(suffix).tempfile_in(&self.directory)?;
        file.write_all(&encode(address, entry))?;
        file.persist(self.path(address))?;
        Ok(())
    }

    /// Removes the oldest files until the cache is small enough. The file just written is kept, even if
    /// others have the same time.
    fn trim(&self, written: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let path = entry.path();
            let is_ours = entry.file_name().to_str().is_some_and(is_cache_file);
            // Another process may have removed it.
            if let Some(metadata) = entry.metadata().ok().filter(|found| is_ours && found.is_file())
            {
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

/// Returns `true` for the name of a file of the cache. The directory can have other files.
fn is_cache_file(name: &str) -> bool {
    let (prefix, suffix) = TEMPORARY;
    let is_header = name.strip_suffix(EXTENSION).and_then(|rest| rest.strip_suffix('.'));
    is_header.is_some_and(|hash| {
        hash.len() == 40 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }) || (name.starts_with(prefix) && name.ends_with(suffix))
}

/// Returns the content of a cache file: lines that describe the header, then its bytes.
fn encode(address: &str, entry: &CacheEntry) -> Vec<u8> {
    let CacheEntry { etag, host, len, header } = entry;
    let sum = xxh64(header, 0);
    // The address can contain a signature, so only its hash is stored.
    let address_hash = format!("{:x}", xxh64(address.as_bytes(), 0));
    let head =
        format!("{MAGIC}\n{address_hash}\n{host}\n{etag}\n{len}\n{}\n{sum:016x}\n", header.len());
    [head.as_bytes(), header].concat()
}

fn parse(bytes: &[u8], address: &str) -> Option<CacheEntry> {
    let mut rest = bytes;
    let mut line = || {
        let end = rest.iter().take(4096).position(|&byte| byte == b'\n')?;
        let (line, tail) = rest.split_at(end);
        rest = tail.get(1..)?;
        std::str::from_utf8(line).ok()
    };
    if line()? != MAGIC || line()? != format!("{:x}", xxh64(address.as_bytes(), 0)) {
        return None;
    }
    let (host, etag) = (line()?.to_owned(), line()?.to_owned());
    let (len, count): (u64, usize) = (line()?.parse().ok()?, line()?.parse().ok()?);
    let sum = line()?.to_owned();
    let is_valid = rest.len() == count && count as u64 <= len && !etag.is_empty();
    (is_valid && sum == format!("{:016x}", xxh64(rest, 0))).then(|| CacheEntry {
        etag,
        host,
        len,
        header: rest.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_of(header: &[u8]) -> CacheEntry {
        CacheEntry {
            etag: "\"tag\"".to_owned(),
            host: "h:1".to_owned(),
            len: 1 << 20,
            header: header.to_vec(),
        }
    }

    #[test]
    fn headers_are_found_by_address_and_damaged_ones_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheOptions::new(directory.path().join("made"), 1 << 20);
        assert!(cache.load("https://h/a").is_none());
        cache.store("https://h/a", &entry_of(b"GGUF\n\nbytes"));
        let found = cache.load("https://h/a").unwrap();
        assert_eq!((found.etag.as_str(), found.len), ("\"tag\"", 1 << 20));
        assert_eq!(found.header, b"GGUF\n\nbytes");
        assert!(cache.load("https://h/b").is_none());

        let path = cache.path("https://h/a");
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert!(cache.load("https://h/a").is_none(), "{len} bytes");
        }
        let last = whole.len() - 1;
        let mut flipped = whole.clone();
        flipped[last] ^= 1;
        fs::write(&path, &flipped).unwrap();
        assert!(cache.load("https://h/a").is_none());
        // An entry under the name of another address is not used.
        fs::write(cache.path("https://h/b"), &whole).unwrap();
        assert!(cache.load("https://h/b").is_none());
    }

    #[test]
    fn the_least_recently_used_headers_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheOptions::new(directory.path(), 10_000);
        for number in 0..10u64 {
            let address = format!("https://h/{number}");
            cache.store(&address, &entry_of(&[7; 2000]));
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + number);
            File::options()
                .write(true)
                .open(cache.path(&address))
                .unwrap()
                .set_modified(at)
                .unwrap();
            // Used each time, so it is kept.
            assert!(cache.load("https://h/0").is_some());
        }
        let total: u64 = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!((6_000..=10_000).contains(&total), "{total}");
        assert!(cache.load("https://h/9").is_some() && cache.load("https://h/1").is_none());
        cache.store("https://h/large", &entry_of(&[7; 5000]));
        assert!(cache.load("https://h/large").is_none());
    }

    #[test]
    fn files_of_other_programs_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let others = ["x.tmp", "ggmill.tmp", "notes.header", "0123.header", "ggmill-x.tmp.bak"];
        for name in others {
            fs::write(directory.path().join(name), vec![0; 20_000]).unwrap();
        }
        // The temporary file of a killed process.
        let left = directory.path().join("ggmill-Ab12.tmp");
        fs::write(&left, vec![0; 20_000]).unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        File::options().write(true).open(&left).unwrap().set_modified(later).unwrap();
        let cache = CacheOptions::new(directory.path(), 10_000);
        cache.store("https://h/a", &entry_of(&[7; 2000]));
        assert!(cache.load("https://h/a").is_some() && !left.exists());
        for name in others {
            assert!(directory.path().join(name).exists(), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_read_only_header_is_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheOptions::new(directory.path(), 10_000);
        cache.store("https://h/a", &entry_of(&[7; 2000]));
        let path = cache.path("https://h/a");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(cache.load("https://h/a").is_some());
    }
}
