//! Executes the statements of a template.

mod calls;
mod eval;
mod ops;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use minijinja::machinery::Span;
use minijinja::machinery::ast::{Expr, ForLoop, Macro, Stmt};
pub(crate) use ops::{Sign, add, compare, contains, index, set_entry};

use self::calls::ImplicitArguments;
use crate::builtins::Args;
use crate::error::{Error, ErrorKind, Result};
use crate::meter::{Held, Meter};
use crate::moment::Moment;
use crate::probe::{Comparison, Probes};
use crate::value::{Builder, Loop, Mark, Seq, SeqKind, Text, Value, show_into};

/// Maximum nesting depth of statements and expressions, including macro calls.
const MAX_DEPTH: u32 = 320;

/// The control flow after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
}

/// A macro with the scope of its definition.
struct MacroEntry<'t> {
    declaration: &'t Macro<'t>,
    scope: Rc<Scope<'t>>,
    implicit: ImplicitArguments,
    _held: Held,
}

/// A recursive loop with its outer scope, which each of its calls sees.
struct RecursiveLoop<'t> {
    statement: &'t ForLoop<'t>,
    scope: Rc<Scope<'t>>,
    _held: Held,
}

/// The state of a rendering.
pub(crate) struct Run<'t> {
    pub(crate) meter: Rc<Meter>,
    source: &'t str,
    /// The variables of the conversation and the options.
    context: &'t [(String, Value)],
    now: Option<Moment>,
    macros: Vec<MacroEntry<'t>>,
    pub(crate) namespaces: Vec<Namespace>,
    recursive: Vec<RecursiveLoop<'t>>,
    depth: u32,
    /// Names of undefined variables that were read.
    pub(crate) missing: BTreeSet<String>,
    /// `true` if the template used the time.
    pub(crate) asked_time: bool,
    /// The comparisons of texts of the conversation with texts of the template, if they are recorded.
    pub(crate) probes: Option<&'t Probes>,
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
            probes: None,
        }
    }

    /// Records that the template compares `value` with `other`.
    pub(crate) fn probe(&self, comparison: Comparison, value: &Value, other: &Value) -> Result<()> {
        match self.probes {
            Some(probes) => probes.compare(comparison, value, other, &self.meter),
            None => Ok(()),
        }
    }

    /// Renders the template.
    pub(crate) fn render(&mut self, template: &'t Stmt<'t>) -> Result<Text> {
        let Stmt::Template(template) = template else {
            return Err(Error::unsupported("not a template"));
        };
        let mut out = Builder::new(&self.meter)?;
        let scope = Scope::root(&self.meter)?;
        self.exec(&template.children, &scope, &mut out)?;
        Ok(out.finish())
    }

    /// Returns the time from the options.
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
                // A chain of `elif` is nested; iterate instead of recursing.
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
            implicit: ImplicitArguments::of(source),
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

impl<'t> Run<'t> {
    fn exec_for(
        &mut self,
        each: &'t ForLoop<'t>,
        scope: &Rc<Scope<'t>>,
        out: &mut Builder,
    ) -> Result<Flow> {
        let values = self.eval(&each.iter, scope)?;
        let recursive = if each.recursive {
            // Kept until the end of the rendering: the loop can be called after it has ended.
            self.recursive.push(RecursiveLoop {
                statement: each,
                scope: Rc::clone(scope),
                _held: Held::new(&self.meter, 2 * size_of::<RecursiveLoop<'_>>())?,
            });
            Some(self.recursive.len() - 1)
        } else {
            None
        };
        self.run_loop(each, &values, scope, 0, recursive, out)
    }

    /// Calls a recursive loop with other values. Its body sees the scope around the loop, not the
    /// iteration that calls it.
    fn recurse(&mut self, outer: &Loop, args: &Args) -> Result<Value> {
        let number = outer.recursive.ok_or_else(|| {
            Error::value("The loop must have the 'recursive' marker to be called recursively.")
        })?;
        let entry = self.recursive.get(number).ok_or_else(|| Error::value("not a loop"))?;
        let (each, scope) = (entry.statement, Rc::clone(&entry.scope));
        let values = args.one("loop")?;
        let mut out = Builder::new(&self.meter)?;
        self.run_loop(each, &values, &scope, outer.depth + 1, Some(number), &mut out)?;
        Ok(Value::Text(out.finish()))
    }

    fn run_loop(
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
            for item in items.read()? {
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
        let done = self.run_iterations(each, &state, scope, out);
        state.end();
        done?;
        if items.is_empty() {
            return self.exec(&each.else_body, scope, out);
        }
        Ok(Flow::Next)
    }

    fn run_iterations(
        &mut self,
        each: &'t ForLoop<'t>,
        state: &Rc<Loop>,
        scope: &Rc<Scope<'t>>,
        out: &mut Builder,
    ) -> Result<()> {
        for (index, item) in state.items.read()?.iter().enumerate() {
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

    /// Assigns to a variable, several variables, or an attribute of a namespace.
    fn assign(&mut self, target: &Expr<'t>, value: Value, scope: &Rc<Scope<'t>>) -> Result<()> {
        match target {
            Expr::Var(variable) => scope.set(variable.id, value)?,
            Expr::GetAttr(attribute) => {
                let object = self.eval_plain(&attribute.expr, scope)?;
                let Value::Namespace(number) = object else {
                    return Err(Error::value("cannot assign attribute on non-namespace object"));
                };
                if let Some(namespace) = self.namespaces.get_mut(number) {
                    namespace.set(attribute.name, value)?;
                }
            }
            Expr::List(targets) => {
                let items = value.iterate(&self.meter)?;
                let (expected, found) = (targets.items.len(), items.len());
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
                for (target, item) in targets.items.iter().zip(items.read()?) {
                    self.assign(target, item.clone(), scope)?;
                }
            }
            _ => return Err(Error::unsupported("cannot assign to this")),
        }
        Ok(())
    }

    /// Creates a text of the template.
    fn literal(&self, text: &str) -> Result<Text> {
        Text::new(text, Mark::TEMPLATE, &self.meter)
    }
}

/// Bytes of a scope, and of the first B-tree node of its variables, which has room for 11.
const SCOPE: usize = 128;
const FIRST: usize = 11 * ENTRY;
/// The comparisons of names, in bytes of a name, that a lookup makes.
const DEPTH: usize = 2;
/// Bytes of a variable.
const ENTRY: usize = size_of::<(&str, Value)>();

/// The variables of a loop iteration, a macro call or the template, and the outer scope.
#[derive(Debug)]
pub(crate) struct Scope<'t> {
    variables: RefCell<BTreeMap<&'t str, Value>>,
    held: RefCell<Held>,
    around: Option<Rc<Self>>,
}

impl<'t> Scope<'t> {
    pub(crate) fn root(meter: &Rc<Meter>) -> Result<Rc<Self>> {
        Self::new(meter, None)
    }

    pub(crate) fn within(around: &Rc<Self>) -> Result<Rc<Self>> {
        let meter = Rc::clone(around.held.borrow().meter());
        Self::new(&meter, Some(Rc::clone(around)))
    }

    fn new(meter: &Rc<Meter>, around: Option<Rc<Self>>) -> Result<Rc<Self>> {
        let held = RefCell::new(Held::new(meter, SCOPE)?);
        Ok(Rc::new(Self { variables: RefCell::default(), held, around }))
    }

    pub(crate) fn set(&self, name: &'t str, value: Value) -> Result<()> {
        self.held.borrow().meter().walk(name.len().saturating_mul(DEPTH))?;
        let mut variables = self.variables.borrow_mut();
        if let Some(old) = variables.get_mut(name) {
            *old = value;
            return Ok(());
        }
        // B-tree nodes that are filled in order are half full.
        let bytes = if variables.is_empty() { FIRST } else { 2 * ENTRY };
        self.held.borrow_mut().hold(bytes)?;
        variables.insert(name, value);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Result<Option<Value>> {
        let meter = Rc::clone(self.held.borrow().meter());
        let mut scope = self;
        loop {
            meter.walk(name.len().saturating_mul(DEPTH))?;
            if let Some(value) = scope.variables.borrow().get(name) {
                return Ok(Some(value.clone()));
            }
            match scope.around.as_deref() {
                Some(around) => scope = around,
                None => return Ok(None),
            }
        }
    }
}

/// The attributes of a namespace, in order.
#[derive(Debug)]
pub(crate) struct Namespace {
    entries: Vec<(Text, Value)>,
    held: Held,
}

impl Namespace {
    pub(crate) fn new(entries: Vec<(Text, Value)>, meter: &Rc<Meter>) -> Result<Self> {
        let bytes = size_of::<Self>() + entries.capacity() * size_of::<(Text, Value)>();
        meter.walk(bytes)?;
        Ok(Self { entries, held: Held::new(meter, bytes)? })
    }

    /// Returns the index of an attribute.
    fn place(&self, name: &str) -> Result<Option<usize>> {
        self.held.meter().spend((self.entries.len() / 8) as u64)?;
        for (index, (known, _)) in self.entries.iter().enumerate() {
            if known.is(name)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    pub(crate) fn get(&self, name: &str) -> Result<Option<&Value>> {
        let index = self.place(name)?;
        Ok(index.and_then(|index| self.entries.get(index)).map(|(_, value)| value))
    }

    /// Sets an attribute.
    fn set(&mut self, name: &str, value: Value) -> Result<()> {
        let index = self.place(name)?;
        if let Some((_, old)) = index.and_then(|index| self.entries.get_mut(index)) {
            *old = value;
            return Ok(());
        }
        self.held.hold(2 * size_of::<(Text, Value)>())?;
        let name = Text::new(name, Mark::TEMPLATE, self.held.meter())?;
        self.entries.push((name, value));
        Ok(())
    }
}
