//! No cycle between the modules of a crate: directories side by side do not depend on each other in a
//! circle. Files of one directory may, as types and their methods do, and so may a directory and the
//! files next to it.
//!
//! A file depends on another if it uses a name that is defined there, however it is re-exported.
//! Re-exporting (`pub use`) is not a dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::paths::{Paths, paths};
use crate::process::{Done, root};
use crate::rust::Source;
use crate::sources::sources;

/// Modules that depend on each other on purpose, and why.
const EXCEPTIONS: &[(&str, [&str; 2], &str)] = &[
    (
        "crates/ggmill-pipeline/src",
        ["expression", "source"],
        "an expression reads from a source, and a derived source evaluates expressions",
    ),
    (
        "crates/ggmill-template/src",
        ["builtins", "run"],
        "the evaluator calls built-in functions, which call macros and compare values as it does",
    ),
];

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// For each pair of modules that are siblings, the uses by which the first depends on the second.
type Needs = BTreeMap<(Module, Module), BTreeSet<String>>;

/// The modules of one crate that are files, with the file's name.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<Module, (String, Paths)>,
}

/// Returns the cycles between modules of every crate.
pub(super) fn findings() -> Done<Vec<String>> {
    let crates = root().join("crates");
    let failed = |error| format!("{}: {error}", crates.display());
    let mut directories = vec![root().join("xtask"), root().join("fuzz")];
    for entry in fs::read_dir(&crates).map_err(failed)? {
        directories.push(entry.map_err(failed)?.path());
    }
    directories.sort();
    let mut findings = Vec::new();
    for source in directories.iter().map(|directory| directory.join("src")) {
        if source.is_dir() {
            let mut needs = Tree::read(&source)?.needs();
            for (_, modules, _) in EXCEPTIONS.iter().filter(|(place, ..)| source.ends_with(place)) {
                needs.retain(|(from, to), _| {
                    ![from, to].iter().all(|module| modules.contains(&&*module.join("/")))
                });
            }
            findings.extend(cycles(&needs));
        }
    }
    Ok(findings)
}

/// Returns a line for each dependency that is part of a cycle.
fn cycles(needs: &Needs) -> Vec<String> {
    let leads_back = |from: &Module, to: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![to]);
        while let Some(module) = open.pop() {
            let next = needs.keys().filter(|(user, _)| user == module).map(|(_, used)| used);
            open.extend(next.filter(|used| seen.insert(*used)));
        }
        seen.contains(from)
    };
    let in_cycles = needs.iter().filter(|((from, to), _)| leads_back(from, to));
    in_cycles
        .map(|((from, to), uses)| {
            let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
            format!(
                "cycle of modules: {} depends on {}: {}",
                from.join("/"),
                to.join("/"),
                uses.join(", ")
            )
        })
        .collect()
}

impl Tree {
    fn read(source: &Path) -> Done<Self> {
        let mut tree = Self::default();
        for path in sources(source)? {
            let place = path.strip_prefix(source).unwrap_or(&path);
            // A program uses the library of its crate as other crates do.
            if place.starts_with("bin")
                || place == Path::new("main.rs") && source.join("lib.rs").exists()
            {
                continue;
            }
            let mut module: Module = place
                .with_extension("")
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
                module.pop();
            }
            let shown =
                path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            let tokens = Source::read(&path)?.tokens();
            tree.files.insert(module, (shown, paths(&tokens)));
        }
        Ok(tree)
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::new();
        for (module, (file, paths)) in &self.files {
            let used = paths
                .uses
                .iter()
                .filter(|used| !used.is_public && used.name != "*")
                .map(|used| &used.path);
            for path in used.chain(&paths.inline) {
                let Some(found) = self.resolve(module, path, 0) else { continue };
                if let Some(siblings) = self.siblings(module, &found) {
                    let (used, _) = &self.files[&found];
                    needs.entry(siblings).or_default().insert(format!("{file} uses {used}"));
                }
            }
        }
        needs
    }

    /// Returns the directories, side by side, that contain two modules, or `None` if one of the modules
    /// is a file next to the other or to a directory that contains it.
    fn siblings(&self, one: &Module, other: &Module) -> Option<(Module, Module)> {
        let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        let directory = |module: &Module| {
            let directory = module.get(..=common)?;
            let is_directory = self
                .files
                .keys()
                .any(|file| file.len() > directory.len() && file.starts_with(directory));
            is_directory.then(|| directory.to_vec())
        };
        Some((directory(one)?, directory(other)?))
    }

    /// Returns the module that defines the item of a path, or `None` for an item of another crate and for
    /// a module.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        /// Longer chains of re-exports are cycles.
        const MAX_DEPTH: usize = 16;
        if depth > MAX_DEPTH {
            return None;
        }
        let mut module = from.clone();
        let mut is_ours = false;
        for (place, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => module = Module::new(),
                "super" => drop(module.pop()),
                "self" => {}
                name => {
                    let child: Module = module.iter().cloned().chain([name.to_owned()]).collect();
                    if self.files.contains_key(&child) {
                        module = child;
                    } else {
                        return self.item(&module, name, &path[place + 1..], is_ours, depth);
                    }
                }
            }
            is_ours = true;
        }
        None
    }

    /// Returns the module that defines a name found in `module`. If `is_ours`, the path led into this
    /// crate, and a name without a definition (one that a macro defines) is the module's.
    fn item(
        &self,
        module: &Module,
        name: &str,
        rest: &[String],
        is_ours: bool,
        depth: usize,
    ) -> Option<Module> {
        let (_, paths) = self.files.get(module)?;
        if paths.defined.iter().any(|defined| defined == name) {
            return is_ours.then(|| module.clone());
        }
        if let Some(used) = paths.uses.iter().find(|used| used.name == name) {
            let whole: Vec<String> = used.path.iter().chain(rest).cloned().collect();
            // `use name;` names another crate.
            return if used.path == [name] {
                None
            } else {
                self.resolve(module, &whole, depth + 1)
            };
        }
        let globs = paths.uses.iter().filter(|used| used.name == "*");
        let through = globs.filter_map(|used| {
            self.resolve(module, &[&used.path[..], &[name.to_owned()]].concat(), depth + 1)
        });
        let defines = |found: &Module| {
            self.files
                .get(found)
                .is_some_and(|(_, paths)| paths.defined.iter().any(|defined| defined == name))
        };
        through.into_iter().find(defines).or_else(|| is_ours.then(|| module.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the dependencies in cycles of a small tree, without the uses.
    fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree {
            files: files
                .iter()
                .map(|(name, source)| {
                    let module = name
                        .split('/')
                        .filter(|part| *part != "mod" && *part != "lib")
                        .map(str::to_owned)
                        .collect();
                    (
                        module,
                        ((*name).to_owned(), paths(&Source::parse(name, source).unwrap().tokens())),
                    )
                })
                .collect(),
        };
        let cycles = cycles(&tree.needs());
        cycles
            .iter()
            .map(|line| {
                let line = line.strip_prefix("cycle of modules: ").unwrap();
                line.split_once(':').unwrap().0.to_owned()
            })
            .collect()
    }

    #[test]
    fn a_cycle_is_found_however_the_names_are_written() {
        for b in [
            "use crate::a::A;",
            "use super::super::a::A;",
            "use super::super::{a::{A as B}};",
            "fn f() { crate::a::A::new() }",
            "use super::super::a; fn f() { a::A::new() }",
            "use crate::A;",
            "use crate::*; fn f(a: crate::A) {}",
        ] {
            let files = [
                ("lib", "mod a; mod b; pub use a::A; pub use b::*;"),
                ("a/mod", "mod p; pub use p::A;"),
                ("a/p", "use crate::b::f; pub struct A;"),
                ("b/mod", "mod q; pub use q::f;"),
                ("b/q", &*format!("{b} pub fn f() {{}}")),
            ];
            assert_eq!(cycles_of(&files), ["a depends on b", "b depends on a"], "{b}");
        }
    }

    #[test]
    fn a_longer_cycle_is_found() {
        let files = [
            ("lib", "mod a; mod b; mod c;"),
            ("a/mod", "mod p; use crate::b::B; struct A;"),
            ("a/p", ""),
            ("b/mod", "mod p; use crate::c::p::C; struct B;"),
            ("b/p", ""),
            ("c/mod", "mod p;"),
            ("c/p", "use crate::a::A; pub struct C;"),
        ];
        assert_eq!(cycles_of(&files), ["a depends on b", "b depends on c", "c depends on a"]);
    }

    #[test]
    fn files_next_to_each_other_may_depend_on_each_other() {
        let files = [
            ("lib", "mod a; mod b; mod d;"),
            ("a", "use crate::b::B; use crate::d::D; pub struct A;"),
            ("b", "use crate::a::A; pub struct B;"),
            ("d/mod", "mod p; use p::P; pub struct D;"),
            ("d/p", "use super::D; use crate::a::A; pub struct P;"),
        ];
        assert!(cycles_of(&files).is_empty());
    }

    #[test]
    fn tests_re_exports_and_other_crates_do_not_count() {
        let files = [
            ("lib", "mod a; mod b;"),
            ("a/mod", "mod p; pub use crate::b::B;"),
            ("a/p", "use std::b::B; #[cfg(test)] mod tests { use crate::b::B; } pub struct A;"),
            ("b/mod", "mod p; use crate::a::p::A; pub struct B;"),
            ("b/p", ""),
        ];
        assert!(cycles_of(&files).is_empty());
    }
}
