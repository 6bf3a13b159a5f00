//! Sources of tensors in descriptions.

use ggmill_core::Shape;

use crate::checkpoint::operation::{Operation, OperationTemplate, resolve_shape};
use crate::data::schema::RawSource;
use crate::description::tensor::{Budget, Source, SourcePart, UnusedElements};
use crate::error::{Error, Result};
use crate::language::expression::{Expression, Loop, Scope, expression, optional};
use crate::language::pattern::Template;
use crate::limits::{MAX_PIECES, MAX_TENSORS};

#[derive(Clone, Debug)]
pub(super) struct SourceTemplate {
    pub(super) names: Vec<Template>,
    pub(super) repeat: Option<Loop>,
    /// The condition for this alternative.
    pub(super) when: Option<Expression>,
    pub(super) operations: Vec<OperationTemplate>,
    /// Subsets of names with operations, instead of names.
    pub(super) parts: Vec<SourceTemplate>,
    /// If true, the tensor is written before all others.
    pub(super) first: bool,
    /// If true, the tensor is written after all others.
    pub(super) last: bool,
    /// The shape of each tensor; empty if it is not given.
    pub(super) shape: Vec<Expression>,
    /// The elements outside slices.
    pub(super) rest: UnusedElements,
    /// The condition under which converting back prefers this alternative.
    pub(super) preferred: Option<Expression>,
}

impl SourceTemplate {
    pub(super) fn from_raw(
        raw: &RawSource,
        operations: &[String],
        variable: Option<&str>,
        is_declared: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let table = match raw {
            RawSource::Name(name) => {
                return Self::of([name].into_iter(), None, &[], operations, variable, is_declared);
            }
            RawSource::Table(table) => table,
        };
        let operations = table.operations.as_deref().unwrap_or(operations);
        let names = table.name.iter().chain(&table.names);
        let repeat = table.r#for.as_deref();
        let source = Self::of(names, repeat, &table.parts, operations, variable, is_declared)?;
        let when = optional(table.when.as_ref(), "when", is_declared)?;
        let shape = table.shape.iter().map(|dimension| expression(dimension, is_declared));
        let shape = shape.collect::<Result<_>>().map_err(|error| error.at("shape"))?;
        let (first, last) = (table.first, table.last);
        let rest = match (table.zero_rest, table.same_rest) {
            (false, false) => UnusedElements::Needed,
            (true, false) => UnusedElements::Zero,
            (false, true) => UnusedElements::Same,
            (true, true) => return Err(Error::description("zero_rest and same_rest")),
        };
        let preferred = optional(table.preferred.as_ref(), "preferred", is_declared)?;
        Ok(Self { when, first, last, shape, rest, preferred, ..source })
    }

    fn of<'n>(
        names: impl Iterator<Item = &'n String>,
        repeat: Option<&str>,
        parts: &[RawSource],
        operations: &[String],
        variable: Option<&str>,
        is_declared: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let repeat = repeat.map(Loop::parse).transpose()?;
        if let Some(repeat) = &repeat {
            repeat.check_names(is_declared)?;
        }
        let inner = repeat.as_ref().map(|repeat| &*repeat.variable);
        let mut templates = Vec::new();
        for name in names {
            let template = Template::parse(name)?;
            template.check_variables(&|name| is_declared(name) || inner == Some(name))?;
            templates.push(template);
        }
        let operations: Vec<_> = operations
            .iter()
            .map(|operation| OperationTemplate::parse(operation))
            .collect::<Result<_>>()?;
        for operation in &operations {
            operation.check_names(is_declared)?;
        }
        if operations.len() > MAX_PIECES || templates.len() > MAX_PIECES || parts.len() > MAX_PIECES
        {
            return Err(Error::description(format!("more than {MAX_PIECES} names or operations")));
        }
        let parts: Vec<Self> = parts
            .iter()
            .map(|part| Self::from_raw(part, &[], variable, is_declared))
            .collect::<Result<_>>()?;
        if parts.iter().any(|part| !part.parts.is_empty()) {
            return Err(Error::description("parts cannot have parts of their own"));
        }
        let several = templates.len() > 1 || parts.len() > 1 || repeat.is_some();
        let is_one_sort =
            templates.is_empty() != parts.is_empty() && (parts.is_empty() || repeat.is_none());
        if !is_one_sort || several != operations.first().is_some_and(OperationTemplate::joins) {
            return Err(Error::description(
                "expected one name, or several names and a first operation that joins tensors, \
                 such as stack or concat",
            ));
        }
        if operations.iter().skip(1).any(OperationTemplate::joins) {
            return Err(Error::description("only the first operation can join tensors"));
        }
        Ok(Self {
            names: templates,
            repeat,
            when: None,
            operations,
            parts,
            first: false,
            last: false,
            shape: Vec::new(),
            rest: UnusedElements::Needed,
            preferred: None,
        })
    }

    /// Appends a source for each combination of optional pieces.
    pub(super) fn resolve(
        &self,
        scope: &Scope<'_>,
        budget: &mut Budget,
        sources: &mut Vec<Source>,
    ) -> Result<()> {
        let operations = operations(&self.operations, scope)?;
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let operations = self::operations(&part.operations, scope)?;
            parts.push(SourcePart { names: 0, operations, shape: part.shape(scope)? });
        }
        let shape = self.shape(scope)?;
        let preferred = self.preferred.as_ref().filter(|_| scope.converts());
        let preferred = preferred.map_or(Ok(false), |preferred| preferred.evaluate_bool(scope))?;
        for choice in 0..self.choices() {
            let own = size_of::<Source>().saturating_add(size_of_val(&*operations));
            let of_parts = parts
                .iter()
                .map(|part| size_of::<SourcePart>().saturating_add(size_of_val(&*part.operations)));
            budget.take(of_parts.fold(own, usize::saturating_add))?;
            let mut names = Vec::new();
            self.add_names(scope, choice, budget, &mut names)?;
            let mut parts = parts.clone();
            for (part, template) in parts.iter_mut().zip(&self.parts) {
                let before = names.len();
                template.add_names(scope, choice, budget, &mut names)?;
                part.names = names.len().saturating_sub(before);
            }
            sources.push(Source {
                names,
                operations: operations.clone(),
                parts,
                first: self.first,
                last: self.last,
                bare: choice > 0 && choice.saturating_add(1) == self.choices(),
                shape,
                rest: self.rest,
                preferred,
            });
        }
        Ok(())
    }

    fn shape(&self, scope: &Scope<'_>) -> Result<Option<Shape>> {
        let shape = Some(&*self.shape).filter(|shape| !shape.is_empty());
        shape.map(|shape| resolve_shape(shape, scope)).transpose()
    }

    /// Returns the number of combinations of optional pieces.
    fn choices(&self) -> u32 {
        let own = self.names.iter().map(Template::choices);
        own.chain(self.parts.iter().map(Self::choices)).max().unwrap_or(1)
    }

    fn add_names(
        &self,
        scope: &Scope<'_>,
        choice: u32,
        budget: &mut Budget,
        names: &mut Vec<String>,
    ) -> Result<()> {
        let Some(repeat) = &self.repeat else {
            return self.fill(scope, choice, budget, names);
        };
        for value in repeat.range(scope, MAX_TENSORS)? {
            let variables: Vec<_> =
                scope.variables().iter().copied().chain([(&*repeat.variable, value)]).collect();
            self.fill(&scope.with(&variables), choice, budget, names)?;
        }
        Ok(())
    }

    fn fill(
        &self,
        scope: &Scope<'_>,
        choice: u32,
        budget: &mut Budget,
        names: &mut Vec<String>,
    ) -> Result<()> {
        for template in &self.names {
            names.push(budget.name(template, scope, choice)?);
        }
        Ok(())
    }
}

fn operations(templates: &[OperationTemplate], scope: &Scope<'_>) -> Result<Vec<Operation>> {
    templates.iter().map(|operation| operation.resolve(scope)).collect()
}
