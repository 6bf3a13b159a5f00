//! The walk through a template's syntax tree.

mod access;
mod calls;
mod eval;
mod loops;
mod namespace;
mod ops;
mod scope;
mod words;

use std::collections::BTreeSet;
use std::rc::Rc;

use minijinja::machinery::Span;
use minijinja::machinery::ast::{ForLoop, Macro, Stmt};

pub(crate) use namespace::Namespace;
pub(crate) use ops::{Sign, add, compare, contains, index, set_entry};
use scope::Scope;
use words::Words;

use crate::error::{Error, ErrorKind, Result};
use crate::meter::{Held, Meter};
use crate::moment::Moment;
use crate::value::{Builder, Mark, Text, Value, show_into};

/// Statements and expressions in each other, macros that call each other included.
const MAX_DEPTH: u32 = 320;

/// What goes on after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
}

/// A macro and the variables around its definition.
struct MacroEntry<'t> {
    declaration: &'t Macro<'t>,
    scope: Rc<Scope<'t>>,
    words: Words,
    _held: Held,
}

/// A recursive loop and the variables around it: those that each of its calls sees.
struct RecursiveLoop<'t> {
    statement: &'t ForLoop<'t>,
    scope: Rc<Scope<'t>>,
    _held: Held,
}

/// A rendering.
pub(crate) struct Run<'t> {
    pub(crate) meter: Rc<Meter>,
    source: &'t str,
    /// The variables that the caller gives.
    context: &'t [(String, Value)],
    now: Option<Moment>,
    macros: Vec<MacroEntry<'t>>,
    pub(crate) namespaces: Vec<Namespace>,
    recursive: Vec<RecursiveLoop<'t>>,
    depth: u32,
    /// Names of variables that were read and do not exist.
    pub(crate) missing: BTreeSet<String>,
    /// Whether the clock was asked for.
    pub(crate) asked_time: bool,
}

impl<'t> Run<'t> {
    pub(crate) fn new(
        source: &'t str,
        context: &'t [(String, Value)],
        now: Option<Moment>,
        meter: Rc<Meter>,
    ) -> Self {
        Self {
            meter,
            source,
            context,
            now,
            macros: Vec::new(),
            namespaces: Vec::new(),
            recursive: Vec::new(),
            depth: 0,
            missing: BTreeSet::new(),
            asked_time: false,
        }
    }

    /// The text that the template makes.
    pub(crate) fn render(&mut self, template: &'t Stmt<'t>) -> Result<Text> {
        let Stmt::Template(template) = template else {
            return Err(Error::unsupported("not a template"));
        };
        let mut out = Builder::new(&self.meter)?;
        let scope = Scope::root(&self.meter)?;
        self.exec(&template.children, &scope, &mut out)?;
        Ok(out.finish())
    }

    /// The time that the caller gives.
    pub(crate) fn now(&mut self) -> Result<Moment> {
        self.asked_time = true;
        self.now.ok_or_else(|| Error::value("the template uses the time, but none was given"))
    }

    fn enter(&mut self) -> Result<()> {
        self.meter.spend(1)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::Limit, "maximum recursion depth exceeded"));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn exec(
        &mut self,
        statements: &'t [Stmt<'t>],
        scope: &Rc<Scope<'t>>,
        out: &mut Builder,
    ) -> Result<Flow> {
        self.enter()?;
        for statement in statements {
            let line = u32::from(line_of(statement));
            let flow = self.statement(statement, scope, out).map_err(|error| error.at(line))?;
            if flow != Flow::Next {
                self.leave();
                return Ok(flow);
            }
        }
        self.leave();
        Ok(Flow::Next)
    }

    fn statement(
        &mut self,
        statement: &'t Stmt<'t>,
        scope: &Rc<Scope<'t>>,
        out: &mut Builder,
    ) -> Result<Flow> {
        match statement {
            Stmt::EmitRaw(raw) => out.push(raw.raw, Mark::TEMPLATE)?,
            Stmt::EmitExpr(emit) => {
                let value = self.eval(&emit.expr, scope)?;
                show_into(&value, out)?;
            }
            Stmt::IfCond(condition) => {
                // A chain of `elif` is a statement in a statement.
                let mut condition = condition;
                loop {
                    if self.eval(&condition.expr, scope)?.is_true() {
                        return self.exec(&condition.true_body, scope, out);
                    }
                    match &*condition.false_body {
                        [Stmt::IfCond(next)] => {
                            self.meter.spend(1)?;
                            condition = next;
                        }
                        body => return self.exec(body, scope, out),
                    }
                }
            }
            Stmt::ForLoop(each) => return self.exec_for(each, scope, out),
            Stmt::Set(set) => {
                let value = self.eval(&set.expr, scope)?;
                self.assign(&set.target, value, scope)?;
            }
            Stmt::SetBlock(set) => {
                let mut value = Value::Text(self.capture(&set.body, &Scope::within(scope)?)?);
                if let Some(filter) = &set.filter {
                    value = self.filter_block(filter, &value, scope)?;
                }
                self.assign(&set.target, value, scope)?;
            }
            Stmt::FilterBlock(block) => {
                let text = Value::Text(self.capture(&block.body, &Scope::within(scope)?)?);
                let value = self.filter_block(&block.filter, &text, scope)?;
                show_into(&value, out)?;
            }
            Stmt::WithBlock(with) => {
                let inner = Scope::within(scope)?;
                for (target, expression) in &with.assignments {
                    let value = self.eval(expression, scope)?;
                    self.assign(target, value, &inner)?;
                }
                return self.exec(&with.body, &inner, out);
            }
            Stmt::Macro(declaration) => {
                let number = self.declare(declaration, declaration.span(), scope)?;
                scope.set(declaration.name, Value::Macro(number))?;
            }
            Stmt::CallBlock(block) => self.call_block(block, scope, out)?,
            Stmt::Block(block) => return self.exec(&block.body, &Scope::within(scope)?, out),
            Stmt::Continue(_) => return Ok(Flow::Continue),
            Stmt::Break(_) => return Ok(Flow::Break),
            Stmt::AutoEscape(block) => {
                if self.eval(&block.enabled, scope)?.is_true() {
                    return Err(Error::unsupported("autoescape is not supported"));
                }
                return self.exec(&block.body, &Scope::within(scope)?, out);
            }
            Stmt::Import(_) | Stmt::FromImport(_) | Stmt::Extends(_) | Stmt::Include(_) => {
                return Err(Error::new(
                    ErrorKind::Security,
                    "a template cannot load another template",
                ));
            }
            Stmt::Template(_) | Stmt::Do(_) => {
                return Err(Error::unsupported("the statement is not supported in chat templates"));
            }
        }
        Ok(Flow::Next)
    }

    fn capture(&mut self, body: &'t [Stmt<'t>], scope: &Rc<Scope<'t>>) -> Result<Text> {
        let mut out = Builder::new(&self.meter)?;
        self.exec(body, scope, &mut out)?;
        Ok(out.finish())
    }

    fn declare(
        &mut self,
        declaration: &'t Macro<'t>,
        span: Span,
        scope: &Rc<Scope<'t>>,
    ) -> Result<usize> {
        let range = span.start_offset as usize..span.end_offset as usize;
        let source = self.source.get(range).unwrap_or_default();
        self.meter.walk(source.len().saturating_mul(3))?;
        self.macros.push(MacroEntry {
            declaration,
            scope: Rc::clone(scope),
            words: Words::of(source),
            _held: Held::new(&self.meter, 512)?,
        });
        Ok(self.macros.len() - 1)
    }
}

fn line_of(statement: &Stmt<'_>) -> u16 {
    let span = match statement {
        Stmt::Template(node) => node.span(),
        Stmt::EmitExpr(node) => node.span(),
        Stmt::EmitRaw(node) => node.span(),
        Stmt::ForLoop(node) => node.span(),
        Stmt::IfCond(node) => node.span(),
        Stmt::WithBlock(node) => node.span(),
        Stmt::Set(node) => node.span(),
        Stmt::SetBlock(node) => node.span(),
        Stmt::AutoEscape(node) => node.span(),
        Stmt::FilterBlock(node) => node.span(),
        Stmt::Block(node) => node.span(),
        Stmt::Import(node) => node.span(),
        Stmt::FromImport(node) => node.span(),
        Stmt::Extends(node) => node.span(),
        Stmt::Include(node) => node.span(),
        Stmt::Macro(node) => node.span(),
        Stmt::CallBlock(node) => node.span(),
        Stmt::Continue(node) => node.span(),
        Stmt::Break(node) => node.span(),
        Stmt::Do(node) => node.span(),
    };
    span.start_line
}
