//! Tensors: as a description writes them, and as a model has them.

use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};

use crate::error::{Error, ErrorKind, Result, SubjectKind, quoted};
use crate::expression::{Expression, Loop, Scope};
use crate::limits::{MAX_PIECES, MAX_TENSOR_BYTES, MAX_TENSORS};
use crate::operation::{Operation, OperationTemplate, resolve_shape};
use crate::outline::TensorOutline;
use crate::pattern::Template;
use crate::role::Role;
use crate::schema::{RawGroup, RawSource, RawTensor};
use crate::tensor_type::TensorType;
use crate::terms::{condition, expression};
use crate::value::ParameterValue;

/// A tensor of a model: name, shape, role, and where its data come from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorSpec {
    /// The name in the file.
    pub name: String,
    /// The dimensions in stored order.
    pub shape: Shape,
    /// The role of the tensor.
    pub role: Role,
    /// Whether the model is incomplete without it.
    pub required: bool,
    /// Where its data come from.
    pub origin: Origin,
    /// The type that it has whatever type the file has; `None` where the file's counts. Tensors of
    /// at most one dimension and some others are F32.
    pub fixed_type: Option<TensorType>,
    /// The tensor of the checkpoint that makes it superfluous where the elements are equal.
    pub drop_if_equal: Option<String>,
    /// The tensor of the checkpoint before whose place it is written, where it is computed.
    pub before: Vec<String>,
    /// The tensor that replaces it when it is absent.
    pub tied: Option<String>,
    /// The tensor that it cannot be combined with: a file has one or the other.
    pub unless: Option<String>,
    /// Tensors of the same group are written one after the other, in the order of the description,
    /// at the position of the last of their sources in the checkpoint.
    pub together: Option<String>,
}

/// Where the data of a tensor come from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Origin {
    /// From the checkpoint: the first of these alternatives that is there. Without any, only a
    /// finished file can have the tensor.
    Checkpoint(Vec<Source>),
    /// From hyper-parameters alone: the elements in stored order. A finished file has its own:
    /// then there are none here.
    Computed(Arc<[f32]>),
}

/// Tensors of the checkpoint, and the operations that make one tensor of the file from them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Source {
    /// Names in the checkpoint: one, or as many as the first operation joins, in their order.
    pub names: Vec<String>,
    /// The operations, in order. The first takes all tensors; when it does not
    /// join, there is one.
    pub operations: Vec<Operation>,
    /// The operations on single names before that, in order; empty where nothing
    /// does.
    pub parts: Vec<Part>,
    /// Whether the tensor is written before those that no alternative of this sort makes.
    pub first: bool,
}

/// Some of the names of a [`Source`], with operations of their own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Part {
    /// How many names it has.
    pub names: usize,
    /// The operations that combine their tensors.
    pub operations: Vec<Operation>,
}

impl Source {
    /// The shape that comes out when tensors of these shapes, in the order of
    /// [`names`](Self::names), go in.
    pub fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        if self.parts.is_empty() {
            return shape_after(&self.operations, inputs);
        }
        let mut inputs = inputs;
        let mut shapes = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let missing = || {
                Error::configuration(format!(
                    "{} tensors, expected {} names",
                    inputs.len(),
                    part.names
                ))
            };
            let (these, rest) = inputs.split_at_checked(part.names).ok_or_else(missing)?;
            shapes.push(shape_after(&part.operations, these)?);
            inputs = rest;
        }
        shape_after(&self.operations, &shapes)
    }
}

/// The shape after operations on tensors of these shapes.
fn shape_after(operations: &[Operation], inputs: &[Shape]) -> Result<Shape> {
    let mut shapes = inputs.to_vec();
    for operation in operations {
        shapes = vec![operation.shape(&shapes)?];
    }
    match *shapes {
        [shape] => Ok(shape),
        _ => Err(Error::configuration(format!("expected one tensor, found {}", shapes.len()))),
    }
}

impl TensorSpec {
    /// Whether it is F32 whatever type the file has.
    pub fn is_f32(&self) -> bool {
        self.fixed_type == Some(TensorType::Fixed(GgmlType::F32))
    }

    /// Whether a checkpoint has some name of an alternative, given which names it has.
    pub(crate) fn has_some(&self, present: impl Fn(&str) -> bool) -> bool {
        match &self.origin {
            Origin::Checkpoint(sources) => {
                sources.iter().flat_map(|source| &source.names).any(|name| present(name))
            }
            Origin::Computed(_) => false,
        }
    }

    /// The alternative that a checkpoint has, given which names it has, or nothing.
    ///
    /// Fails when an alternative is there in part (the error says what is missing), and when the
    /// tensor is required and no alternative is there. A computed tensor has no alternatives.
    pub fn source(&self, present: impl Fn(&str) -> bool) -> Result<Option<&Source>> {
        let Origin::Checkpoint(sources) = &self.origin else { return Ok(None) };
        let fault = |message: String| {
            Err(Error::configuration(message).about(SubjectKind::Tensor, &self.name))
        };
        for source in sources {
            let Some(there) = source.names.iter().find(|name| present(name)) else { continue };
            return match source.names.iter().find(|name| !present(name)) {
                Some(missing) => fault(format!(
                    "the checkpoint has {} but not {}",
                    quoted(there),
                    quoted(missing)
                )),
                None => Ok(Some(source)),
            };
        }
        if !self.required {
            return Ok(None);
        }
        let names: Vec<_> = sources
            .iter()
            .filter_map(|source| source.names.first())
            .map(|name| quoted(name))
            .collect();
        fault(format!("not in the checkpoint, looked for {}", names.join(", ")))
    }
}

/// Tensors that share a loop and a condition.
#[derive(Clone, Debug)]
pub(crate) struct TensorGroup {
    repeat: Option<Loop>,
    when: Expression,
    tensors: Vec<TensorTemplate>,
}

#[derive(Clone, Debug)]
struct TensorTemplate {
    name: Template,
    shape: Vec<Expression>,
    role: Role,
    origin: OriginTemplate,
    required: Expression,
    when: Expression,
    tied: Option<Template>,
    unless: Option<Template>,
    fixed_type: Option<TensorType>,
    keep_f32: Option<Expression>,
    drop_if_equal: Option<Template>,
    together: Option<Template>,
}

#[derive(Clone, Debug)]
enum OriginTemplate {
    Checkpoint(Vec<SourceTemplate>),
    Computed {
        elements: Expression,
        /// The source that it is written before; at the beginning without one.
        at: Option<Template>,
    },
}

#[derive(Clone, Debug)]
struct SourceTemplate {
    names: Vec<Template>,
    repeat: Option<Loop>,
    /// Without it, the alternative is not one.
    when: Option<Expression>,
    operations: Vec<OperationTemplate>,
    /// In place of names: tensors with operations of their own.
    parts: Vec<SourceTemplate>,
    /// Written before all others.
    first: bool,
}

/// How much of the limits is left while tensors are made.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) tensors: u64,
    /// Of memory.
    pub(crate) bytes: u64,
}

impl Budget {
    fn tensor(&mut self) -> Result<()> {
        self.take(size_of::<TensorSpec>())?;
        self.tensors = self.tensors.checked_sub(1).ok_or_else(|| {
            Error::new(ErrorKind::Limit, format!("more than {MAX_TENSORS} tensors"))
        })?;
        Ok(())
    }

    /// A template filled in.
    fn name(&mut self, template: &Template, scope: &Scope<'_>, choice: u32) -> Result<String> {
        let name = template.fill(scope, choice)?;
        self.take(name.len().saturating_add(size_of::<String>()))?;
        Ok(name)
    }

    fn take(&mut self, bytes: usize) -> Result<()> {
        let left = u64::try_from(bytes).ok().and_then(|bytes| self.bytes.checked_sub(bytes));
        self.bytes = left.ok_or_else(|| {
            Error::new(
                ErrorKind::Limit,
                format!("tensors and their names take more than {MAX_TENSOR_BYTES} bytes"),
            )
        })?;
        Ok(())
    }
}

impl TensorGroup {
    pub(crate) fn understand(raw: &RawGroup, known: &dyn Fn(&str) -> bool) -> Result<Self> {
        let repeat = raw.r#for.as_deref().map(Loop::parse).transpose()?;
        if let Some(repeat) = &repeat {
            repeat.check_names(known)?;
        }
        let variable = repeat.as_ref().map(|repeat| &*repeat.variable);
        let known = |name: &str| known(name) || variable == Some(name);
        let mut tensors = Vec::with_capacity(raw.tensor.0.len());
        for (name, raw) in &raw.tensor.0 {
            let tensor = TensorTemplate::understand(name, raw, variable, &known);
            tensors.push(tensor.map_err(|error| error.about(SubjectKind::Tensor, name))?);
        }
        let when = condition(raw.when.as_ref(), &known)?;
        Ok(Self { repeat, when, tensors })
    }

    pub(crate) fn outline(&self) -> impl Iterator<Item = TensorOutline<'_>> {
        let repeat = self.repeat.as_ref().map(|repeat| {
            format!("{} in {}..{}", repeat.variable, repeat.start.text(), repeat.end.text())
        });
        let always = Expression::bool(true);
        self.tensors.iter().map(move |tensor| TensorOutline {
            name: tensor.name.text(),
            shape: tensor.shape.iter().map(Expression::text).collect(),
            role: tensor.role,
            repeat: repeat.clone(),
            conditions: [&self.when, &tensor.when]
                .into_iter()
                .filter(|when| **when != always)
                .map(Expression::text)
                .collect(),
            required: tensor.required.text(),
            tied: tensor.tied.as_ref().map(Template::text),
            unless: tensor.unless.as_ref().map(Template::text),
        })
    }

    /// The role of the tensor with this name, when it is one of these whatever the numbers are.
    pub(crate) fn role_of(&self, name: &str) -> Option<Role> {
        self.tensors.iter().find(|tensor| tensor.name.fits(name)).map(|tensor| tensor.role)
    }

    /// The first tensor that a checkpoint has to give, with no word about where.
    pub(crate) fn without_origin(&self) -> Option<&str> {
        self.tensors.iter().find(|tensor| tensor.lacks_origin()).map(|tensor| tensor.name.text())
    }

    pub(crate) fn resolve(
        &self,
        scope: &Scope<'_>,
        budget: &mut Budget,
        tensors: &mut Vec<TensorSpec>,
    ) -> Result<()> {
        let Some(repeat) = &self.repeat else { return self.resolve_once(scope, budget, tensors) };
        for value in repeat.range(scope, MAX_TENSORS)? {
            let variables = [(&*repeat.variable, value)];
            self.resolve_once(&scope.with(&variables), budget, tensors)?;
        }
        Ok(())
    }

    fn resolve_once(
        &self,
        scope: &Scope<'_>,
        budget: &mut Budget,
        tensors: &mut Vec<TensorSpec>,
    ) -> Result<()> {
        if !self.when.evaluate_bool(scope)? {
            return Ok(());
        }
        for template in &self.tensors {
            let spec = template
                .resolve(scope, budget)
                .map_err(|error| error.about(SubjectKind::Tensor, template.name.text()))?;
            tensors.extend(spec);
        }
        Ok(())
    }
}

impl TensorTemplate {
    /// Whether some tensor of a checkpoint must become it, and none is named.
    fn lacks_origin(&self) -> bool {
        matches!(&self.origin, OriginTemplate::Checkpoint(sources) if sources.is_empty())
            && self.required != Expression::bool(false)
    }

    fn understand(
        name: &str,
        raw: &RawTensor,
        variable: Option<&str>,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let template = |text: &str| {
            let template = Template::parse(text)?;
            template.check_variables(known)?;
            if template.choices() == 1 {
                Ok(template)
            } else {
                Err(Error::description(format!(
                    "name {}: only names in the checkpoint have optional pieces",
                    quoted(text)
                )))
            }
        };
        let role = match &raw.role {
            None => Role::of_standard_name(name),
            Some(role) => role
                .parse::<Role>()
                .map_err(|_| Error::description(format!("there is no role {}", quoted(role))))?,
        };
        let from = raw.from.as_deref().unwrap_or_default();
        let operations = raw.operations.as_deref().unwrap_or_default();
        let shape = raw.shape.as_deref().ok_or_else(|| Error::description("no shape"))?;
        if shape.len() > 4 {
            return Err(Error::description(format!(
                "a shape of {} dimensions, the limit is 4",
                shape.len()
            )));
        }
        let shape = shape
            .iter()
            .map(|dimension| expression(dimension, known))
            .collect::<Result<_>>()
            .map_err(|error| error.at("shape"))?;
        let origin = match &raw.compute {
            Some(_) if from.len() > 1 || !operations.is_empty() => {
                return Err(Error::description(
                    "expected either from or compute, with at most one name in from: that of the \
                     tensor it is written before",
                ));
            }
            Some(text) => {
                let elements = Expression::parse(text)?;
                elements.check_names(known)?;
                let at = from.first().map(|at| match at {
                    RawSource::Name(name) => Template::parse(name),
                    RawSource::Table(_) => Err(Error::description("expected a name in from")),
                });
                OriginTemplate::Computed { elements, at: at.transpose()? }
            }
            None if from.len() > MAX_PIECES => {
                return Err(Error::description(format!("more than {MAX_PIECES} alternatives")));
            }
            None => {
                let sources = from
                    .iter()
                    .map(|source| SourceTemplate::understand(source, operations, variable, known));
                OriginTemplate::Checkpoint(
                    sources.collect::<Result<_>>().map_err(|error| error.at("from"))?,
                )
            }
        };
        let in_checkpoint = |text: &str| {
            let template = Template::parse(text)?;
            template.check_variables(known)?;
            Ok::<_, Error>(template)
        };
        let required = raw
            .required
            .as_ref()
            .map(|required| expression(required, known))
            .transpose()
            .map_err(|error| error.at("required"))?;
        Ok(Self {
            name: template(name)?,
            shape,
            role,
            origin,
            required: required.unwrap_or_else(|| Expression::bool(true)),
            when: condition(raw.when.as_ref(), known)?,
            // An empty name takes back what a part says.
            tied: raw.tied.as_deref().filter(|name| !name.is_empty()).map(template).transpose()?,
            unless: raw
                .unless
                .as_deref()
                .filter(|name| !name.is_empty())
                .map(template)
                .transpose()?,
            fixed_type: raw.r#type.as_deref().map(TensorType::of_word).transpose()?,
            keep_f32: raw
                .keep_f32
                .as_ref()
                .map(|keep_f32| expression(keep_f32, known))
                .transpose()
                .map_err(|error| error.at("keep_f32"))?,
            drop_if_equal: raw.drop_if_equal.as_deref().map(in_checkpoint).transpose()?,
            together: raw.together.as_deref().map(template).transpose()?,
        })
    }

    fn resolve(&self, scope: &Scope<'_>, budget: &mut Budget) -> Result<Option<TensorSpec>> {
        if !self.when.evaluate_bool(scope)? {
            return Ok(None);
        }
        budget.tensor()?;
        let shape = resolve_shape(&self.shape, scope).map_err(|error| error.at("shape"))?;
        let mut before = Vec::new();
        let origin = match &self.origin {
            OriginTemplate::Checkpoint(sources) => {
                let mut alternatives = Vec::with_capacity(sources.len());
                for source in sources {
                    let applies = |when: &Expression| when.evaluate_bool(scope);
                    if scope.converts() && !source.when.as_ref().map_or(Ok(true), applies)? {
                        continue;
                    }
                    source
                        .resolve(scope, budget, &mut alternatives)
                        .map_err(|error| error.at("from"))?;
                }
                Origin::Checkpoint(alternatives)
            }
            OriginTemplate::Computed { elements, at } => {
                for choice in 0..at.as_ref().map_or(0, Template::choices) {
                    let name = at.as_ref().map(|at| budget.name(at, scope, choice));
                    before.extend(name.transpose()?);
                }
                Origin::Computed(computed(elements, &shape, scope, budget)?)
            }
        };
        let keep_f32 = self.keep_f32.as_ref().map(|keep_f32| keep_f32.evaluate_bool(scope));
        let fixed_type = match keep_f32.transpose()? {
            Some(true) => Some(TensorType::Fixed(GgmlType::F32)),
            Some(false) => Some(TensorType::OfFile),
            None => self.fixed_type,
        };
        let mut fill = |template: &Template| budget.name(template, scope, 0);
        let name = fill(&self.name)?;
        Ok(Some(TensorSpec {
            fixed_type: fixed_type.or_else(|| TensorType::by_name(&name, shape.dimensions().len())),
            name,
            drop_if_equal: self.drop_if_equal.as_ref().map(&mut fill).transpose()?,
            before,
            shape,
            role: self.role,
            required: self.required.evaluate_bool(scope)?,
            origin,
            tied: self.tied.as_ref().map(&mut fill).transpose()?,
            unless: self.unless.as_ref().map(&mut fill).transpose()?,
            together: self.together.as_ref().map(fill).transpose()?,
        }))
    }
}

impl SourceTemplate {
    fn understand(
        raw: &RawSource,
        operations: &[String],
        variable: Option<&str>,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let table = match raw {
            RawSource::Name(name) => {
                return Self::of([name].into_iter(), None, &[], operations, variable, known);
            }
            RawSource::Table(table) => table,
        };
        let operations = table.operations.as_deref().unwrap_or(operations);
        let names = table.name.iter().chain(&table.names);
        let repeat = table.r#for.as_deref();
        let source = Self::of(names, repeat, &table.parts, operations, variable, known)?;
        let when = table.when.as_ref().map(|when| expression(when, known)).transpose();
        let when = when.map_err(|error| error.at("when"))?;
        Ok(Self { when, first: table.first, ..source })
    }

    fn of<'n>(
        names: impl Iterator<Item = &'n String>,
        repeat: Option<&str>,
        parts: &[RawSource],
        operations: &[String],
        variable: Option<&str>,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let repeat = repeat.map(Loop::parse).transpose()?;
        if let Some(repeat) = &repeat {
            repeat.check_names(known)?;
        }
        let inner = repeat.as_ref().map(|repeat| &*repeat.variable);
        let mut templates = Vec::new();
        for name in names {
            let template = Template::parse(name)?;
            template.check_variables(&|name| known(name) || inner == Some(name))?;
            templates.push(template);
        }
        let operations: Vec<_> = operations
            .iter()
            .map(|operation| OperationTemplate::parse(operation))
            .collect::<Result<_>>()?;
        for operation in &operations {
            operation.check_names(known)?;
        }
        if operations.len() > MAX_PIECES || templates.len() > MAX_PIECES || parts.len() > MAX_PIECES
        {
            return Err(Error::description(format!("more than {MAX_PIECES} names or operations")));
        }
        let parts: Vec<Self> = parts
            .iter()
            .map(|part| Self::understand(part, &[], variable, known))
            .collect::<Result<_>>()?;
        if parts.iter().any(|part| !part.parts.is_empty()) {
            return Err(Error::description("parts have no parts of their own"));
        }
        let several = templates.len() > 1 || parts.len() > 1 || repeat.is_some();
        let is_one_sort =
            templates.is_empty() != parts.is_empty() && (parts.is_empty() || repeat.is_none());
        if !is_one_sort || several != operations.first().is_some_and(OperationTemplate::joins) {
            return Err(Error::description(
                "expected one name, or several and stack or concat, or another operation that \
                 joins, as the first",
            ));
        }
        if operations.iter().skip(1).any(OperationTemplate::joins) {
            return Err(Error::description("only the first operation can join tensors"));
        }
        Ok(Self { names: templates, repeat, when: None, operations, parts, first: false })
    }

    /// Appends one source for each choice of optional pieces.
    fn resolve(
        &self,
        scope: &Scope<'_>,
        budget: &mut Budget,
        sources: &mut Vec<Source>,
    ) -> Result<()> {
        let operations = operations(&self.operations, scope)?;
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            parts.push(Part { names: 0, operations: self::operations(&part.operations, scope)? });
        }
        for choice in 0..self.choices() {
            let own = size_of::<Source>().saturating_add(size_of_val(&*operations));
            let of_parts = parts
                .iter()
                .map(|part| size_of::<Part>().saturating_add(size_of_val(&*part.operations)));
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
            });
        }
        Ok(())
    }

    /// How many ways there are to choose optional pieces.
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

/// The elements of a computed tensor; none for a finished file.
fn computed(
    elements: &Expression,
    shape: &Shape,
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Arc<[f32]>> {
    if !scope.converts() {
        return Ok(Arc::new([]));
    }
    let value = elements.evaluate(scope)?;
    let numbers = value.as_list().ok_or_else(|| elements.wrong(&value, "a list of numbers"))?;
    budget.take(size_of_val(numbers))?;
    if u64::try_from(numbers.len()).ok() != Some(shape.elements()) {
        let message = format!("compute gives {} elements, the shape is {shape}", numbers.len());
        return Err(Error::configuration(message));
    }
    #[expect(clippy::cast_possible_truncation, reason = "tensors are made in single precision")]
    let single = |number: &ParameterValue| number.as_f64().map(|number| number as f32);
    let numbers: Option<Arc<[f32]>> = numbers.iter().map(single).collect();
    numbers.ok_or_else(|| elements.wrong(&value, "a list of numbers"))
}

fn operations(templates: &[OperationTemplate], scope: &Scope<'_>) -> Result<Vec<Operation>> {
    templates.iter().map(|operation| operation.resolve(scope)).collect()
}
