//! Renaming rules that are applied to checkpoint names before tensors are looked up.

use core::cell::Cell;
use std::sync::Arc;

use crate::data::schema::{RawExpression, RawIgnore, RawRename};
use crate::error::{Error, Result};
use crate::language::expression::{Expression, Loop, Scope};
use crate::language::pattern::{Glob, Template, leading_number};
use crate::language::terms::optional;
use crate::value::ParameterValue;

/// How the names of one checkpoint's tensors are read: what is replaced in them, which tensors are
/// not needed, and which must be zero.
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
    /// Where there are any, all other tensors are not needed.
    only: Arc<[Glob]>,
    /// What conditions are about.
    parameters: Arc<[(Box<str>, ParameterValue)]>,
    zeros: Vec<Glob>,
    renames: Vec<Rename>,
}

impl NameRules {
    /// The name that the description goes by for a tensor of this name.
    pub fn renamed(&self, name: &str) -> String {
        let apply = |name: String, rename: &Rename| rename.apply(&name).unwrap_or(name);
        self.renames.iter().fold(name.to_owned(), apply)
    }

    /// The name in a checkpoint of a tensor that the description has by this name: the way back from
    /// [`renamed`](Self::renamed), for replacements that checkpoints always need.
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

    /// Whether a tensor is known and not needed.
    pub fn ignores(&self, name: &str) -> bool {
        let fuel = Cell::new(Scope::FUEL);
        let scope = Scope::new(&self.parameters, &fuel);
        let is_left_out = !self.only.is_empty() && !self.only.iter().any(|glob| glob.matches(name));
        is_left_out || self.ignore.iter().any(|ignored| ignored.matches(name, &scope))
    }

    /// Whether a tensor must have zeros alone, and is left out then.
    pub fn must_be_zero(&self, name: &str) -> bool {
        self.zeros.iter().any(|glob| glob.matches(name))
    }
}

/// A text that is replaced in names.
#[derive(Clone, Debug)]
struct Rename {
    find: Box<str>,
    with: Box<str>,
    place: Place,
    /// Whether checkpoints always have the text that is replaced.
    always: bool,
}

/// Where in a name a text is looked for.
#[derive(Clone, Copy, Debug)]
enum Place {
    Beginning,
    End,
    Anywhere,
}

impl Rename {
    /// The name with the text replaced; `None` where it does not have it.
    fn apply(&self, name: &str) -> Option<String> {
        let (find, with) = (&*self.find, &*self.with);
        match self.place {
            Place::Beginning => name.strip_prefix(find).map(|rest| format!("{with}{rest}")),
            Place::End => name.strip_suffix(find).map(|start| format!("{start}{with}")),
            Place::Anywhere => name.contains(find).then(|| name.replace(find, with)),
        }
    }

    /// The name before the text was replaced; `None` where it does not have the replacement.
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

/// A replacement as a description writes it.
#[derive(Clone, Debug)]
struct RenameTemplate {
    find: Template,
    /// The replacement; `None` for no text.
    with: Option<Template>,
    place: Place,
    repeat: Option<Loop>,
    when: Option<Expression>,
    always: bool,
}

impl RenameTemplate {
    fn understand(raw: &RawRename, known: &dyn Fn(&str) -> bool) -> Result<Self> {
        let repeat = raw.r#for.as_deref().map(Loop::parse).transpose()?;
        if let Some(repeat) = &repeat {
            repeat.check_names(known)?;
        }
        let variable = repeat.as_ref().map(|repeat| &*repeat.variable);
        let known = |name: &str| known(name) || variable == Some(name);
        let template = |text: &str| {
            let template = Template::parse(text)?;
            template.check_variables(&known)?;
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
            when: optional(raw.when.as_ref(), "when", &known)?,
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

/// Replacements that one loop makes.
const MAX_RENAMES: u64 = 1 << 10;

/// Tensors that are not needed: a pattern in which `*` is any text and `{n}` a number, which the
/// condition may ask for.
#[derive(Clone, Debug)]
struct Ignored {
    glob: Glob,
    number: Option<Numbered>,
    when: Option<Expression>,
}

/// The place of the number in a pattern.
#[derive(Clone, Debug)]
struct Numbered {
    before: Box<str>,
    variable: Box<str>,
    /// What follows the number, up to the next `*`.
    after: Box<str>,
}

impl Numbered {
    /// The number that a name has there.
    fn of(&self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(&*self.before)?;
        let (digits, rest) = leading_number(rest)?;
        digits.parse().ok().filter(|_| rest.starts_with(&*self.after))
    }
}

impl Ignored {
    fn understand(
        pattern: &str,
        when: Option<&RawExpression>,
        known: &dyn Fn(&str) -> bool,
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
        let known = |name: &str| known(name) || variable == Some(name);
        let when = optional(when, "when", &known)?;
        Ok(Self { glob: Glob::new(&pattern), number, when })
    }

    /// Whether a tensor of this name is not needed, for a model of these numbers.
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

/// The rules as a description writes them, each with its condition.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameRuleTemplates {
    ignore: Arc<[Ignored]>,
    only: Arc<[Glob]>,
    zeros: Vec<Glob>,
    renames: Vec<RenameTemplate>,
}

impl NameRuleTemplates {
    pub(crate) fn understand(
        ignore: &[RawIgnore],
        only: &[String],
        zeros: &[String],
        renames: &[RawRename],
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let mut ignored = Vec::new();
        for ignore in ignore {
            match ignore {
                RawIgnore::Pattern(pattern) => {
                    ignored.push(Ignored::understand(pattern, None, known)?);
                }
                RawIgnore::Table(table) => {
                    for name in &table.names {
                        ignored.push(Ignored::understand(name, Some(&table.when), known)?);
                    }
                }
            }
        }
        let renames = renames.iter().map(|raw| RenameTemplate::understand(raw, known));
        Ok(Self {
            ignore: ignored.into(),
            only: only.iter().map(|name| Glob::new(name)).collect(),
            zeros: zeros.iter().map(|name| Glob::new(name)).collect(),
            renames: renames.collect::<Result<_>>()?,
        })
    }

    /// The same without the replacements that are repeated, whose numbers may depend on the tensors
    /// of a checkpoint.
    pub(crate) fn without_loops(&self) -> Self {
        let renames = self.renames.iter().filter(|rename| rename.repeat.is_none());
        Self { renames: renames.cloned().collect(), ..self.clone() }
    }

    /// The rules for a model of these numbers.
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
