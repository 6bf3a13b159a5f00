//! Calls of functions and macros, and `call` blocks.

use std::rc::Rc;

use minijinja::machinery::ast::{CallArg, CallBlock, Expr, Macro};

use super::{Run, Scope};
use crate::builtins::{Args, call_function, call_method};
use crate::error::{Error, Result};
use crate::meter::Held;
use crate::source::GENERATION;
use crate::value::{Builder, SeqKind, Text, Value, clipped, show_into};

impl<'t> Run<'t> {
    pub(super) fn args(&mut self, args: &'t [CallArg<'t>], scope: &Rc<Scope<'t>>) -> Result<Args> {
        let mut out = Args::default();
        // Memory of `*values` and `**mapping` while they are collected.
        let mut room = Held::new(&self.meter, 0)?;
        for arg in args {
            match arg {
                CallArg::Pos(value) => out.positional.push(self.eval(value, scope)?),
                CallArg::Kwarg(name, value) => {
                    if out.place(name, &self.meter)?.is_some() {
                        let name = clipped(name);
                        return Err(Error::value(format!("keyword argument repeated: {name}")));
                    }
                    let value = self.eval(value, scope)?;
                    out.named.push((self.literal(name)?, value));
                }
                CallArg::PosSplat(values) => {
                    let values = self.eval(values, scope)?.iterate(&self.meter)?;
                    self.meter.spend(values.len() as u64)?;
                    room.grow(values.len().saturating_mul(size_of::<Value>()))?;
                    out.positional.extend(values.read()?.iter().cloned());
                }
                CallArg::KwargSplat(values) => match self.eval(values, scope)? {
                    Value::Dict(dict) => {
                        let count = dict.len();
                        self.meter.spend(count as u64)?;
                        room.grow(count.saturating_mul(size_of::<(Text, Value)>()))?;
                        for (key, value) in dict.read()? {
                            let Value::Text(key) = key else {
                                return Err(Error::value("keywords must be strings"));
                            };
                            out.named.push((key.clone(), value.clone()));
                        }
                    }
                    other => {
                        return Err(Error::value(format!(
                            "argument after ** must be a mapping, not {}",
                            other.type_name()
                        )));
                    }
                },
            }
        }
        self.meter.spend((out.positional.len() + out.named.len()) as u64)?;
        Ok(out)
    }

    pub(super) fn call(&mut self, callee: &Value, args: Args) -> Result<Value> {
        match callee {
            Value::Undefined(missing) => Err(missing.error()),
            Value::Macro(number) => Ok(Value::Text(self.call_macro(*number, args)?)),
            Value::Function(function) => call_function(*function, args, self),
            Value::Method(method) => match &method.object {
                Value::Loop(each) => each.call(method.name, &args.positional, &self.meter),
                _ => call_method(method, args, self),
            },
            Value::Loop(each) => {
                let each = Rc::clone(each);
                self.recurse(&each, &args)
            }
            Value::Joiner(joiner) => {
                args.none("joiner")?;
                if joiner.used.replace(true) {
                    return Ok(Value::Text(joiner.text.clone()));
                }
                Value::text("", &self.meter)
            }
            _ => Err(Error::value(format!("'{}' object is not callable", callee.type_name()))),
        }
    }

    fn call_macro(&mut self, number: usize, mut args: Args) -> Result<Text> {
        let Some(entry) = self.macros.get(number) else { return Err(Error::value("no macro")) };
        let (declaration, implicit) = (entry.declaration, entry.implicit);
        let scope = Scope::within(&entry.scope)?;
        let name = declaration.name;
        let caller = args.take_named("caller", &self.meter)?;
        if let Some(caller) = caller {
            if !implicit.caller {
                return Err(Error::value(format!(
                    "macro '{name}' takes no keyword argument 'caller'"
                )));
            }
            scope.set("caller", caller)?;
        } else if name != "caller" {
            scope.set("caller", Value::undefined("No caller defined", &self.meter)?)?;
        }
        let given = args.positional.len();
        let count = declaration.args.len();
        let without_default = count.saturating_sub(declaration.defaults.len());
        let mut positional = std::mem::take(&mut args.positional).into_iter();
        for (index, target) in declaration.args.iter().enumerate() {
            let Expr::Var(variable) = target else { continue };
            let named = args.place(variable.id, &self.meter)?;
            let value = match (positional.next(), named) {
                (Some(_), Some(_)) => {
                    return Err(Error::value(format!(
                        "macro '{name}' got multiple values for argument '{}'",
                        variable.id
                    )));
                }
                (Some(value), None) => value,
                (None, Some(found)) => args.named.remove(found).1,
                (None, None) => {
                    let default = index.checked_sub(without_default);
                    match default.and_then(|index| declaration.defaults.get(index)) {
                        Some(default) => self.eval(default, &scope)?,
                        None => self.not_provided(variable.id)?,
                    }
                }
            };
            scope.set(variable.id, value)?;
        }
        if implicit.kwargs {
            let mut entries = Vec::new();
            for (key, value) in args.named {
                entries.push((Value::Text(key), value));
            }
            scope.set("kwargs", Value::dict(entries, &self.meter)?)?;
        } else if let Some((key, _)) = args.named.first() {
            return Err(Error::value(format!(
                "macro '{name}' takes no keyword argument '{}'",
                key.clipped()
            )));
        }
        let rest: Vec<_> = positional.collect();
        if implicit.varargs {
            scope.set("varargs", Value::seq(SeqKind::Tuple, rest, &self.meter)?)?;
        } else if given > count {
            return Err(Error::value(format!(
                "macro '{name}' takes not more than {count} argument(s)"
            )));
        }
        self.capture(&declaration.body, &scope)
    }

    fn not_provided(&self, name: &str) -> Result<Value> {
        let message = format!("parameter '{}' was not provided", clipped(name));
        Value::undefined(message, &self.meter)
    }

    pub(super) fn call_block(
        &mut self,
        block: &'t CallBlock<'t>,
        scope: &Rc<Scope<'t>>,
        out: &mut Builder,
    ) -> Result<()> {
        let declaration: &'t Macro<'t> = &block.macro_decl;
        let is_generation = matches!(&block.call.expr, Expr::Var(name) if name.id == GENERATION);
        if is_generation {
            let text = self.capture(&declaration.body, &Scope::within(scope)?)?;
            return out.push_generated(&text);
        }
        let caller = self.declare(declaration, block.macro_decl.span(), scope)?;
        let function = self.eval(&block.call.expr, scope)?;
        let mut args = self.args(&block.call.args, scope)?;
        args.named.push((self.literal("caller")?, Value::Macro(caller)));
        let value = self.call(&function, args)?;
        show_into(&value, out)
    }
}

/// The implicit variables that Jinja defines for a macro that uses them.
#[derive(Clone, Copy)]
pub(super) struct ImplicitArguments {
    pub(super) caller: bool,
    pub(super) kwargs: bool,
    pub(super) varargs: bool,
}

impl ImplicitArguments {
    /// Returns the names that occur in the source of a macro.
    pub(super) fn of(source: &str) -> Self {
        let has = |word| has_word(source, word);
        Self { caller: has("caller"), kwargs: has("kwargs"), varargs: has("varargs") }
    }
}

/// Returns `true` if a word occurs in the source.
fn has_word(source: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(word).any(|(start, _)| {
        let before = source.get(..start).and_then(|text| text.chars().next_back());
        let after = source.get(start + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}
