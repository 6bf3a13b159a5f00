//! Resolves names and calls, and checks everything that does not depend on a model.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Names, SourceFault};
use super::lexer::{Fault, Span};
use super::names::{arguments, builtin, builtins, option_name};
use super::{
    Callee, Expr, Function, Kind, LIBRARY, MAIN, Statement, StatementKind, each_expression,
};
use crate::error::quoted;
use crate::language::block::without_block;
use crate::language::steps::INPUTS;
use crate::spelling::near_part;

/// A predicate for names of hyperparameters, and these names for suggestions.
pub(super) type Hyperparameters<'a> = (&'a dyn Fn(&str) -> bool, &'a [&'a str]);

/// Resolves the functions of the library, in which only parameters and the library are visible.
pub(super) fn resolve_library(functions: &mut [Function]) -> Result<(), Fault> {
    let signatures: Vec<Signature> = functions.iter().map(Signature::of).collect();
    let names = functions.iter().map(|function| function.name.clone()).zip(0..).collect();
    let scope = Scope {
        signatures: &signatures,
        names: &names,
        of_library: true,
        known: &|_| false,
        similar: &[],
        tensors: &[],
    };
    functions.iter_mut().try_for_each(|function| scope.function(function))?;
    check_recursion(functions, true).map_err(|(_, fault)| fault)
}

/// Resolves the functions of a program, with the functions that each source defines or imports. Returns
/// the index of the function that computes a model.
pub(super) fn resolve(
    functions: &mut [Function],
    names: &Names,
    (known, similar): Hyperparameters<'_>,
    tensors: &[&str],
) -> Result<usize, SourceFault> {
    let tensors: Vec<(String, bool)> =
        tensors.iter().map(|name| (without_block(name), name.contains('{'))).collect();
    let signatures: Vec<Signature> = functions.iter().map(Signature::of).collect();
    let none = BTreeMap::new();
    for function in functions.iter_mut() {
        let source = function.source;
        let names = names.get(source).unwrap_or(&none);
        let scope = Scope {
            signatures: &signatures,
            names,
            of_library: false,
            known,
            similar,
            tensors: &tensors,
        };
        scope.function(function).map_err(|fault| (source, fault))?;
    }
    check_recursion(functions, false)?;
    let number = names.first().and_then(|names| names.get(MAIN)).copied();
    let main = number.and_then(|number| functions.get(number));
    let (Some(number), Some(main)) = (number, main) else {
        return Err((0, (Span::default(), format!("there is no function {MAIN}"))));
    };
    if !main.parameters.is_empty() {
        return Err((main.source, (main.span, format!("{MAIN} takes no arguments"))));
    }
    // The description must have the hyperparameters that defaults of library functions use.
    let mut reached = BTreeSet::new();
    for function in functions.iter() {
        check_defaults(function, known, &mut reached).map_err(|fault| (function.source, fault))?;
    }
    Ok(number)
}

/// Fails if a library function is called without an argument whose default is not a hyperparameter of
/// this description. The error is located at the call in the description.
fn check_defaults(
    function: &Function,
    is_declared: &dyn Fn(&str) -> bool,
    reached: &mut BTreeSet<usize>,
) -> Result<(), Fault> {
    let mut result = Ok(());
    each_expression(&function.body, &mut |expr| {
        let Kind::Resolved(Callee::Library(number), arguments, named) = &expr.kind else { return };
        let Some(callee) = LIBRARY.functions.get(*number) else { return };
        let missing = callee.parameters.iter().skip(arguments.len()).find_map(|(name, default)| {
            let is_given = named.iter().any(|(given, _)| given == name);
            let needed = default.as_ref().filter(|_| !is_given)?;
            let mut unknown = None;
            needed.each(&mut |part| {
                if let Kind::Hyperparameter(needed) = &part.kind
                    && !is_declared(needed)
                {
                    unknown = Some(needed.clone());
                }
            });
            unknown.map(|unknown| (name, unknown))
        });
        if result.is_err() {
            return;
        }
        if let Some((name, unknown)) = missing {
            result = Err((
                expr.span,
                format!(
                    "{} needs {name}, because the description has no hyperparameter {unknown}",
                    callee.name
                ),
            ));
        } else if reached.insert(*number) {
            result = check_defaults(callee, is_declared, reached)
                .map_err(|(_, fault)| (expr.span, fault));
        }
    });
    result
}

/// Fails for a function that calls itself, directly or through others.
fn check_recursion(functions: &[Function], of_library: bool) -> Result<(), SourceFault> {
    let mut calls: Vec<BTreeSet<usize>> = Vec::with_capacity(functions.len());
    for function in functions {
        let mut called = BTreeSet::new();
        each_expression(&function.body, &mut |expr| {
            match expr.kind {
                Kind::Resolved(Callee::Own(number), ..) if !of_library => called.insert(number),
                Kind::Resolved(Callee::Library(number), ..) if of_library => called.insert(number),
                _ => false,
            };
        });
        calls.push(called);
    }
    // Repeatedly mark functions that call only marked functions.
    let mut ends = vec![false; functions.len()];
    loop {
        let before = ends.iter().filter(|ends| **ends).count();
        for (number, called) in calls.iter().enumerate() {
            let all = called.iter().all(|&called| ends.get(called) == Some(&true));
            if let Some(ends) = ends.get_mut(number) {
                *ends |= all;
            }
        }
        if ends.iter().filter(|ends| **ends).count() == before {
            break;
        }
    }
    match functions.iter().zip(&ends).find(|(_, ends)| !**ends) {
        Some((function, _)) => {
            let fault = format!("{} calls itself, perhaps through others", function.name);
            Err((function.source, (function.span, fault)))
        }
        None => Ok(()),
    }
}

/// The parameters of a function.
struct Signature {
    name: Box<str>,
    /// Each parameter, and whether it has a default.
    parameters: Vec<(Box<str>, bool)>,
}

impl Signature {
    fn of(function: &Function) -> Self {
        let parameters = function.parameters.iter();
        let parameters = parameters.map(|(name, default)| (name.clone(), default.is_some()));
        Self { name: function.name.clone(), parameters: parameters.collect() }
    }
}

/// The names that are visible in a source.
struct Scope<'a> {
    /// The signatures of all functions of the program, by index.
    signatures: &'a [Signature],
    /// The functions that the source defines or imports.
    names: &'a BTreeMap<Box<str>, usize>,
    of_library: bool,
    known: &'a dyn Fn(&str) -> bool,
    /// The names of hyperparameters, for suggestions.
    similar: &'a [&'a str],
    /// The tensor names without block numbers, each with `true` if it has a block number.
    tensors: &'a [(String, bool)],
}

impl Scope<'_> {
    fn function(&self, function: &mut Function) -> Result<(), Fault> {
        if builtin(&function.name).is_some() || INPUTS.contains(&&*function.name) {
            let message = format!("the name {} is part of the language", function.name);
            return Err((function.span, message));
        }
        let mut locals: BTreeSet<Box<str>> =
            function.parameters.iter().map(|(name, _)| name.clone()).collect();
        assigned(&function.body, &mut locals);
        let mut context = Context { scope: self, locals };
        for (_, default) in &mut function.parameters {
            if let Some(default) = default {
                context.default(default)?;
            }
        }
        context.body(&mut function.body)?;
        if returns(&function.body) && !always_returns(&function.body) {
            let message = format!("{} does not return a value in every case", function.name);
            return Err((function.span, message));
        }
        Ok(())
    }
}

/// Adds the names that statements assign.
fn assigned(body: &[Statement], names: &mut BTreeSet<Box<str>>) {
    for statement in body {
        match &statement.kind {
            StatementKind::Assign(targets, _) => names.extend(targets.iter().cloned()),
            StatementKind::If(branches, otherwise) => {
                for (_, body) in branches {
                    assigned(body, names);
                }
                assigned(otherwise, names);
            }
            StatementKind::For(variable, _, body) => {
                names.insert(variable.clone());
                assigned(body, names);
            }
            StatementKind::Return(_) | StatementKind::Call(_) | StatementKind::Assert(..) => {}
        }
    }
}

/// Returns `true` if the statements end with a return, or with branches that all do.
fn always_returns(body: &[Statement]) -> bool {
    match body.last().map(|last| &last.kind) {
        Some(StatementKind::Return(_)) => true,
        Some(StatementKind::If(branches, otherwise)) => {
            branches.iter().all(|(_, body)| always_returns(body)) && always_returns(otherwise)
        }
        _ => false,
    }
}

/// Returns `true` if a statement returns a value. A function without one only asserts.
fn returns(body: &[Statement]) -> bool {
    body.iter().any(|statement| match &statement.kind {
        StatementKind::Return(_) => true,
        StatementKind::If(branches, otherwise) => {
            branches.iter().any(|(_, body)| returns(body)) || returns(otherwise)
        }
        StatementKind::For(_, _, body) => returns(body),
        StatementKind::Assign(..) | StatementKind::Call(_) | StatementKind::Assert(..) => false,
    })
}

/// The scope of a function whose names are resolved.
struct Context<'a> {
    scope: &'a Scope<'a>,
    locals: BTreeSet<Box<str>>,
}

impl Context<'_> {
    fn body(&mut self, body: &mut [Statement]) -> Result<(), Fault> {
        for statement in body {
            match &mut statement.kind {
                StatementKind::Assign(_, value)
                | StatementKind::Return(value)
                | StatementKind::Call(value)
                | StatementKind::Assert(value, _) => self.expression(value)?,
                StatementKind::If(branches, otherwise) => {
                    for (condition, body) in branches {
                        self.expression(condition)?;
                        self.body(body)?;
                    }
                    self.body(otherwise)?;
                }
                StatementKind::For(_, over, body) => {
                    self.expression(over)?;
                    self.body(body)?;
                }
            }
        }
        Ok(())
    }

    /// Resolves a default value: its names are hyperparameters, even if only some models have them.
    fn default(&mut self, expr: &mut Expr) -> Result<(), Fault> {
        if let Kind::Name(name) = &expr.kind {
            if !self.scope.of_library && !(self.scope.known)(name) {
                return Err((expr.span, format!("{} is not a hyperparameter", quoted(name))));
            }
            expr.kind = Kind::Hyperparameter(name.clone());
            return Ok(());
        }
        self.parts(expr, Self::default)
    }

    /// Applies `resolve` to the direct children of an expression.
    fn parts(
        &mut self,
        expr: &mut Expr,
        resolve: fn(&mut Self, &mut Expr) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match &mut expr.kind {
            Kind::BlockTensor(_, inner)
            | Kind::Suffix(inner, _)
            | Kind::Not(inner)
            | Kind::Negate(inner)
            | Kind::IsNone(inner) => resolve(self, inner),
            Kind::Index(parts) | Kind::Binary(_, parts) => {
                parts.iter_mut().try_for_each(|part| resolve(self, part))
            }
            Kind::Comprehension(variable, parts) => {
                let [over, element] = &mut **parts;
                resolve(self, over)?;
                let is_new = self.locals.insert(variable.clone());
                resolve(self, element)?;
                if is_new {
                    self.locals.remove(variable);
                }
                Ok(())
            }
            Kind::Conditional(parts) => parts.iter_mut().try_for_each(|part| resolve(self, part)),
            Kind::List(parts) => parts.iter_mut().try_for_each(|part| resolve(self, part)),
            Kind::Call(name, arguments, named) => {
                for part in arguments.iter_mut().chain(named.iter_mut().map(|(_, part)| part)) {
                    resolve(self, part)?;
                }
                let callee = self.callee(name, arguments, named, expr.span)?;
                for (option, _) in named.iter_mut() {
                    *option = option_name(callee, option).into();
                }
                let (arguments, named) = (core::mem::take(arguments), core::mem::take(named));
                expr.kind = Kind::Resolved(callee, arguments, named);
                Ok(())
            }
            Kind::Resolved(..)
            | Kind::Literal(_)
            | Kind::Name(_)
            | Kind::Local(_)
            | Kind::Hyperparameter(_)
            | Kind::Tensor(_)
            | Kind::Input(_) => Ok(()),
        }
    }

    fn expression(&mut self, expr: &mut Expr) -> Result<(), Fault> {
        match &mut expr.kind {
            Kind::Name(name) => {
                expr.kind = self.name(name, expr.span)?;
                return Ok(());
            }
            // An index after the name of a tensor is a block number.
            Kind::Index(parts) => {
                let [list, index] = &mut **parts;
                if let Kind::Name(name) = &list.kind
                    && !self.is_value(name)
                {
                    let name = name.clone();
                    self.expression(index)?;
                    self.tensor(&name, true, list.span)?;
                    let index = core::mem::replace(
                        index,
                        Expr { span: expr.span, kind: Kind::List(Vec::new()) },
                    );
                    expr.kind = Kind::BlockTensor(name, Box::new(index));
                    return Ok(());
                }
            }
            _ => {}
        }
        self.parts(expr, Self::expression)
    }

    /// Returns `true` for a name that does not refer to a tensor.
    fn is_value(&self, name: &str) -> bool {
        let root = name.split('.').next().unwrap_or(name);
        self.locals.contains(root) || (self.scope.known)(name) || INPUTS.contains(&name)
    }

    fn name(&self, name: &str, span: Span) -> Result<Kind, Fault> {
        if self.locals.contains(name) {
            return Ok(Kind::Local(name.into()));
        }
        if let Some((root, suffix)) = name.split_once('.')
            && self.locals.contains(root)
        {
            let local = Expr { span, kind: Kind::Local(root.into()) };
            return Ok(Kind::Suffix(Box::new(local), suffix.into()));
        }
        if let Some(input) = INPUTS.iter().position(|input| *input == name) {
            return Ok(Kind::Input(input));
        }
        if (self.scope.known)(name) {
            return Ok(Kind::Hyperparameter(name.into()));
        }
        self.tensor(name, false, span)?;
        Ok(Kind::Tensor(name.into()))
    }

    /// Fails for a name that is not a tensor, for a block tensor without a block number, and for a
    /// number after a tensor outside blocks.
    fn tensor(&self, name: &str, of_block: bool, span: Span) -> Result<(), Fault> {
        let is_named = |tensor: &str| {
            tensor.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut found = self.scope.tensors.iter().filter(|(tensor, _)| is_named(tensor)).peekable();
        if found.peek().is_none() {
            let mut names: Vec<&str> = builtins().collect();
            names.extend(self.scope.tensors.iter().map(|(tensor, _)| tensor.as_str()));
            names.extend(self.locals.iter().map(|local| &**local));
            names.extend(self.scope.similar);
            let near = near_part(name, names);
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let what = if self.scope.of_library {
                "neither a parameter nor assigned here"
            } else {
                "neither assigned here, nor a hyperparameter, nor a tensor"
            };
            return Err((span, format!("{} is {what}{near}", quoted(name))));
        }
        if found.any(|(_, has_block)| *has_block == of_block) {
            return Ok(());
        }
        Err(if of_block {
            (span, format!("the tensor {name} belongs to no block"))
        } else {
            (span, format!("the tensor {name} belongs to a block: {name}[NUMBER]"))
        })
    }

    /// Returns the function with this name. Fails if it does not accept the arguments.
    fn callee(
        &self,
        name: &str,
        given: &[Expr],
        named: &[(Box<str>, Expr)],
        span: Span,
    ) -> Result<Callee, Fault> {
        let own = self.scope.names.get(name).copied();
        if let Some((number, signature)) =
            own.and_then(|number| Some((number, self.scope.signatures.get(number)?)))
        {
            check_arguments(signature, given, named, span)?;
            let of_library = self.scope.of_library;
            return Ok(if of_library { Callee::Library(number) } else { Callee::Own(number) });
        }
        if !self.scope.of_library {
            let known = LIBRARY.functions.iter().enumerate();
            if let Some((number, function)) =
                known.into_iter().find(|(_, known)| *known.name == *name)
            {
                check_arguments(&Signature::of(function), given, named, span)?;
                return Ok(Callee::Library(number));
            }
        }
        let callee = self.builtin(name, span)?;
        let ((least, most), options) = arguments(callee).unwrap_or(((0, usize::MAX), &[]));
        if !(least..=most).contains(&given.len()) {
            let expected =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            let found = given.len();
            return Err((span, format!("{name} takes {expected} arguments, found {found}")));
        }
        let is_unknown =
            |option: &str| !options.contains(&option_name(callee, option)) || option == "from";
        if let Some((option, _)) = named.iter().find(|(option, _)| is_unknown(option)) {
            return Err((span, format!("{name} has no option {}", quoted(option))));
        }
        Ok(callee)
    }

    fn builtin(&self, name: &str, span: Span) -> Result<Callee, Fault> {
        builtin(name).ok_or_else(|| {
            let mut names: Vec<&str> = builtins().collect();
            names.extend(self.scope.names.keys().map(|name| &**name));
            if !self.scope.of_library {
                names.extend(LIBRARY.functions.iter().map(|function| &*function.name));
            }
            let near = near_part(name, names);
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            (span, format!("there is no function {}{near}", quoted(name)))
        })
    }
}

/// Fails for unexpected and for missing arguments.
fn check_arguments(
    function: &Signature,
    given: &[Expr],
    named: &[(Box<str>, Expr)],
    span: Span,
) -> Result<(), Fault> {
    let Signature { name, parameters } = function;
    if given.len() > parameters.len() {
        let message = format!("{name} takes {} arguments, found {}", parameters.len(), given.len());
        return Err((span, message));
    }
    for (option, value) in named {
        match parameters.iter().position(|(parameter, _)| parameter == option) {
            None => {
                return Err((value.span, format!("{name} has no parameter {}", quoted(option))));
            }
            Some(place) if place < given.len() => {
                return Err((value.span, format!("{name} is given {option} twice")));
            }
            Some(_) => {}
        }
    }
    let missing = parameters.iter().skip(given.len()).find(|(parameter, default)| {
        !default && !named.iter().any(|(option, _)| option == parameter)
    });
    match missing {
        Some((parameter, _)) => Err((span, format!("{name} needs {parameter}"))),
        None => Ok(()),
    }
}
