//! The order in which files that belong together get their names, apart from the files it is done
//! to.
//!
//! 1. Each file is on the disk. None has a name: whatever happens now, it is as if they had never
//!    been.
//! 2. Each gets its name. A name that exists leads to a whole file.
//! 3. The directories are on the disk, and with them the names.

use std::path::{Path, PathBuf};

use crate::error::Result;

/// A file that is complete and has no name yet.
pub(crate) trait Complete {
    /// Makes sure that its bytes are on the disk.
    fn sync(&mut self) -> Result<()>;
    /// Where its name will be.
    fn target(&self) -> &Path;
    /// Gives it its name, and says whether another file had that before.
    fn name(self) -> Result<Replaced>;
}

/// The directories that files get their names in. Tests have one on a disk that loses power.
pub(crate) trait Directories {
    /// Makes sure that the names in the directory of this file are on the disk.
    fn sync(&mut self, target: &Path) -> Result<()>;
    /// Takes a name away again. What cannot be taken away stays: the error that matters was before.
    fn remove(&mut self, target: &Path);
}

/// Whether a file may have taken the place of another, which cannot be brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    Perhaps,
    Nothing,
}

/// Names all files or none, apart from those that took the place of others.
pub(crate) fn commit(
    mut files: Vec<impl Complete>,
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
    let mut one_of_each: Vec<&Path> = targets.iter().map(PathBuf::as_path).collect();
    one_of_each.sort_unstable_by_key(|target| target.parent());
    one_of_each.dedup_by_key(|target| target.parent());
    let done =
        done.and_then(|()| one_of_each.into_iter().try_for_each(|target| directories.sync(target)));
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

    /// A disk whose power can fail, or one of whose steps. Of names that were given or taken away
    /// and not synced any may survive; of a file that was not synced, nothing does.
    #[derive(Clone, Debug, Default)]
    struct Flaky {
        /// Files that are on the disk.
        synced: Vec<usize>,
        /// The files that names lead to, on the disk and as the program sees them.
        durable: BTreeMap<PathBuf, usize>,
        seen: BTreeMap<PathBuf, usize>,
        /// Steps done, and the step that fails or before which the power does.
        steps: usize,
        fails: Option<usize>,
        dies: Option<usize>,
        /// A mutant: files are not synced.
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

        /// The names that can be there when the power comes back: each change survives or not.
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

    impl Complete for File<'_> {
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

    /// A file that was there before.
    const OLD: usize = 99;

    /// Three files, one of them in another directory, and the second replacing one or not.
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

    /// Each name leads to a file that is on the disk, wherever the power failed.
    fn is_sound(disk: &Flaky) -> bool {
        disk.survivors().iter().flat_map(BTreeMap::values).all(|file| disk.synced.contains(file))
    }

    #[test]
    fn all_names_are_there_when_it_is_done() {
        for replaces in [false, true] {
            let (done, disk) = run(replaces, &Flaky::default());
            done.unwrap();
            assert_eq!(disk.durable.values().collect::<Vec<_>>(), [&0, &1, &2]);
            assert_eq!(disk.steps, 3 + 3 + 2, "one sync for each file and each directory");
        }
    }

    #[test]
    fn a_crash_leaves_names_of_whole_files_only() {
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
    fn a_step_that_fails_takes_every_new_name_back() {
        for fails in 0..8 {
            let (done, disk) = run(false, &Flaky { fails: Some(fails), ..Flaky::default() });
            assert!(done.is_err() && disk.seen.is_empty() && is_sound(&disk), "{fails}: {disk:?}");
            // What was replaced cannot come back, and is one or the other.
            let (done, disk) = run(true, &Flaky { fails: Some(fails), ..Flaky::default() });
            assert!(done.is_err() && is_sound(&disk), "{fails}");
            assert_eq!(disk.seen.keys().collect::<Vec<_>>(), [Path::new("a/1")], "{fails}");
        }
    }
}
