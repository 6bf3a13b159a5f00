//! The declared hyperparameters of a description, in order of evaluation.

use std::collections::BTreeMap;

use crate::data::schema::{Ordered, RawParameter, is_name};
use crate::error::{Error, ErrorKind, Result, SubjectKind};
use crate::language::expression::{Expression, optional};
use crate::limits::MAX_PLACES;
use crate::parameters::{Parameter, ParameterKey, ParameterType};

/// Predefined hyperparameters: the class of a checkpoint, the class at the top level if a section names
/// another one, and the model type.
pub(crate) const IMPLICIT: [&str; 3] = ["class", "outer_class", "model_type"];

/// The indices of hyperparameters in order of declaration, by name.
pub(crate) struct DeclarationOrder<'a>(BTreeMap<&'a str, usize>);

impl<'a> DeclarationOrder<'a> {
    pub(crate) fn of(raw: &'a Ordered<RawParameter>) -> Self {
        // Implicit hyperparameters are defined before all others.
        let own = raw.0.iter().enumerate().map(|(place, (name, _))| (&**name, place));
        Self(IMPLICIT.into_iter().map(|name| (name, 0)).chain(own).collect())
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }
}

/// Parses the declarations of hyperparameters.
pub(crate) fn parameters(
    architecture: &str,
    raw: &Ordered<RawParameter>,
    declared: &DeclarationOrder<'_>,
) -> Result<Vec<Parameter>> {
    let from_raw = |(name, raw): &(String, RawParameter)| {
        let parsed = || {
            if !is_name(name) {
                return Err(Error::description("expected a name of letters, digits and _"));
            }
            if IMPLICIT.contains(&name.as_str()) {
                return Err(Error::description(
                    "this hyperparameter is predefined in every description",
                ));
            }
            let from = raw.from.as_deref().unwrap_or_default();
            let keys = raw.keys.as_deref().unwrap_or_default();
            if let Some(count) =
                [from.len(), keys.len()].into_iter().find(|&count| count > MAX_PLACES)
            {
                return Err(Error::new(
                    ErrorKind::Limit,
                    format!("{count} paths or keys, the limit is {MAX_PLACES}"),
                ));
            }
            let is_declared = |name: &str| declared.place(name).is_some();
            let default = optional(raw.default.as_ref(), "default", &is_declared)?;
            let in_file = optional(raw.in_file.as_ref(), "in_file", &is_declared)?;
            let restored = optional(raw.restored.as_ref(), "restored", &is_declared)?;
            let kind =
                raw.r#type.as_deref().ok_or_else(|| Error::description("the type is missing"))?;
            let keys = keys.iter().map(|place| ParameterKey::parse(architecture, place)).collect();
            let from = from.iter().map(|path| path.as_str().into()).collect();
            Ok(Parameter {
                name: name.as_str().into(),
                kind: ParameterType::parse(kind)?,
                from,
                keys,
                default,
                in_file,
                restored,
                optional: raw.optional.unwrap_or(false),
            })
        };
        parsed().map_err(|error| error.about(SubjectKind::Parameter, name))
    };
    raw.0.iter().map(from_raw).collect()
}

/// Sorts hyperparameters so that each one follows those that its defaults use; `others` are defaults
/// outside the declarations. Otherwise keeps the order of the description. Fails for a cyclic
/// dependency.
pub(crate) fn in_order_of_use(
    parameters: Vec<Parameter>,
    others: &[&(Box<str>, Expression)],
) -> Result<Vec<Parameter>> {
    let places: BTreeMap<&str, usize> =
        parameters.iter().enumerate().map(|(place, parameter)| (&*parameter.name, place)).collect();
    let mut uses: Vec<Vec<usize>> = Vec::with_capacity(parameters.len());
    for parameter in &parameters {
        let others = others.iter().filter(|(name, _)| *name == parameter.name);
        let own = parameter.default.iter().chain(&parameter.in_file);
        let names = own.chain(others.map(|(_, used)| used)).flat_map(Expression::names);
        uses.push(names.filter_map(|name| places.get(name).copied()).collect());
    }
    let mut left: Vec<Option<Parameter>> = parameters.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(left.len());
    let mut done = vec![false; left.len()];
    while ordered.len() < left.len() {
        let before = ordered.len();
        for (place, uses) in uses.iter().enumerate() {
            let is_ready = uses.iter().all(|&used| done.get(used) == Some(&true));
            if let (true, Some(parameter)) = (is_ready, left.get_mut(place)) {
                ordered.extend(parameter.take());
                if let Some(flag) = done.get_mut(place) {
                    *flag = true;
                }
            }
        }
        if let (true, Some(parameter)) = (ordered.len() == before, left.iter().flatten().next()) {
            return Err(Error::description("its value depends on itself")
                .about(SubjectKind::Parameter, &parameter.name));
        }
    }
    Ok(ordered)
}
