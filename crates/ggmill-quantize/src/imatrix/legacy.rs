//! The form before GGUF: a count of entries; for each its name, calls, values; at the end perhaps
//! the number of chunks and the name of the data set.

use std::collections::BTreeMap;

use ggmill_core::RawStr;

use super::{Imatrix, ImatrixEntry, ImatrixForm, MAX_ENTRIES, invalid};
use ggmill_pipeline::Result;

pub(super) fn parse(bytes: &[u8]) -> Result<Imatrix> {
    let mut reader = Reader { bytes, at: 0 };
    let count = reader.count("entries", ENTRY)?;
    if count == 0 {
        return Err(invalid("has no entries"));
    }
    if count > MAX_ENTRIES {
        return Err(invalid(format!("{count} entries, the limit is {MAX_ENTRIES}")));
    }
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let (name, entry) = reader.entry()?;
        if entries.contains_key(&name) {
            return Err(invalid(format!("entry {:?} is a duplicate", RawStr::new(&name))));
        }
        entries.insert(name, entry);
    }
    let mut imatrix = Imatrix {
        form: ImatrixForm::Legacy,
        entries,
        datasets: Vec::new(),
        chunk_count: 0,
        chunk_size: 0,
    };
    if !reader.is_at_end() {
        imatrix.chunk_count = u32::try_from(reader.i32("the number of chunks")?).unwrap_or(0);
    }
    if !reader.is_at_end() {
        let length = reader.count("bytes of a dataset name", 1)?;
        let name = reader.take(length, "the dataset name")?;
        // Written from a C string.
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        imatrix.datasets.extend((!name.is_empty()).then(|| name.to_vec()));
    }
    Ok(imatrix)
}

/// Bytes of the smallest entry: no name, the two counts and its length, one value.
const ENTRY: usize = 16;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..length).ok_or_else(|| {
            let (at, remain) = (self.at, rest.len());
            invalid(format!(
                "offset {at:#x}: {what} needs {length} bytes, but {remain} remain; the file is \
                 truncated, or is not an importance matrix"
            ))
        })?;
        self.at += length;
        Ok(taken)
    }

    fn i32(&mut self, what: &str) -> Result<i32> {
        let bytes = self.take(4, what)?;
        Ok(bytes.first_chunk().map_or(0, |&bytes| i32::from_le_bytes(bytes)))
    }

    /// A count of things that take at least `least` bytes each: no more than the bytes that remain
    /// can hold.
    fn count(&mut self, what: &str, least: usize) -> Result<usize> {
        let at = self.at;
        let count = self.i32(what)?;
        let remain = self.bytes.len() - self.at;
        let fits = |&count: &usize| count.checked_mul(least).is_some_and(|bytes| bytes <= remain);
        usize::try_from(count).ok().filter(fits).ok_or_else(|| {
            invalid(format!(
                "offset {at:#x}: {count} {what} in the remaining {remain} bytes; the file is \
                 truncated, or is not an importance matrix"
            ))
        })
    }

    fn entry(&mut self) -> Result<(Vec<u8>, ImatrixEntry)> {
        let length = self.count("bytes of a name", 1)?;
        let name = self.take(length, "a name")?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
        let calls = self.i32("the number of calls")?;
        let values = self.count("values", 4)?;
        if values == 0 {
            return Err(invalid(format!("entry {:?} has no values", RawStr::new(&name))));
        }
        let sums = super::values(self.take(values * 4, "the values")?)?;
        Ok((name, ImatrixEntry { form: ImatrixForm::Legacy, sums, counts: vec![i64::from(calls)] }))
    }
}
