//! Paths of hyperparameters in a configuration, for writing.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::parameters::Parameter;
use crate::parameters::transformers::{class_defaults, class_has, classes_with};
use crate::value::ParameterValue;

/// Returns the most likely path of a hyperparameter in configurations of a model type: one that its
/// configuration class has, or else one that most classes have; `None` if there is no writable path.
pub(super) fn place_of<'p>(parameter: &'p Parameter, model_type: Option<&str>) -> Option<&'p str> {
    places_of(parameter, model_type).into_iter().next()
}

/// Returns all writable paths, the most likely first.
pub(super) fn places_of<'p>(parameter: &'p Parameter, model_type: Option<&str>) -> Vec<&'p str> {
    let writable = |place: &&str| {
        let path = place.split_once("#*.").map_or(*place, |(_, path)| path);
        !path.trim_end_matches(".*").contains(['*', '('])
    };
    let mut places: Vec<&str> =
        parameter.from.iter().map(|place| &**place).filter(writable).collect();
    places.sort_by_key(|place| Reverse(weight(place, model_type)));
    places
}

/// Returns a sort key for the likelihood of a path: whether the class has it, or else the number of
/// classes that have it; and its depth.
fn weight(place: &str, model_type: Option<&str>) -> (bool, usize, Reverse<usize>) {
    let first = place.split_once('.').map_or(place, |(first, _)| first);
    let depth = Reverse(place.matches('.').count());
    let is_of_class = is_of_class(place, model_type);
    (is_of_class, if is_of_class { 0 } else { classes_with(first) }, depth)
}

/// Returns `true` if the configuration class of a model type has the path.
pub(super) fn is_of_class(place: &str, model_type: Option<&str>) -> bool {
    let first = place.split_once('.').map_or(place, |(first, _)| first);
    model_type.is_some_and(|model_type| class_has(model_type, first))
}

/// Returns `true` if the configuration class of a model type has the path with the default `null`.
pub(super) fn is_none_of_class(place: &str, model_type: Option<&str>) -> bool {
    let defaults = model_type.and_then(class_defaults);
    defaults.and_then(|defaults| defaults.get(place)).is_some_and(Json::is_null)
}

/// Returns a rank for the likelihood that a configuration contains the hyperparameter.
pub(super) fn rank(parameter: &Parameter, model_type: Option<&str>) -> i32 {
    let Some(place) = place_of(parameter, model_type) else { return -1 };
    let (is_of_class, classes, Reverse(depth)) = weight(place, model_type);
    let depth = i32::try_from(depth).unwrap_or(i32::MAX);
    i32::from(is_of_class)
        .saturating_mul(100)
        .saturating_add(i32::from(is_of_class || classes > 0).saturating_mul(10))
        .saturating_sub(depth)
}

/// Writes a value to a path of names separated by dots, or `FILE#PATH` in another file. Returns `false`
/// if a member on the path is not an object, or if the path has a different value.
pub(super) fn write(
    config: &mut Json,
    documents: &mut BTreeMap<String, Json>,
    place: &str,
    value: Json,
) -> bool {
    let (root, path) = match place.split_once('#') {
        Some((file, path)) => {
            let empty = || Json::Object(Map::new());
            (documents.entry(file.to_owned()).or_insert_with(empty), path)
        }
        None => (config, place),
    };
    // A list with a value per element of a document.
    if let (Some(path), Json::Array(elements)) = (path.strip_prefix("*."), &value) {
        if root.as_object().is_some_and(Map::is_empty) {
            *root = Json::Array(vec![Json::Object(Map::new()); elements.len()]);
        }
        let Some(members) = root.as_array_mut() else { return false };
        return members.len() == elements.len()
            && members.iter_mut().zip(elements).all(|(member, element)| {
                write(member, &mut BTreeMap::new(), path, element.clone())
            });
    }
    // A list that is stored as an object with numeric member names.
    let (path, value) = match (path.strip_suffix(".*"), value) {
        (Some(path), Json::Array(elements)) => {
            let members = elements.into_iter().enumerate();
            (path, members.map(|(place, value)| (place.to_string(), value)).collect())
        }
        (_, value) => (path, value),
    };
    let mut names = path.split('.');
    let Some(last) = names.next_back() else { return false };
    let mut object = root;
    for name in names {
        let Some(members) = object.as_object_mut() else { return false };
        object = members.entry(name).or_insert_with(|| Json::Object(Map::new()));
        if object.is_null() {
            *object = Json::Object(Map::new());
        }
    }
    match object.as_object_mut() {
        Some(members) => *members.entry(last).or_insert_with(|| value.clone()) == value,
        None => false,
    }
}

/// Converts a value to JSON.
pub(super) fn json(value: &ParameterValue) -> Json {
    match value {
        ParameterValue::None => Json::Null,
        ParameterValue::Int(number) => (*number).into(),
        ParameterValue::Float(number) => (*number).into(),
        ParameterValue::Bool(value) => (*value).into(),
        ParameterValue::Str(text) => (**text).into(),
        ParameterValue::List(elements) => elements.iter().map(json).collect(),
    }
}
