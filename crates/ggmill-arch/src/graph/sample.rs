//! Checks the graph of a description on generated models.
//!
//! Hyperparameters are small pseudorandom numbers, mostly powers of two so that heads divide widths,
//! and the numbers and strings that conditions compare with. Optional tensors are present at random.
//! Models that the description excludes are skipped; all others must have a graph, and together they
//! must take both branches of every condition.

use core::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::build::BranchCoverage;
use super::run;
use crate::description::architecture::Architecture;
use crate::error::{Error, ErrorKind, Result};
use crate::language::expression::{Expression, Scope};
use crate::language::program::Program;
use crate::parameters::{Parameter, ParameterKey, ParameterSource};
use crate::resolve::Resolved;
use crate::resolve::file::{KeySpec, RequiredBy};
use crate::value::ParameterValue as Value;

/// The maximum number of generated models.
const TRIES: u64 = 30_000;
/// The minimum number of models with a graph.
const MODELS: u32 = 48;
/// The suffix of the key for the number of blocks.
const BLOCKS: &str = ".block_count";
/// The maximum number of blocks that is chosen because a condition compares with it.
const MOST_BLOCKS: i64 = 64;
/// The step budget for all models together: a second or two. Real descriptions need at most half of it.
const FUEL: u64 = Scope::FUEL << 1;
/// The step budget per model. Generated models are small: real descriptions need a hundredth of it.
const FUEL_PER_MODEL: u64 = Scope::FUEL >> 4;
/// The numbers to choose from. Generated models are small.
const NUMBERS: [i64; 12] = [1, 2, 4, 8, 2, 4, 16, 32, 64, 6, 12, 24];

/// Checks the graph. Fails for the first model that contradicts it. Returns the lowest operation set
/// that contains all operations of the generated models.
pub(super) fn check(architecture: &Architecture, program: &Program) -> Result<u32> {
    let constants = Constants::of(architecture, program);
    let coverage = BranchCoverage::default();
    let (mut models, mut refused) = (0u32, BTreeMap::<String, u32>::new());
    let mut set = 1;
    let mut refuse = |error: &Error| {
        let reason = refused.entry(error.to_string()).or_default();
        *reason = reason.saturating_add(1);
    };
    let (fuel, mut left_over) = (Cell::new(FUEL_PER_MODEL), FUEL);
    // A model is a mutation of the last one with a graph, or of the example. Before the first graph, every
    // second one is a mutation of the model that used the most keys before it was excluded.
    let example = architecture.example.iter();
    let example = example.map(|(key, value)| (key.to_string(), Some(value.clone())));
    let example: BTreeMap<_, _> = example.collect();
    let (mut last, mut furthest) = (example.clone(), example.clone());
    // The number of assertions that held in that model.
    let mut most_held = 0;
    for seed in 0..TRIES {
        left_over = left_over.saturating_sub(FUEL_PER_MODEL.saturating_sub(fuel.get()));
        if fuel.get() == 0 || left_over == 0 {
            let open = untaken(&coverage)
                .map(|(step, side)| format!("; a condition in {step:?} is {side} in all of them"));
            let message = format!(
                "graph: takes too many steps to check, after {models} generated models{}",
                open.unwrap_or_default()
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        fuel.set(FUEL_PER_MODEL);
        let has_most = seed & 1 == 0 && models == 0;
        let of_example = seed & 3 == 3 && !example.is_empty();
        let before = match (has_most, of_example) {
            (true, _) => &furthest,
            (false, true) => &example,
            (false, false) => &last,
        };
        let source = Source::new(seed, &constants, before, has_most);
        coverage.held.set(0);
        // Most models are excluded by hyperparameters, before their tensors are needed.
        let numbers = Resolved::numbers_within(architecture, &source, &fuel);
        let numbers = numbers.map(|numbers| run::excluded(&numbers, program, &coverage, &fuel));
        if let Some(error) = match numbers {
            Ok(None) => None,
            Ok(Some(because)) => Some(Error::new(ErrorKind::Unsupported, because)),
            Err(error) => Some(error),
        } {
            refuse(&error);
            let values = source.values.into_inner();
            let held = coverage.held.get();
            if held > most_held || held == most_held && values.len() >= furthest.len() {
                (furthest, most_held) = (values, held);
            }
            continue;
        }
        let resolved = match Resolved::of_file_within(architecture, &source, &fuel) {
            Ok(resolved) => resolved,
            Err(error) => {
                refuse(&error);
                continue;
            }
        };
        let present = source.tensors(&resolved);
        coverage.held.set(0);
        let has = |name: &str| present.contains(name);
        match run::graph(&resolved, program, &has, Some(&coverage), &fuel) {
            Ok(graph) => {
                models = models.saturating_add(1);
                set = set.max(graph.operation_set());
                last = source.values.into_inner();
            }
            Err(error) if error.kind() == ErrorKind::Unsupported || fuel.get() == 0 => {
                refuse(&error);
                let held = coverage.held.get();
                if held > most_held {
                    (furthest, most_held) = (source.values.into_inner(), held);
                }
                continue;
            }
            Err(error) => {
                let numbers = source.shown();
                return Err(Error::description(format!(
                    "graph: {error}; in a model with {numbers}"
                )));
            }
        }
        if models >= MODELS && untaken(&coverage).is_none() {
            return Ok(set);
        }
    }
    if models == 0 {
        let mut reasons: Vec<_> = refused.iter().map(|(why, count)| (*count, &**why)).collect();
        reasons.sort_unstable_by(|a, b| b.cmp(a));
        let reasons: Vec<&str> = reasons.into_iter().take(8).map(|(_, why)| why).collect();
        let reasons = reasons.join("; ");
        let message = format!("graph: none of {TRIES} generated models has a graph: {reasons}");
        return Err(Error::description(message));
    }
    match untaken(&coverage) {
        None => Ok(set),
        Some((step, side)) => Err(Error::description(format!(
            "graph: a condition in {step:?} is {side} in all of {models} generated models, so the \
             other case is not checked"
        ))),
    }
}

/// Returns a condition of which the models took only one branch, and whether it held.
fn untaken(coverage: &BranchCoverage) -> Option<(String, bool)> {
    let conditions = coverage.branches.borrow();
    let open = conditions
        .values()
        .find(|branches| !branches.of_tensors && branches.holds != branches.fails)?;
    Some((open.step.clone(), open.holds))
}

/// The literals in conditions, and the keys that every file has.
#[derive(Debug, Default)]
struct Constants {
    required: BTreeSet<String>,
    numbers: Vec<i64>,
    texts: Vec<Value>,
}

impl Constants {
    fn of(architecture: &Architecture, program: &Program) -> Self {
        let is_required =
            |key: &KeySpec<'_>| key.required_by.is_some_and(RequiredBy::includes_loader);
        let required = architecture.keys().filter(is_required).map(|key| key.name.to_owned());
        let mut constants = Self { required: required.collect(), ..Self::default() };
        program.each_literal(&mut |value| constants.add(value));
        constants
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Int(number) if !NUMBERS.contains(number) => self.numbers.push(*number),
            text @ Value::Str(_) => self.texts.push(text.clone()),
            _ => {}
        }
    }
}

/// The metadata of a generated model. Values are generated on first use.
#[derive(Debug)]
struct Source<'a> {
    constants: &'a Constants,
    last: &'a BTreeMap<String, Option<Value>>,
    state: Cell<u64>,
    /// One in this many optional keys is missing.
    missing: u64,
    /// One in this many keys of the previous model is generated again.
    changed: u64,
    values: RefCell<BTreeMap<String, Option<Value>>>,
}

impl<'a> Source<'a> {
    fn new(
        seed: u64,
        constants: &'a Constants,
        last: &'a BTreeMap<String, Option<Value>>,
        has_most: bool,
    ) -> Self {
        let state = Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
        // Missing keys and zeros exclude most models if defaults do not work.
        let missing = if has_most { 16 } else { 2 };
        // Models with many constraints are found by small mutations.
        let changed = if has_most && seed & 2 == 0 { 64 } else { 4 };
        Self { constants, last, state, missing, changed, values: RefCell::default() }
    }

    /// Returns a pseudorandom number below a limit (splitmix64).
    fn below(&self, limit: u64) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(limit).unwrap_or(0)
    }

    fn one_of<'t, T>(&self, values: &'t [T]) -> Option<&'t T> {
        let place = self.below(u64::try_from(values.len()).ok()?);
        usize::try_from(place).ok().and_then(|place| values.get(place))
    }

    fn make(&self, parameter: &Parameter, key: &str) -> Option<Value> {
        let optional = !self.constants.required.contains(key)
            && (parameter.optional || self.default(parameter).is_some());
        if optional && self.below(self.missing) == 0 {
            return None;
        }
        let special = self.below(8) == 0;
        let number = match self.one_of(&self.constants.numbers).filter(|_| special) {
            Some(&number) if (1..=MOST_BLOCKS).contains(&number) || !key.ends_with(BLOCKS) => {
                number
            }
            _ if optional && self.missing == 2 && self.below(12) == 0 => 0,
            // Few blocks, because time grows with them.
            _ if key.ends_with(BLOCKS) => *self.one_of(&[1, 2, 3, 4, 8])?,
            // Some hyperparameters must be equal.
            _ => match self.known_number().filter(|_| self.missing > 2 && self.below(3) == 0) {
                Some(number) => number,
                None => *self.one_of(&NUMBERS)?,
            },
        };
        let text = || self.one_of(&self.constants.texts).cloned();
        let is_scalar = [Value::Int(number), Value::Bool(true)];
        let is_scalar = is_scalar.iter().any(|value| parameter.kind.accept(value).is_some());
        if parameter.kind.can_be_list() && (self.below(4) == 0 || !is_scalar) {
            return self.list(parameter, number);
        }
        let candidates = [Value::Int(number), Value::Bool(self.below(2) == 0)];
        candidates.into_iter().chain(text()).find_map(|value| parameter.kind.accept(&value))
    }

    /// Returns a number that the model already has.
    fn known_number(&self) -> Option<i64> {
        let values = self.values.borrow();
        let numbers = values.iter().filter(|(key, _)| !key.ends_with(BLOCKS));
        let numbers: Vec<i64> = numbers
            .filter_map(|(_, value)| match value {
                Some(Value::Int(number)) if *number > 0 => Some(*number),
                _ => None,
            })
            .collect();
        self.one_of(&numbers).copied()
    }

    /// Returns a list with an element per block.
    fn list(&self, parameter: &Parameter, number: i64) -> Option<Value> {
        let values = self.values.borrow();
        let blocks = values.iter().find(|(key, _)| key.ends_with(BLOCKS))?.1.clone();
        let blocks = usize::try_from(blocks?.as_u64()?).ok()?.min(64);
        let flags = (0..blocks).map(|_| Value::Bool(self.below(2) == 0));
        // Elements may differ between blocks.
        let (differ, has) = (self.below(4) == 0, || self.below(2) != 0);
        let numbers = (0..blocks).map(|_| Value::Int(if !differ || has() { number } else { 0 }));
        let candidates = [Value::List(flags.collect()), Value::List(numbers.collect())];
        candidates.into_iter().find_map(|value| parameter.kind.accept(&value))
    }

    /// Returns the tensors of the model.
    fn tensors(&self, model: &Resolved<'_>) -> BTreeSet<String> {
        let mut present = BTreeSet::new();
        // All blocks have the same optional tensors.
        let mut by_kind: BTreeMap<String, bool> = BTreeMap::new();
        for spec in model.tensors() {
            let kind: String = spec.name.chars().filter(|c| !c.is_ascii_digit()).collect();
            let chance = || self.below(2) == 0;
            // Mutually exclusive tensors are resolved below.
            let is_certain = spec.required && spec.tied.is_none();
            if is_certain || *by_kind.entry(kind).or_insert_with(chance) {
                present.insert(spec.name.clone());
            }
        }
        for spec in model.tensors() {
            if spec.unless.as_ref().is_some_and(|other| present.contains(other)) {
                present.remove(&spec.name);
            }
        }
        present
    }

    /// Formats the generated values for messages.
    fn shown(&self) -> String {
        let values = self.values.borrow();
        let shown = values
            .iter()
            .filter_map(|(key, value)| value.as_ref().map(|value| format!("{key} = {value}")));
        shown.collect::<Vec<_>>().join(", ")
    }
}

impl ParameterSource for Source<'_> {
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(Value, String)>> {
        for place in &parameter.keys {
            let key = place.to_string();
            let known = self.values.borrow().get(&key).cloned();
            let value = known.unwrap_or_else(|| {
                let kept = self.last.get(&key).filter(|_| self.below(self.changed) != 0);
                let made = kept.cloned().unwrap_or_else(|| self.make(parameter, &key));
                self.values.borrow_mut().insert(key.clone(), made.clone());
                made
            });
            if let Some(value) = value.and_then(|value| parameter.kind.accept(&value)) {
                return Ok(Some((value, key)));
            }
        }
        Ok(None)
    }

    fn places(&self, parameter: &Parameter) -> Option<String> {
        let first = parameter.keys.first().map(ParameterKey::key)?;
        Some(first.to_owned())
    }

    fn default<'p>(&self, parameter: &'p Parameter) -> Option<&'p Expression> {
        parameter.in_file.as_ref().or(parameter.default.as_ref())
    }
}
