//! No circle between files: to read one file, none is needed that needs this one.
//!
//! A file needs another when it takes a name that is defined there, by whatever way the name is
//! handed on. Handing on (`pub use`) is no need. The files under a directory and the `mod.rs` of
//! that directory are one module divided, so what the files take from their own `mod.rs` does not
//! count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::paths::{Paths, paths};
use super::tokens::tokens;
use crate::process::{Done, root};
use crate::sources::sources;

/// A module by its names from the root of its crate.
type Module = Vec<String>;

/// One crate's modules, each a file.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<Module, (String, Paths)>,
}

/// Circles in the sources of every crate: the files of each, and the names that tie them.
pub(super) fn findings() -> Done<Vec<String>> {
    let crates = root().join("crates");
    let failed = |error| format!("{}: {error}", crates.display());
    let mut directories = vec![root().join("xtask"), root().join("fuzz")];
    for entry in fs::read_dir(&crates).map_err(failed)? {
        directories.push(entry.map_err(failed)?.path());
    }
    directories.sort();
    let mut findings = Vec::new();
    for directory in directories {
        let source = directory.join("src");
        if source.is_dir() {
            findings.extend(circles(&source)?);
        }
    }
    Ok(findings)
}

/// The circles of one crate.
fn circles(source: &Path) -> Done<Vec<String>> {
    let tree = Tree::read(source)?;
    let needs = tree.needs();
    Ok(tied(&needs).into_iter().map(|files| told(&files, &needs)).collect())
}

/// For each file those that it needs, with the names it takes from each.
type Needs = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn told(files: &BTreeSet<String>, needs: &Needs) -> String {
    let mut lines = vec![format!("a circle of {} files", files.len())];
    for file in files {
        for (other, names) in
            needs.get(file).into_iter().flatten().filter(|(other, _)| files.contains(*other))
        {
            lines.push(format!(
                "    {file} takes {} from {other}",
                names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
            ));
        }
    }
    lines.join("\n")
}

impl Tree {
    fn read(source: &Path) -> Done<Self> {
        let mut tree = Self::default();
        for path in sources(source)? {
            let place = path.strip_prefix(source).unwrap_or(&path);
            // Programs take from the library as others do.
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
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let shown =
                path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            tree.files.insert(module, (shown, paths(&tokens(&text))));
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
                let Some(found) = self
                    .resolve(module, path, 0)
                    .filter(|found| found != module && !module.starts_with(found))
                else {
                    continue;
                };
                let name = path
                    .iter()
                    .rev()
                    .find(|name| !["self", "super", "crate"].contains(&name.as_str()))
                    .cloned()
                    .unwrap_or_default();
                needs
                    .entry(file.clone())
                    .or_default()
                    .entry(self.files[&found].0.clone())
                    .or_default()
                    .insert(name);
            }
        }
        needs
    }

    /// The module where the item of a path is defined, or nothing where that is another crate or a
    /// module itself.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        /// Names that are handed on more often than this go in a circle themselves.
        const DEEPEST: usize = 16;
        if depth > DEEPEST {
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

    /// The module where a name that a module has is defined. `is_ours`: the path so far led into
    /// this crate, so that a name that nothing explains is the module's.
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
            // A name for itself is another crate's.
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

/// The files that are tied in circles: those of which each reaches the other.
fn tied(needs: &Needs) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|file| (file, reach(needs, file))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (file, others) in &reached {
        let circle: BTreeSet<String> = others
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)))
            .map(|other| (*other).clone())
            .collect();
        if circle.contains(*file) && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reach<'a>(needs: &'a Needs, from: &'a String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        open.extend(
            needs
                .get(file)
                .into_iter()
                .flat_map(BTreeMap::keys)
                .filter(|other| reached.insert(*other)),
        );
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a small tree, each as its files, without the way to them.
    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree {
            files: files
                .iter()
                .map(|(name, source)| {
                    let module = name
                        .split('/')
                        .filter(|part| *part != "mod" && *part != "lib")
                        .map(str::to_owned)
                        .collect();
                    (module, ((*name).to_owned(), paths(&tokens(source))))
                })
                .collect(),
        };
        tied(&tree.needs())
            .iter()
            .map(|circle| circle.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn a_circle_is_found_by_whatever_way_the_names_are_written() {
        for b in [
            "use crate::a::A;",
            "use super::a::A;",
            "use super::{a::{A as B}};",
            "fn f() { crate::a::A::new() }",
            "use super::a; fn f() { a::A::new() }",
            "use crate::A;",
            "use crate::*; fn f(a: crate::A) {}",
        ] {
            let files = [
                ("lib", "mod a; mod b; pub use a::A; pub use b::*;"),
                ("a", "use crate::b::f; pub struct A;"),
                ("b", &*format!("{b} pub fn f() {{}}")),
            ];
            assert_eq!(circles_of(&files), ["a b"], "{b}");
        }
    }

    #[test]
    fn what_is_handed_on_is_no_need() {
        let files = [
            ("lib", "mod a; mod b; mod c; pub use a::A; use c::C;"),
            ("a", "use crate::C; pub struct A;"),
            ("b", "use crate::A;"),
            ("c", "pub struct C;"),
        ];
        assert!(circles_of(&files).is_empty());
        let three = [
            ("a", "use crate::b::B; struct A;"),
            ("b", "use crate::c::C; struct B;"),
            ("c", "use crate::a::A; struct C;"),
            ("lib", "mod a; mod b; mod c;"),
        ];
        assert_eq!(circles_of(&three), ["a b c"]);
    }

    #[test]
    fn the_files_of_a_directory_are_parts_of_its_module() {
        let one = ("lib", "mod d; mod e;");
        assert!(
            circles_of(&[
                one,
                ("d/mod", "mod p; use p::P; pub struct D;"),
                ("d/p", "use super::D; pub struct P;"),
                ("e", "")
            ])
            .is_empty()
        );
        let others = [
            one,
            ("d/mod", "mod p; use crate::e::E; pub struct D;"),
            ("d/p", "pub struct P;"),
            ("e", "use crate::d::D; pub struct E;"),
        ];
        assert_eq!(circles_of(&others), ["d/mod e"]);
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let files = [
            ("lib", "mod a; mod b;"),
            ("a", "use std::b::B; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("b", "use crate::a::A;"),
        ];
        assert!(circles_of(&files).is_empty());
    }
}
