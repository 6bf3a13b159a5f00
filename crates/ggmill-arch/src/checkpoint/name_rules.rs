//! Rules for the tensor names of a checkpoint: replacements, ignored tensors, tensors that must be
//! zero.

use core::cell::Cell;
use std::sync::Arc;

use crate::data::schema::{RawExpression, RawIgnore, RawRename};
use crate::error::{Error, Result};
use crate::language::expression::{Expression, Loop, Scope, optional};
use crate::language::pattern::{Glob, Template, leading_number};
use crate::value::ParameterValue;

/// The rules for the tensor names of one checkpoint: replacements, tensors that are not needed, and
/// tensors that must be zero.
///
/// ```
/// use ggmill_arch::Architecture;
/// let llama = Architecture::builtin("llama").ok_or("built in")?;
/// let rules = llama.name_rules(&serde_json::json!({ "architectures": ["LlamaForCausalLM"] }));
/// assert!(rules.ignores("model.layers.3.self_attn.rotary_emb.inv_freq"));
/// assert!(!rules.ignores("model.layers.3.self_attn.q_proj.weight"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NameRules {
    ignore: Arc<[Ignored]>,
    /// If there are any, all tensors that match none are not needed.
    only: Arc<[Glob]>,
    /// The hyperparameters that conditions use.
    parameters: Arc<[(Box<str>, ParameterValue)]>,
    zeros: Vec<Glob>,
    renames: Vec<Rename>,
}

impl NameRules {
    /// Returns the name of a checkpoint tensor in the description: with all replacements.
    pub fn renamed(&self, name: &str) -> String {
        let apply = |name: String, rename: &Rename| rename.apply(&name).unwrap_or(name);
        self.renames.iter().fold(name.to_owned(), apply)
    }

    /// Returns the checkpoint name of a tensor in the description: the inverse of
    /// [`renamed`](Self::renamed), for replacements that apply to all checkpoints.
    pub fn original(&self, name: &str) -> String {
        let mut original = name.to_owned();
        for rename in self.renames.iter().rev().filter(|rename| rename.always) {
            if let Some(before) = rename.undone(&original)
                && self.renamed(&before) == name
            {
                original = before;
            }
        }
        original
    }

    /// Returns `true` if a tensor is known and not needed.
    pub fn ignores(&self, name: &str) -> bool {
        let fuel = Cell::new(Scope::FUEL);
        let scope = Scope::new(&self.parameters, &fuel);
        let is_left_out = !self.only.is_empty() && !self.only.iter().any(|glob| glob.matches(name));
        is_left_out || self.ignore.iter().any(|ignored| ignored.matches(name, &scope))
    }

    /// Returns `true` if a tensor must contain only zeros and is then omitted.
    pub fn must_be_zero(&self, name: &str) -> bool {
        self.zeros.iter().any(|glob| glob.matches(name))
    }
}

/// A replacement in names.
#[derive(Clone, Debug)]
struct Rename {
    find: Box<str>,
    with: Box<str>,
    place: Place,
    /// If true, all checkpoints have the replaced text.
    always: bool,
}

/// The places in a name that a replacement applies to.
#[derive(Clone, Copy, Debug)]
enum Place {
    Beginning,
    End,
    Anywhere,
}

impl Rename {
    /// Returns the name with the replacement; `None` if it does not apply.
    fn apply(&self, name: &str) -> Option<String> {
        let (find, with) = (&*self.find, &*self.with);
        match self.place {
            Place::Beginning => name.strip_prefix(find).map(|rest| format!("{with}{rest}")),
            Place::End => name.strip_suffix(find).map(|start| format!("{start}{with}")),
            Place::Anywhere => name.contains(find).then(|| name.replace(find, with)),
        }
    }

    /// Returns the name before the replacement; `None` if it does not contain the new text.
    fn undone(&self, name: &str) -> Option<String> {
        let (find, with) = (&*self.find, &*self.with);
        match self.place {
            Place::Beginning => name.strip_prefix(with).map(|rest| format!("{find}{rest}")),
            Place::End => name.strip_suffix(with).map(|start| format!("{start}{find}")),
            Place::Anywhere => {
                (!with.is_empty() && name.contains(with)).then(|| name.replace(with, find))
            }
        }
    }
}

/// A replacement in a description.
#[derive(Clone, Debug)]
struct RenameTemplate {
    find: Template,
    /// The new text; `None` if it is empty.
    with: Option<Template>,
    place: Place,
    repeat: Option<Loop>,
    when: Option<Expression>,
    always: bool,
}

impl RenameTemplate {
    fn from_raw(raw: &RawRename, is_declared: &dyn Fn(&str) -> bool) -> Result<Self> {
        let repeat = raw.r#for.as_deref().map(Loop::parse).transpose()?;
        if let Some(repeat) = &repeat {
            repeat.check_names(is_declared)?;
        }
        let variable = repeat.as_ref().map(|repeat| &*repeat.variable);
        let is_declared = |name: &str| is_declared(name) || variable == Some(name);
        let template = |text: &str| {
            let template = Template::parse(text)?;
            template.check_variables(&is_declared)?;
            Ok::<_, Error>(template)
        };
        let (place, find) = match (raw.find.strip_prefix('^'), raw.find.strip_prefix('*')) {
            (Some(find), _) => (Place::Beginning, find),
            (_, Some(find)) => (Place::End, find),
            _ => (Place::Anywhere, &*raw.find),
        };
        let with = Some(raw.with.as_str()).filter(|with| !with.is_empty());
        Ok(Self {
            find: template(find)?,
            with: with.map(template).transpose()?,
            place,
            when: optional(raw.when.as_ref(), "when", &is_declared)?,
            repeat,
            always: raw.always,
        })
    }

    fn resolve(&self, scope: &Scope<'_>, renames: &mut Vec<Rename>) -> Result<()> {
        let mut one = |scope: &Scope<'_>| {
            if !self.when.as_ref().map_or(Ok(true), |when| when.evaluate_bool(scope))? {
                return Ok(());
            }
            let with = self.with.as_ref().map(|with| with.fill(scope, 0)).transpose()?;
            renames.push(Rename {
                find: self.find.fill(scope, 0)?.into(),
                with: with.unwrap_or_default().into(),
                place: self.place,
                always: self.always,
            });
            Ok(())
        };
        let Some(repeat) = &self.repeat else { return one(scope) };
        let mut range = repeat.range(scope, MAX_RENAMES)?;
        range.try_for_each(|value| one(&scope.with(&[(&*repeat.variable, value)])))
    }
}

/// The maximum number of replacements of a loop.
const MAX_RENAMES: u64 = 1 << 10;

/// Tensors that are not needed: a pattern in which `*` matches any text and `{n}` a number, which the
/// condition can use.
#[derive(Clone, Debug)]
struct Ignored {
    glob: Glob,
    number: Option<Numbered>,
    when: Option<Expression>,
}

/// The number in a pattern.
#[derive(Clone, Debug)]
struct Numbered {
    before: Box<str>,
    variable: Box<str>,
    /// The text between the number and the next `*`.
    after: Box<str>,
}

impl Numbered {
    /// Returns the number in a name.
    fn of(&self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(&*self.before)?;
        let (digits, rest) = leading_number(rest)?;
        digits.parse().ok().filter(|_| rest.starts_with(&*self.after))
    }
}

impl Ignored {
    fn from_raw(
        pattern: &str,
        when: Option<&RawExpression>,
        is_declared: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let number = pattern.split_once('{').and_then(|(before, rest)| {
            let (variable, rest) = rest.split_once('}')?;
            let after = rest.split_once('*').map_or(rest, |(after, _)| after);
            Some(Numbered { before: before.into(), variable: variable.into(), after: after.into() })
        });
        let pattern = match &number {
            Some(number) => pattern.replace(&format!("{{{}}}", number.variable), "*"),
            None => pattern.to_owned(),
        };
        let variable = number.as_ref().map(|number| &*number.variable);
        let is_declared = |name: &str| is_declared(name) || variable == Some(name);
        let when = optional(when, "when", &is_declared)?;
        Ok(Self { glob: Glob::new(&pattern), number, when })
    }

    /// Returns `true` if a tensor is not needed for these hyperparameters.
    fn matches(&self, name: &str, scope: &Scope<'_>) -> bool {
        let holds = |scope: &Scope<'_>| {
            let when = self.when.as_ref();
            when.is_none_or(|when| when.evaluate_bool(scope).unwrap_or(false))
        };
        if !self.glob.matches(name) {
            return false;
        }
        match &self.number {
            None => holds(scope),
            Some(number) => number
                .of(name)
                .is_some_and(|value| holds(&scope.with(&[(&*number.variable, value)]))),
        }
    }
}

/// The rules in a description, with conditions.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameRuleTemplates {
    ignore: Arc<[Ignored]>,
    only: Arc<[Glob]>,
    zeros: Vec<Glob>,
    renames: Vec<RenameTemplate>,
}

impl NameRuleTemplates {
    pub(crate) fn from_raw(
        ignore: &[RawIgnore],
        only: &[String],
        zeros: &[String],
        renames: &[RawRename],
        is_declared: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let mut ignored = Vec::new();
        for ignore in ignore {
            match ignore {
                RawIgnore::Pattern(pattern) => {
                    ignored.push(Ignored::from_raw(pattern, None, is_declared)?);
                }
                RawIgnore::Table(table) => {
                    for name in &table.names {
                        ignored.push(Ignored::from_raw(name, Some(&table.when), is_declared)?);
                    }
                }
            }
        }
        let renames = renames.iter().map(|raw| RenameTemplate::from_raw(raw, is_declared));
        Ok(Self {
            ignore: ignored.into(),
            only: only.iter().map(|name| Glob::new(name)).collect(),
            zeros: zeros.iter().map(|name| Glob::new(name)).collect(),
            renames: renames.collect::<Result<_>>()?,
        })
    }

    /// Returns the rules without replacements in loops, whose ranges may depend on the tensors of a
    /// checkpoint.
    pub(crate) fn without_loops(&self) -> Self {
        let renames = self.renames.iter().filter(|rename| rename.repeat.is_none());
        Self { renames: renames.cloned().collect(), ..self.clone() }
    }

    /// Returns the rules for these hyperparameters.
    pub(crate) fn resolve(&self, parameters: &[(Box<str>, ParameterValue)]) -> Result<NameRules> {
        let fuel = Cell::new(Scope::FUEL);
        let scope = Scope::new(parameters, &fuel);
        let mut renames = Vec::new();
        for rename in &self.renames {
            rename.resolve(&scope, &mut renames)?;
        }
        Ok(NameRules {
            ignore: Arc::clone(&self.ignore),
            only: Arc::clone(&self.only),
            parameters: parameters.into(),
            zeros: self.zeros.clone(),
            renames,
        })
    }
}
