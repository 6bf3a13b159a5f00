//! The protocol on a simulated disk that loses power after every step, with every subset of the
//! unsynced changes surviving.

use std::cell::Cell;
use std::io;

use crate::in_place::protocol::{Applied, Fault, HeaderChange, Medium, Recovery, apply, recover};

/// Accepts every header: these tests check the order of steps, not the content.
fn any_header(_: &[u8], _: u64) -> bool {
    true
}

/// A change that may not be durable yet.
#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>),
    Insert(usize),
    Collapse(usize),
}

/// A simulated disk that can lose power. The program sees `seen`; after a power loss `synced` and
/// any subset of `pending` survive.
#[derive(Clone, Debug, Default)]
struct Flaky {
    seen: Vec<u8>,
    synced: Vec<u8>,
    pending: Vec<Step>,
    journal: Option<Vec<u8>>,
    /// Steps left until the power fails, and writes left until they fail.
    left: Cell<usize>,
    writes_left: usize,
    inserts: bool,
    /// Mutation: `sync` does nothing.
    lies: bool,
}

impl Flaky {
    fn new(bytes: &[u8]) -> Self {
        Self {
            seen: bytes.to_vec(),
            synced: bytes.to_vec(),
            inserts: true,
            writes_left: usize::MAX,
            left: Cell::new(usize::MAX),
            ..Self::default()
        }
    }

    fn step(&self) -> io::Result<()> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| io::Error::other("no power"))?;
        self.left.set(left);
        Ok(())
    }

    fn act(&mut self, step: Step) {
        perform(&mut self.seen, &step);
        self.pending.push(step);
    }

    /// Returns every content the file can have after a power loss: any subset of the pending steps,
    /// with writes torn anywhere, front or back first.
    fn survivors(&self) -> Vec<Vec<u8>> {
        let mut states = vec![self.synced.clone()];
        for step in &self.pending {
            let mut next = states.clone();
            for state in &states {
                for torn in torn(step) {
                    let mut state = state.clone();
                    perform(&mut state, &torn);
                    next.push(state);
                }
            }
            next.sort_unstable();
            next.dedup();
            states = next;
        }
        states
    }

    fn after_the_crash(&self, bytes: &[u8]) -> Self {
        Self { journal: self.journal.clone(), lies: self.lies, ..Self::new(bytes) }
    }
}

fn perform(file: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write(offset, bytes) => {
            let end = offset + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*offset..end].copy_from_slice(bytes);
        }
        Step::Insert(len) => drop(file.splice(0..0, vec![0; *len])),
        Step::Collapse(len) => drop(file.drain(..*len)),
    }
}

fn torn(step: &Step) -> Vec<Step> {
    let Step::Write(offset, bytes) = step else { return vec![step.clone()] };
    // Sectors of 16 bytes keep the number of torn writes small enough to try all of them.
    let cuts: Vec<usize> =
        (0..bytes.len()).step_by(16).chain([1, bytes.len() - 1, bytes.len()]).collect();
    let mut all: Vec<Step> =
        cuts.iter().map(|&cut| Step::Write(*offset, bytes[..cut].to_vec())).collect();
    all.extend(cuts.iter().map(|&cut| Step::Write(offset + cut, bytes[cut..].to_vec())));
    all
}

impl Medium for Flaky {
    fn len(&self) -> io::Result<u64> {
        Ok(self.seen.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        out.copy_from_slice(
            self.seen.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?,
        );
        Ok(())
    }
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        self.writes_left = self.writes_left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        self.act(Step::Write(usize::try_from(offset).unwrap(), bytes.to_vec()));
        Ok(())
    }
    fn insert(&mut self, len: u64) -> io::Result<()> {
        self.step()?;
        if !self.inserts {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.act(Step::Insert(usize::try_from(len).unwrap()));
        Ok(())
    }
    fn collapse(&mut self, len: u64) -> io::Result<()> {
        self.step()?;
        self.act(Step::Collapse(usize::try_from(len).unwrap()));
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        self.step()?;
        if !self.lies {
            self.synced.clone_from(&self.seen);
            self.pending.clear();
        }
        Ok(())
    }
    fn put_journal(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        if self.journal.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.journal = Some(bytes.to_vec());
        Ok(())
    }
    fn journal(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.journal.clone())
    }
    fn remove_journal(&mut self) -> io::Result<()> {
        self.step()?;
        self.journal = None;
        Ok(())
    }
}

/// An old file and the header that replaces its first `header_len` bytes.
struct Case {
    old: Vec<u8>,
    header_len: usize,
    new_header: Vec<u8>,
}

impl Case {
    fn change(&self) -> HeaderChange<'_> {
        HeaderChange::new(&self.old[..self.header_len], &self.new_header)
    }
    fn new_file(&self) -> Vec<u8> {
        [&self.new_header, &self.old[self.header_len..]].concat()
    }
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|place| u8::try_from((place * 7 + seed * 31 + place / 16) % 251).unwrap())
        .collect()
}

/// Edits of equal length in the middle, at the start and of the whole header; growth by one unit
/// and by more than the header; a file that is only a header.
fn cases() -> Vec<Case> {
    let case = |data: usize, header_len: usize, new_header: Vec<u8>| Case {
        old: [pattern(header_len, 0), pattern(data, 1)].concat(),
        header_len,
        new_header,
    };
    let mut middle = pattern(96, 0);
    middle[30..60].fill(0xEE);
    let mut first = pattern(96, 0);
    first[0] = 0xEE;
    vec![
        case(200, 96, middle),
        case(200, 96, first),
        case(200, 96, pattern(96, 2)),
        case(0, 96, pattern(96, 2)),
        case(200, 96, pattern(96 + 32, 2)),
        case(200, 96, pattern(96 + 128, 2)),
        case(70_000, 32, pattern(64, 2)),
    ]
}

/// Returns every disk state possible after a crash during `run`, which begins with `start`.
fn crashes(start: &Flaky, run: &dyn Fn(&mut Flaky)) -> Vec<Flaky> {
    let mut found = Vec::new();
    for left in 0..64 {
        let mut disk = start.clone();
        disk.left.set(left);
        run(&mut disk);
        found.extend(disk.survivors().into_iter().map(|bytes| disk.after_the_crash(&bytes)));
        if disk.left.get() > 0 {
            return found;
        }
    }
    panic!("more than 64 steps");
}

/// Recovers `disk` and returns the number of crashes tried, or `None` if the result is not one of
/// `ends` without a journal. Also crashes during recovery, nested `depth` times.
fn recovers(disk: &Flaky, ends: &[&[u8]], depth: usize) -> Option<u32> {
    let mut whole = disk.clone();
    if recover(&mut whole, &any_header).is_err()
        || whole.journal.is_some()
        || !ends.contains(&&*whole.seen)
    {
        return None;
    }
    let again = if depth == 0 {
        Vec::new()
    } else {
        crashes(disk, &|disk| drop(recover(disk, &any_header)))
    };
    again.iter().try_fold(1, |count, disk| Some(count + recovers(disk, ends, depth - 1)?))
}

#[test]
fn a_crash_at_any_instant_leaves_the_old_file_or_the_new_one() {
    let mut count = 0;
    for (number, case) in cases().iter().enumerate() {
        let start = Flaky::new(&case.old);
        let mut whole = start.clone();
        assert_eq!(apply(&mut whole, case.change()).unwrap(), Applied::Done);
        assert!(
            whole.seen == case.new_file() && whole.synced == whole.seen && whole.journal.is_none(),
            "case {number}"
        );

        let found = crashes(&start, &|disk| drop(apply(disk, case.change())));
        assert!(found.len() > 5, "case {number}: {} states", found.len());
        for disk in &found {
            let ends = [&*case.old, &*case.new_file()];
            count += recovers(disk, &ends, 1).unwrap_or_else(|| panic!("case {number}"));
        }
    }
    println!("kills: {count} crashes of edits at a write boundary");
    assert!(count > 1000, "{count} crashes");
}

/// The test above can fail: if `sync` does nothing, growing files are lost.
#[test]
fn the_syncs_are_needed() {
    let case = &cases()[4];
    let start = Flaky { lies: true, ..Flaky::new(&case.old) };
    let found = crashes(&start, &|disk| drop(apply(disk, case.change())));
    assert!(!found.iter().all(|disk| recovers(disk, &[&case.old, &case.new_file()], 0).is_some()));
}

/// After a failed write, such as on a full disk, the file is restored, even if the power fails
/// during that.
#[test]
fn a_failed_write_is_undone() {
    for case in cases() {
        let run = |disk: &mut Flaky| {
            disk.writes_left = 0;
            // Restoring overwrites existing bytes, which needs no space.
            let fault = apply(&mut Recovering(disk), case.change()).unwrap_err();
            assert!(
                matches!(
                    fault,
                    Fault::Io("cannot write" | "cannot write the journal", _) | Fault::Halfway(_)
                ),
                "{fault:?}"
            );
        };
        let mut whole = Flaky::new(&case.old);
        run(&mut whole);
        assert!(whole.seen == case.old && whole.journal.is_none());
        for disk in crashes(&Flaky::new(&case.old), &run) {
            assert!(recovers(&disk, &[&case.old, &case.new_file()], 0).is_some());
        }
    }
}

/// Lets all writes after the first failed one succeed.
struct Recovering<'a>(&'a mut Flaky);

impl Medium for Recovering<'_> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let result = self.0.write(offset, bytes);
        self.0.writes_left = usize::MAX;
        result
    }
    fn insert(&mut self, len: u64) -> io::Result<()> {
        self.0.insert(len)
    }
    fn collapse(&mut self, len: u64) -> io::Result<()> {
        self.0.collapse(len)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
    fn put_journal(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.put_journal(bytes)
    }
    fn journal(&self) -> io::Result<Option<Vec<u8>>> {
        self.0.journal()
    }
    fn remove_journal(&mut self) -> io::Result<()> {
        self.0.remove_journal()
    }
}

#[test]
fn without_insertion_the_file_is_unchanged() {
    let case = &cases()[4];
    let mut disk = Flaky { inserts: false, ..Flaky::new(&case.old) };
    assert_eq!(apply(&mut disk, case.change()).unwrap(), Applied::CannotGrow);
    assert!(disk.seen == case.old && disk.journal.is_none());
}

#[test]
fn a_changed_file_is_left_unchanged() {
    let case = &cases()[0];
    let mut other = case.old.clone();
    other[95] ^= 1;
    let mut disk = Flaky::new(&other);
    assert!(matches!(apply(&mut disk, case.change()), Err(Fault::Changed)));
    let mut short = Flaky::new(&case.old[..50]);
    assert!(matches!(apply(&mut short, case.change()), Err(Fault::Changed)));
    assert!(disk.seen == other && disk.journal.is_none() && short.journal.is_none());
}

/// A journal of another file changes nothing, and stays for inspection.
#[test]
fn a_journal_of_another_file_is_refused() {
    for case in cases() {
        let mut interrupted = Flaky::new(&case.old);
        interrupted.left.set(if case.change().grow() > 0 { 3 } else { 1 });
        assert!(apply(&mut interrupted, case.change()).is_err());
        let journal = interrupted.journal.clone();
        assert!(journal.is_some());
        let file = &interrupted.seen;
        let written = case.change().range();
        for place in [0, file.len() / 2, file.len() - 1] {
            if written.contains(&(place as u64)) {
                continue;
            }
            let mut other = Flaky::new(file);
            other.seen[place] ^= 1;
            other.journal.clone_from(&journal);
            let before = other.seen.clone();
            let sampled = file.len() < 10_000 || place != file.len() / 2;
            match recover(&mut other, &any_header) {
                Err(Fault::ForeignJournal) => {
                    assert!(other.seen == before && other.journal == journal);
                }
                result => assert!(!sampled, "{result:?}"),
            }
        }
        for len in [0, 10, journal.as_ref().unwrap().len() - 1] {
            let mut other = Flaky {
                journal: journal.as_ref().map(|bytes| bytes[..len].to_vec()),
                ..Flaky::new(file)
            };
            assert!(matches!(recover(&mut other, &any_header), Err(Fault::DamagedJournal)));
            assert!(other.seen == *file && other.journal.is_some());
        }
    }
    assert_eq!(recover(&mut Flaky::new(b"file"), &any_header).unwrap(), Recovery::Nothing);
}
