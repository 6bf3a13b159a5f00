//! The `for` statement, and assignments.

use std::rc::Rc;

use minijinja::machinery::ast::{Expr, ForLoop};

use super::{Flow, RecursiveLoop, Run, Scope};
use crate::builtins::Args;
use crate::error::{Error, Result};
use crate::meter::Held;
use crate::value::{Builder, Loop, Mark, Seq, SeqKind, Text, Value};

impl<'t> Run<'t> {
    pub(super) fn exec_for(
        &mut self,
        each: &'t ForLoop<'t>,
        scope: &Rc<Scope<'t>>,
        out: &mut Builder,
    ) -> Result<Flow> {
        let values = self.eval(&each.iter, scope)?;
        let recursive = if each.recursive {
            // As long as the rendering: the loop can be called after its end.
            self.recursive.push(RecursiveLoop {
                statement: each,
                scope: Rc::clone(scope),
                _held: Held::new(&self.meter, 2 * size_of::<RecursiveLoop<'_>>())?,
            });
            Some(self.recursive.len() - 1)
        } else {
            None
        };
        self.turn(each, &values, scope, 0, recursive, out)
    }

    /// A recursive loop called with other values. Its body sees the variables around the loop, not
    /// those of the turn that calls it.
    pub(super) fn recurse(&mut self, outer: &Loop, args: &Args) -> Result<Value> {
        let number = outer.recursive.ok_or_else(|| {
            Error::value("The loop must have the 'recursive' marker to be called recursively.")
        })?;
        let entry = self.recursive.get(number).ok_or_else(|| Error::value("not a loop"))?;
        let (each, scope) = (entry.statement, Rc::clone(&entry.scope));
        let values = args.one("loop")?;
        let mut out = Builder::new(&self.meter)?;
        self.turn(each, &values, &scope, outer.depth + 1, Some(number), &mut out)?;
        Ok(Value::Text(out.finish()))
    }

    fn turn(
        &mut self,
        each: &'t ForLoop<'t>,
        values: &Value,
        scope: &Rc<Scope<'t>>,
        depth: usize,
        recursive: Option<usize>,
        out: &mut Builder,
    ) -> Result<Flow> {
        let mut items = values.iterate(&self.meter)?;
        if let Some(filter) = &each.filter_expr {
            let mut kept = Vec::new();
            for item in &items.items {
                let inner = Scope::within(scope)?;
                self.assign(&each.target, item.clone(), &inner)?;
                self.meter.spend(1)?;
                if self.eval(filter, &inner)?.is_true() {
                    kept.push(item.clone());
                }
            }
            items = Seq::new(SeqKind::List, kept, &self.meter)?;
        }
        let state = Loop::new(&items, depth, recursive);
        let done = self.turns(each, &state, scope, out);
        state.end();
        done?;
        if items.items.is_empty() {
            return self.exec(&each.else_body, scope, out);
        }
        Ok(Flow::Next)
    }

    fn turns(
        &mut self,
        each: &'t ForLoop<'t>,
        state: &Rc<Loop>,
        scope: &Rc<Scope<'t>>,
        out: &mut Builder,
    ) -> Result<()> {
        for (index, item) in state.items.items.iter().enumerate() {
            self.meter.spend(1)?;
            state.index.set(index);
            let inner = Scope::within(scope)?;
            inner.set("loop", Value::Loop(Rc::clone(state)))?;
            self.assign(&each.target, item.clone(), &inner)?;
            if self.exec(&each.body, &inner, out)? == Flow::Break {
                break;
            }
        }
        Ok(())
    }

    /// Sets a variable, several of them, or an attribute of a namespace.
    pub(super) fn assign(
        &mut self,
        target: &Expr<'t>,
        value: Value,
        scope: &Rc<Scope<'t>>,
    ) -> Result<()> {
        match target {
            Expr::Var(variable) => scope.set(variable.id, value)?,
            Expr::GetAttr(attribute) => {
                let object = self.eval_plain(&attribute.expr, scope)?;
                let Value::Namespace(number) = object else {
                    return Err(Error::value("cannot assign attribute on non-namespace object"));
                };
                if let Some(namespace) = self.namespaces.get_mut(number) {
                    self.meter.spend((namespace.entries.len() / 8) as u64)?;
                    let mut entries = namespace.entries.iter_mut();
                    let known = entries.find(|(name, _)| name.as_str() == attribute.name);
                    if let Some((_, old)) = known {
                        *old = value;
                    } else {
                        let name = Text::new(attribute.name, Mark::TEMPLATE, &self.meter)?;
                        namespace.push(name, value)?;
                    }
                }
            }
            Expr::List(targets) => {
                let items = value.iterate(&self.meter)?;
                let (expected, found) = (targets.items.len(), items.items.len());
                if found < expected {
                    return Err(Error::value(format!(
                        "not enough values to unpack (expected {expected}, got {found})"
                    )));
                }
                if found > expected {
                    return Err(Error::value(format!(
                        "too many values to unpack (expected {expected})"
                    )));
                }
                for (target, item) in targets.items.iter().zip(&items.items) {
                    self.assign(target, item.clone(), scope)?;
                }
            }
            _ => return Err(Error::unsupported("cannot assign to this")),
        }
        Ok(())
    }

    /// A text of the template.
    pub(super) fn literal(&self, text: &str) -> Result<Text> {
        Text::new(text, Mark::TEMPLATE, &self.meter)
    }
}
