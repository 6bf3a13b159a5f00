//! Tensors in descriptions.

use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};

use crate::checkpoint::operation::resolve_shape;
use crate::data::schema::{RawSource, RawTensor};
use crate::data::{of_checkpoints, parse_of_checkpoints};
use crate::description::tensor::source::SourceTemplate;
use crate::description::tensor::{Budget, Origin, TensorSpec};
use crate::error::{Error, Result, quoted};
use crate::language::expression::{Expression, Scope, condition, expression, optional};
use crate::language::pattern::Template;
use crate::limits::MAX_PIECES;
use crate::reference::role::Role;
use crate::reference::tensor_type::TensorType;
use crate::value::ParameterValue;

#[derive(Clone, Debug)]
pub(super) struct TensorTemplate {
    pub(super) name: Template,
    pub(super) shape: Vec<Expression>,
    pub(super) role: Role,
    pub(super) origin: OriginTemplate,
    pub(super) required: Expression,
    pub(super) when: Expression,
    pub(super) tied: Option<Template>,
    pub(super) unless: Option<Template>,
    pub(super) fixed_type: Option<TensorType>,
    pub(super) keep_f32: Option<Expression>,
    pub(super) drop_if_equal: Option<Template>,
    pub(super) together: Option<Template>,
    pub(super) free_shape: bool,
    pub(super) more_rows: bool,
}

#[derive(Clone, Debug)]
pub(super) enum OriginTemplate {
    Checkpoint(Vec<SourceTemplate>),
    Computed {
        elements: Expression,
        /// The checkpoint tensor that it is written before; by default it is written first.
        at: Option<Template>,
    },
}

impl TensorTemplate {
    /// Returns `true` if the tensor is required and has no source.
    pub(super) fn lacks_origin(&self) -> bool {
        matches!(&self.origin, OriginTemplate::Checkpoint(sources) if sources.is_empty())
            && self.required != Expression::bool(false)
    }

    pub(super) fn from_raw(
        name: &str,
        raw: &RawTensor,
        variable: Option<&str>,
        is_declared: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let template = |text: &str| {
            let template = Template::parse(text)?;
            template.check_variables(is_declared)?;
            if template.choices() == 1 {
                Ok(template)
            } else {
                Err(Error::description(format!(
                    "name {}: only names in the checkpoint can have optional pieces",
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
        let from = of_checkpoints(raw.from.as_deref().unwrap_or_default());
        let operations = raw.operations.as_deref().unwrap_or_default();
        let shape =
            raw.shape.as_deref().ok_or_else(|| Error::description("the shape is missing"))?;
        if shape.len() > 4 {
            return Err(Error::description(format!(
                "the shape has {} dimensions, the limit is 4",
                shape.len()
            )));
        }
        let shape = shape
            .iter()
            .map(|dimension| expression(dimension, is_declared))
            .collect::<Result<_>>()
            .map_err(|error| error.at("shape"))?;
        let origin = match &raw.compute {
            Some(_) if from.len() > 1 || !operations.is_empty() => {
                return Err(Error::description(
                    "expected either from or compute, with at most one name in from, that of the \
                     tensor to write it before",
                ));
            }
            Some(text) => {
                let elements = Expression::parse(text)?;
                elements.check_names(is_declared)?;
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
                let from_shape = raw.from_shape.as_deref().unwrap_or_default();
                let from_shape =
                    from_shape.iter().map(|dimension| expression(dimension, is_declared));
                let from_shape: Vec<Expression> =
                    from_shape.collect::<Result<_>>().map_err(|error| error.at("from_shape"))?;
                let from_raw = |source: &RawSource| {
                    let parsed =
                        SourceTemplate::from_raw(source, operations, variable, is_declared)?;
                    let is_said = !parsed.shape.is_empty() || !parsed.parts.is_empty();
                    let shape = if is_said { parsed.shape } else { from_shape.clone() };
                    Ok(SourceTemplate { shape, ..parsed })
                };
                let sources = parse_of_checkpoints(from, from_raw);
                OriginTemplate::Checkpoint(sources.map_err(|error: Error| error.at("from"))?)
            }
        };
        let in_checkpoint = |text: &str| {
            let template = Template::parse(text)?;
            template.check_variables(is_declared)?;
            Ok::<_, Error>(template)
        };
        let required = optional(raw.required.as_ref(), "required", is_declared)?;
        Ok(Self {
            name: template(name)?,
            shape,
            role,
            origin,
            required: required.unwrap_or_else(|| Expression::bool(true)),
            when: condition(raw.when.as_ref(), is_declared)?,
            // An empty name overrides the name in a part.
            tied: raw.tied.as_deref().filter(|name| !name.is_empty()).map(template).transpose()?,
            unless: raw
                .unless
                .as_deref()
                .filter(|name| !name.is_empty())
                .map(template)
                .transpose()?,
            fixed_type: raw.r#type.as_deref().map(TensorType::of_word).transpose()?,
            keep_f32: optional(raw.keep_f32.as_ref(), "keep_f32", is_declared)?,
            drop_if_equal: raw.drop_if_equal.as_deref().map(in_checkpoint).transpose()?,
            together: raw.together.as_deref().map(template).transpose()?,
            free_shape: raw.free_shape.unwrap_or_default(),
            more_rows: raw.more_rows.unwrap_or_default(),
        })
    }

    pub(super) fn resolve(
        &self,
        scope: &Scope<'_>,
        budget: &mut Budget,
    ) -> Result<Option<TensorSpec>> {
        if !self.when.evaluate_bool(scope)? {
            return Ok(None);
        }
        budget.tensor()?;
        let shape = resolve_shape(&self.shape, scope).map_err(|error| error.at("shape"))?;
        let mut before = Vec::new();
        let origin = match &self.origin {
            OriginTemplate::Checkpoint(sources) => {
                let mut alternatives = Vec::with_capacity(sources.len());
                for source in of_checkpoints(sources) {
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
            free_shape: self.free_shape,
            more_rows: self.more_rows,
        }))
    }
}

/// Evaluates the elements of a computed tensor; empty for an existing file.
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
        let message =
            format!("compute produces {} elements, but the shape is {shape}", numbers.len());
        return Err(Error::configuration(message));
    }
    #[expect(clippy::cast_possible_truncation, reason = "computed tensors have single precision")]
    let single = |number: &ParameterValue| number.as_f64().map(|number| number as f32);
    let numbers: Option<Arc<[f32]>> = numbers.iter().map(single).collect();
    numbers.ok_or_else(|| elements.wrong(&value, "a list of numbers"))
}
