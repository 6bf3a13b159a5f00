//! The commit protocol for files that belong together, independent of the file system so that tests
//! can inject faults:
//!
//! 1. Sync each file. None has a name yet, so a crash leaves nothing behind.
//! 2. Give each its name. Every name that exists leads to a complete file.
//! 3. Sync the directories, which makes the names durable.

use std::path::{Path, PathBuf};

use crate::error::Result;

/// A complete file without its final name.
pub(crate) trait Unnamed {
    /// Syncs its data to the disk.
    fn sync(&mut self) -> Result<()>;
    /// Its final path.
    fn target(&self) -> &Path;
    /// Renames it to its target, and returns whether that may have replaced a file.
    fn name(self) -> Result<Replaced>;
}

/// The directories of the targets. Tests implement it with a simulated disk that loses power.
pub(crate) trait Directories {
    /// Syncs the directory of `target`, which makes the names in it durable.
    fn sync(&mut self, target: &Path) -> Result<()>;
    /// Removes a name during rollback. Ignores errors: the first error is the one to report.
    fn remove(&mut self, target: &Path);
}

/// The effect of a rename: a file that it may have replaced cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    Perhaps,
    Nothing,
}

/// Names all files or none, except that replaced files stay replaced.
pub(crate) fn commit(
    mut files: Vec<impl Unnamed>,
    directories: &mut impl Directories,
) -> Result<()> {
    for file in &mut files {
        file.sync()?;
    }
    let targets: Vec<PathBuf> = files.iter().map(|file| file.target().to_owned()).collect();
    let mut new: Vec<&Path> = Vec::new();
    let mut done = Ok(());
    for (file, target) in files.into_iter().zip(&targets) {
        match file.name() {
            Ok(Replaced::Nothing) => new.push(target),
            Ok(Replaced::Perhaps) => {}
            Err(error) => {
                done = Err(error);
                break;
            }
        }
    }
    let mut one_per_directory: Vec<&Path> = targets.iter().map(PathBuf::as_path).collect();
    one_per_directory.sort_unstable_by_key(|target| target.parent());
    one_per_directory.dedup_by_key(|target| target.parent());
    let done = done.and_then(|()| {
        one_per_directory.into_iter().try_for_each(|target| directories.sync(target))
    });
    if done.is_err() {
        for target in new {
            directories.remove(target);
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::io;

    use super::*;
    use crate::error::Error;

    /// A simulated disk that can lose power or fail a step. Any subset of unsynced name changes may
    /// survive; the data of an unsynced file does not.
    #[derive(Clone, Debug, Default)]
    struct Flaky {
        /// Files whose data is durable.
        synced: Vec<usize>,
        /// Names and their files: the durable state, and the state the program sees.
        durable: BTreeMap<PathBuf, usize>,
        seen: BTreeMap<PathBuf, usize>,
        /// Steps done so far, the step that fails, and the step before which the power fails.
        steps: usize,
        fails: Option<usize>,
        dies: Option<usize>,
        /// Mutation: `sync` does nothing.
        lies: bool,
    }

    impl Flaky {
        fn step(&mut self, path: &Path) -> Result<()> {
            let step = self.steps;
            self.steps += 1;
            let (fails, dies) =
                (self.fails == Some(step), self.dies.is_some_and(|dies| step >= dies));
            if fails || dies {
                Err(Error::io(path, "cannot", io::ErrorKind::Other.into()))
            } else {
                Ok(())
            }
        }

        /// Every durable state possible after a power loss: each unsynced change survives or not.
        fn survivors(&self) -> Vec<BTreeMap<PathBuf, usize>> {
            let paths: Vec<&PathBuf> = self
                .seen
                .keys()
                .chain(self.durable.keys())
                .filter(|path| self.seen.get(*path) != self.durable.get(*path))
                .collect();
            let mut states = vec![self.durable.clone()];
            for path in paths {
                for mut state in states.clone() {
                    match self.seen.get(path) {
                        Some(file) => drop(state.insert(path.clone(), *file)),
                        None => drop(state.remove(path)),
                    }
                    states.push(state);
                }
            }
            states
        }
    }

    struct File<'a> {
        disk: &'a RefCell<Flaky>,
        number: usize,
        target: PathBuf,
        replaces: bool,
    }

    impl Unnamed for File<'_> {
        fn sync(&mut self) -> Result<()> {
            let mut disk = self.disk.borrow_mut();
            disk.step(&self.target)?;
            if !disk.lies {
                disk.synced.push(self.number);
            }
            Ok(())
        }

        fn target(&self) -> &Path {
            &self.target
        }

        fn name(self) -> Result<Replaced> {
            let mut disk = self.disk.borrow_mut();
            disk.step(&self.target)?;
            disk.seen.insert(self.target, self.number);
            Ok(if self.replaces { Replaced::Perhaps } else { Replaced::Nothing })
        }
    }

    struct Names<'a>(&'a RefCell<Flaky>);

    impl Directories for Names<'_> {
        fn sync(&mut self, target: &Path) -> Result<()> {
            let mut disk = self.0.borrow_mut();
            disk.step(target)?;
            let inside = |path: &Path| path.parent() == target.parent();
            disk.durable.retain(|path, _| !inside(path));
            let names: Vec<(PathBuf, usize)> = disk
                .seen
                .iter()
                .filter(|(path, _)| inside(path))
                .map(|(path, file)| (path.clone(), *file))
                .collect();
            disk.durable.extend(names);
            Ok(())
        }

        fn remove(&mut self, target: &Path) {
            let mut disk = self.0.borrow_mut();
            if disk.step(target).is_ok() {
                disk.seen.remove(target);
            }
        }
    }

    /// The file that exists before the commit.
    const OLD: usize = 99;

    /// Commits three files, one in another directory; the second replaces a file if `replaces`.
    fn run(replaces: bool, flaky: &Flaky) -> (Result<()>, Flaky) {
        let before = BTreeMap::from([(PathBuf::from("a/1"), OLD)]);
        let names = if replaces { before } else { BTreeMap::new() };
        let disk = RefCell::new(Flaky {
            synced: vec![OLD],
            durable: names.clone(),
            seen: names,
            ..flaky.clone()
        });
        let file = |number, target: &str, replaces| File {
            disk: &disk,
            number,
            target: target.into(),
            replaces,
        };
        let files = vec![file(0, "a/0", false), file(1, "a/1", replaces), file(2, "b/2", false)];
        let done = commit(files, &mut Names(&disk));
        (done, disk.into_inner())
    }

    /// Returns `true` if in every surviving state each name leads to a durable file.
    fn is_sound(disk: &Flaky) -> bool {
        disk.survivors().iter().flat_map(BTreeMap::values).all(|file| disk.synced.contains(file))
    }

    #[test]
    fn a_commit_makes_all_names_durable() {
        for replaces in [false, true] {
            let (done, disk) = run(replaces, &Flaky::default());
            done.unwrap();
            assert_eq!(disk.durable.values().collect::<Vec<_>>(), [&0, &1, &2]);
            assert_eq!(disk.steps, 3 + 3 + 2, "one sync for each file and each directory");
        }
    }

    #[test]
    fn a_crash_leaves_only_names_of_complete_files() {
        let mut count = 0;
        for replaces in [false, true] {
            for dies in 0..8 {
                let (done, disk) = run(replaces, &Flaky { dies: Some(dies), ..Flaky::default() });
                assert!(done.is_err() && is_sound(&disk), "{dies}");
                assert!(
                    !replaces
                        || disk
                            .survivors()
                            .iter()
                            .all(|names| names.contains_key(Path::new("a/1"))),
                    "an original is gone"
                );
                count += disk.survivors().len();
            }
        }
        println!("kills: {count} crashes of commits at a step");
    }

    /// The test above can fail: without the syncs, names lead nowhere.
    #[test]
    fn the_syncs_are_needed() {
        assert!((0..8).any(|dies| !is_sound(
            &run(false, &Flaky { dies: Some(dies), lies: true, ..Flaky::default() }).1
        )));
    }

    #[test]
    fn a_failed_step_removes_every_new_name() {
        for fails in 0..8 {
            let (done, disk) = run(false, &Flaky { fails: Some(fails), ..Flaky::default() });
            assert!(done.is_err() && disk.seen.is_empty() && is_sound(&disk), "{fails}: {disk:?}");
            // A replaced file stays replaced: its name leads to the old or the new file.
            let (done, disk) = run(true, &Flaky { fails: Some(fails), ..Flaky::default() });
            assert!(done.is_err() && is_sound(&disk), "{fails}");
            assert_eq!(disk.seen.keys().collect::<Vec<_>>(), [Path::new("a/1")], "{fails}");
        }
    }
}
