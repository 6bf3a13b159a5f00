//! Groups of tensors that share a loop and a condition.

use crate::data::schema::RawGroup;
use crate::description::tensor::template::{OriginTemplate, TensorTemplate};
use crate::description::tensor::{Budget, TensorOutline, TensorSpec};
use crate::error::{Error, Result, SubjectKind};
use crate::language::expression::{Expression, Loop, Scope, condition};
use crate::language::pattern::Template;
use crate::limits::MAX_TENSORS;
use crate::reference::role::Role;

/// The steps that a tensor counts as: about the time to allocate its names.
const STEPS: usize = 1 << 7;

/// Tensors that share a loop and a condition.
#[derive(Clone, Debug)]
pub(crate) struct TensorGroup {
    repeat: Option<Loop>,
    when: Expression,
    tensors: Vec<TensorTemplate>,
}

/// A tensor definition that matches a tensor name.
pub(crate) struct Claim<'g> {
    /// The conditions for the tensor, which must hold.
    pub(crate) conditions: [&'g Expression; 2],
    pub(crate) shape: &'g [Expression],
    /// The expression of its elements, if it is computed from hyperparameters.
    pub(crate) computed: Option<&'g Expression>,
    /// The values of loop variables.
    pub(crate) variables: Vec<(&'g str, u64)>,
}

impl TensorGroup {
    pub(crate) fn from_raw(raw: &RawGroup, is_declared: &dyn Fn(&str) -> bool) -> Result<Self> {
        let repeat = raw.r#for.as_deref().map(Loop::parse).transpose()?;
        if let Some(repeat) = &repeat {
            repeat.check_names(is_declared)?;
        }
        let variable = repeat.as_ref().map(|repeat| &*repeat.variable);
        let is_declared = |name: &str| is_declared(name) || variable == Some(name);
        let mut tensors = Vec::with_capacity(raw.tensor.0.len());
        for (name, raw) in &raw.tensor.0 {
            let tensor = TensorTemplate::from_raw(name, raw, variable, &is_declared);
            tensors.push(tensor.map_err(|error| error.about(SubjectKind::Tensor, name))?);
        }
        let when = condition(raw.when.as_ref(), &is_declared)?;
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

    /// Returns the definitions that match a tensor name, each with the numbers in the name.
    pub(crate) fn claims<'g>(&'g self, name: &str) -> impl Iterator<Item = Claim<'g>> {
        let claims = self.tensors.iter().filter_map(|tensor| {
            let variables = tensor.name.numbers(name)?;
            Some(Claim {
                conditions: [&self.when, &tensor.when],
                shape: &tensor.shape,
                computed: match &tensor.origin {
                    OriginTemplate::Computed { elements, .. } => Some(elements),
                    OriginTemplate::Checkpoint(_) => None,
                },
                variables,
            })
        });
        claims.collect::<Vec<_>>().into_iter()
    }

    /// Returns the tensors outside loops: names, and conditions under which a file must have them.
    pub(crate) fn of_whole(&self) -> impl Iterator<Item = (&str, &Expression)> {
        let single = self.tensors.iter().filter(|_| self.repeat.is_none());
        single.map(|tensor| (tensor.name.text(), &tensor.required))
    }

    /// Returns the role of the tensor with this name, if a definition matches it.
    pub(crate) fn role_of(&self, name: &str) -> Option<Role> {
        self.tensors.iter().find(|tensor| tensor.name.fits(name)).map(|tensor| tensor.role)
    }

    /// Returns the first required tensor without a source.
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
            scope.spend(STEPS).map_err(Error::configuration)?;
            let spec = template
                .resolve(scope, budget)
                .map_err(|error| error.about(SubjectKind::Tensor, template.name.text()))?;
            tensors.extend(spec);
        }
        Ok(())
    }
}
