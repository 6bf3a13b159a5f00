//! Resolves imports of functions from built-in architectures.

use std::collections::BTreeMap;

use super::lexer::{Fault, Span};
use super::parser::{Import, parse};
use super::{Function, Kind, Source, each_expression};
use crate::error::quoted;
use crate::spelling::near_part;

/// The maximum number of sources of a program.
const MAX_SOURCES: usize = 16;

/// A fault with the index of its source.
pub(super) type SourceFault = (usize, Fault);

/// For each source, the functions that it defines or imports, with their indices.
pub(super) type Names = Vec<BTreeMap<Box<str>, usize>>;

/// The parsed sources of a program.
pub(super) struct Modules(Vec<Module>);

struct Module {
    functions: Vec<Function>,
    /// Imported names, each with the index of the source that it is imported from.
    imported: Vec<(Box<str>, usize, Span)>,
}

/// Parses the first source and, transitively, the sources that it imports from.
pub(super) fn read(
    sources: &mut Vec<Source>,
    programs: &dyn Fn(&str) -> Option<String>,
) -> Result<Modules, SourceFault> {
    let mut modules: Vec<Module> = Vec::new();
    while let Some(source) = sources.get(modules.len()) {
        let number = modules.len();
        let at = |fault| (number, fault);
        let parsed = parse(&source.text.clone(), number).map_err(at)?;
        let mut imported: Vec<(Box<str>, usize, Span)> = Vec::new();
        for Import { module, names, span } in parsed.imports {
            let file = format!("{module}.py");
            let known = sources.iter().skip(1).position(|source| *source.file == *file);
            let from = match known {
                Some(place) => place.saturating_add(1),
                None if sources.len() >= MAX_SOURCES => {
                    return Err(at((span, format!("imports from more than {MAX_SOURCES} files"))));
                }
                None => {
                    // A module has the name of the architecture, with `_` for `-`.
                    let text = programs(&module).or_else(|| programs(&module.replace('_', "-")));
                    let text = text.ok_or_else(|| {
                        let fault = format!("{} is not a built-in architecture", quoted(&module));
                        at((span, fault))
                    })?;
                    sources.push(Source { file: file.into(), text: text.into() });
                    sources.len().saturating_sub(1)
                }
            };
            for (name, span) in names {
                let is_own = parsed.functions.iter().any(|function| function.name == name);
                if is_own || imported.iter().any(|(known, ..)| *known == name) {
                    return Err(at((span, format!("{name} is defined twice"))));
                }
                imported.push((name, from, span));
            }
        }
        modules.push(Module { functions: parsed.functions, imported });
    }
    Ok(Modules(modules))
}

impl Modules {
    /// Returns the source and index of the function with a name in a source.
    fn find(&self, mut module: usize, name: &str) -> Option<(usize, usize)> {
        // A source may import a function that another one imports.
        for _ in 0..MAX_SOURCES {
            let found = self.0.get(module)?;
            if let Some(place) = found.functions.iter().position(|known| *known.name == *name) {
                return Some((module, place));
            }
            module = found.imported.iter().find(|(known, ..)| **known == *name)?.1;
        }
        None
    }

    /// Returns the functions of the first source and all functions that they call, and their names in
    /// each source.
    pub(super) fn reached(mut self) -> Result<(Vec<Function>, Names), SourceFault> {
        let own = self.0.first();
        let own = own.map_or(0, |own| own.functions.len());
        let mut places: Vec<(usize, usize)> = (0..own).map(|place| (0, place)).collect();
        let mut numbers: BTreeMap<(usize, usize), usize> =
            places.iter().copied().zip(0..).collect();
        for (name, from, span) in self.0.first().map_or(&[][..], |own| &own.imported) {
            let place = self.find(*from, name).ok_or_else(|| {
                let functions = self.0.get(*from).map_or(&[][..], |module| &module.functions);
                let near = near_part(name, functions.iter().map(|function| &*function.name));
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                (0, (*span, format!("the file has no function {}{near}", quoted(name))))
            })?;
            if numbers.insert(place, places.len()).is_none() {
                places.push(place);
            }
        }
        let mut next = 0;
        while let Some(&(module, place)) = places.get(next) {
            next = next.saturating_add(1);
            let Some(function) = self.0.get(module).and_then(|known| known.functions.get(place))
            else {
                continue;
            };
            each_expression(&function.body, &mut |expr| {
                let Kind::Call(name, ..) = &expr.kind else { return };
                let Some(called) = self.find(module, name) else { return };
                numbers.entry(called).or_insert_with(|| {
                    places.push(called);
                    places.len().saturating_sub(1)
                });
            });
        }
        let mut names = vec![BTreeMap::new(); self.0.len()];
        for (module, names) in names.iter_mut().enumerate() {
            let Some(known) = self.0.get(module) else { continue };
            let own = known.functions.iter().map(|function| &function.name);
            for name in own.chain(known.imported.iter().map(|(name, ..)| name)) {
                let place = self.find(module, name);
                if let Some(&number) = place.and_then(|place| numbers.get(&place)) {
                    names.insert(name.clone(), number);
                }
            }
        }
        let mut functions = Vec::with_capacity(places.len());
        for (module, place) in places {
            let known = self.0.get_mut(module).and_then(|known| known.functions.get_mut(place));
            functions.extend(known.map(|function| function.clone()));
        }
        Ok((functions, names))
    }
}
