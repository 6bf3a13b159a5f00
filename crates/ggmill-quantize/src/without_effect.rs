//! Notes on options that met nothing.

use std::collections::BTreeSet;

use ggmill_core::{GgmlType, RawStr};
use ggmill_pipeline::SourceTensor;

use crate::choice::Choice;
use crate::family::Family;
use crate::layers::Remaining;
use crate::options::QuantizeOptions;
use crate::remarks::Named;

/// Options that had no effect.
pub(crate) fn without_effect(
    choice: &Choice<'_>,
    options: &QuantizeOptions,
    tensors: &[Remaining],
    sources: &[SourceTensor],
) -> Vec<String> {
    let mut notes = Vec::new();
    let names: Vec<_> =
        tensors.iter().map(|tensor| String::from_utf8_lossy(&tensor.name)).collect();
    let open: BTreeSet<&str> = tensors
        .iter()
        .zip(&names)
        .filter(|(tensor, name)| choice.kept(name, &sources[tensor.number]).is_none())
        .map(|(_, name)| &**name)
        .collect();
    let has = |role: Family| open.iter().any(|name| choice.roles.of(name) == role);

    if options.types.is_none()
        && !options.target.default_type().is_some_and(GgmlType::is_quantized)
        && !options.tensor_types.is_empty()
    {
        notes.push(format!(
            "{} gives every tensor the same type or keeps its type, so type patterns have no \
             effect",
            options.target.name()
        ));
    } else {
        for asked in &options.tensor_types {
            if !names.iter().any(|name| asked.is_for(name)) {
                notes.push(format!(
                    "the type pattern {:?} matches no tensor name; patterns are case-sensitive",
                    RawStr::from(asked.pattern())
                ));
            } else if !open.iter().any(|name| asked.is_for(name)) {
                notes.push(format!(
                    "the type pattern {:?} matches only tensors that are not quantized",
                    RawStr::from(asked.pattern())
                ));
            }
        }
    }
    let is_copy = options.target.is_copy() && options.types.is_none();
    let serves_as_output = options.token_embedding_type.is_none()
        && !has(Family::Output)
        && has(Family::TokenEmbedding);
    if options.output_tensor_type.is_some()
        && (is_copy || !(has(Family::Output) || serves_as_output))
    {
        let is_embedding = !is_copy && options.token_embedding_type.is_some();
        notes.push(if is_embedding && has(Family::TokenEmbedding) {
            "the token embeddings serve as output.weight and have a type of their own, so the type \
             for output.weight has no effect"
                .to_owned()
        } else {
            "no tensor is output.weight or has its role, so the type for it has no effect"
                .to_owned()
        });
    }
    if options.token_embedding_type.is_some() && (is_copy || !has(Family::TokenEmbedding)) {
        notes.push(
            "no tensor is token_embd.weight or has its role, so the type for it has no effect"
                .to_owned(),
        );
    }
    if options.leave_output_tensor && !names.iter().any(|name| name == "output.weight") {
        notes.push("no tensor is output.weight, so keeping its type has no effect".to_owned());
    }
    if let Some(importance) = &options.importance {
        let known: BTreeSet<&[u8]> = sources.iter().map(|source| &*source.name).collect();
        let mut strangers = Named::default();
        importance
            .names()
            .filter(|name| !known.contains(name))
            .for_each(|name| strangers.add(name));
        if importance.names().any(|name| known.contains(name)) {
            notes.extend(strangers.note(
                "the importance matrix has entries for tensors that the model does not have",
            ));
        } else {
            notes.extend(strangers.note(
                "the importance matrix belongs to a different model: no entry matches a tensor",
            ));
        }
    }
    notes
}
