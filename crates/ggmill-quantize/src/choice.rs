//! The choice of types, tensor by tensor: requested types, tensors that keep their type, and the
//! mixture for the others.

use ggmill_arch::ModelView;
use ggmill_core::{FileType, GgmlType, Shape};
use ggmill_pipeline::{Encoding, Error, ErrorKind, Result, SourceTensor, matrices};

use crate::layers::Remaining;
use crate::mixture::{Hyper, Mixture, MixtureTensor, Seen, fitting};
use crate::options::{QuantizeOptions, TensorType};
use crate::remarks::{KeepReason, Remarks};
use crate::role::{Family, PER_LAYER_EMBEDDING, Roles};
use crate::types::{self, is_integer};

/// Removes trailing dimensions of 1, as the reference does.
pub(crate) fn without_trailing_ones(shape: &Shape) -> Shape {
    let dimensions = shape.dimensions();
    let kept = dimensions.iter().rposition(|&dimension| dimension != 1).map_or(1, |last| last + 1);
    // A prefix of a shape is valid; a scalar becomes a row of one element.
    dimensions.get(..kept).map_or_else(|| Shape::new(&[1]), Shape::new).unwrap_or(*shape)
}

/// Types that require importance weights, except for embeddings and the output.
pub(crate) const NEED_IMPORTANCE: &[GgmlType] = &[
    GgmlType::IQ3_XXS,
    GgmlType::IQ2_XXS,
    GgmlType::IQ2_XS,
    GgmlType::IQ2_S,
    GgmlType::IQ1_M,
    GgmlType::IQ1_S,
];

/// Chooses types tensor by tensor and collects remarks.
pub(crate) struct Choice<'a> {
    pub(crate) options: &'a QuantizeOptions,
    pub(crate) roles: Roles<'a>,
    mixture: Mixture<'a>,
    pub(crate) remarks: Remarks,
}

impl<'a> Choice<'a> {
    pub(crate) fn new(
        options: &'a QuantizeOptions,
        model: &'a ModelView<'a>,
        hyper: &'a Hyper,
        tensors: &[Remaining],
        file_type: FileType,
        is_known: bool,
    ) -> Self {
        let roles = Roles { rules: &options.roles, model, traits: hyper.traits, is_known };
        let of_role = |wanted: Family| {
            tensors
                .iter()
                .filter(|tensor| roles.of(&String::from_utf8_lossy(&tensor.name)) == wanted)
                .count() as u64
        };
        // If neither metadata nor names give the number of layers: each layer has one of these.
        let counted = || {
            [Family::FfnUp, Family::FfnGate, Family::FfnDown]
                .map(of_role)
                .into_iter()
                .max()
                .unwrap_or(0)
        };
        let mixture = Mixture {
            layers: if hyper.layers > 0 { hyper.layers } else { counted() },
            file_type,
            default_type: options.target.default_type().unwrap_or(GgmlType::F32),
            hyper,
            has_importance: options.importance.is_some(),
            is_tied: of_role(Family::Output) == 0,
            output_type: options.output_tensor_type,
            attention_v: of_role(Family::AttentionV),
            seen: Seen::default(),
        };
        Self { options, roles, mixture, remarks: Remarks::default() }
    }

    /// Returns the type of a tensor in the output.
    pub(crate) fn type_of(
        &mut self,
        tensor: &Remaining,
        source: &SourceTensor,
    ) -> Result<GgmlType> {
        let name = String::from_utf8_lossy(&tensor.name);
        let kept = self.kept(&name, source);
        if let Some(planned) = self.options.types.as_ref().and_then(|types| types.get(&tensor.name))
        {
            types::check_type(planned, source)?;
            if kept.is_some_and(|kept| kept != KeepReason::Excluded)
                && planned.is_quantized()
                && planned != source.ggml_type
            {
                self.remarks.unusual.add(&tensor.name);
            }
            return Ok(planned);
        }
        let Some(default) = self.options.target.default_type() else { return Ok(source.ggml_type) };
        let chosen = if kept.is_some() {
            source.ggml_type
        } else {
            self.chosen(tensor, &name, source, default)
        };
        if default.is_quantized() {
            self.remarks.count(source, chosen, kept);
        }
        Ok(chosen)
    }

    /// Returns the type of a tensor by requested types and the mixture.
    fn chosen(
        &mut self,
        tensor: &Remaining,
        name: &str,
        source: &SourceTensor,
        default: GgmlType,
    ) -> GgmlType {
        let options = self.options;
        let role = self.roles.of(name);
        let requested = self.requested_by_pattern(name);
        if let Some(ggml_type) = self.requested_by_role(name, role, requested) {
            return ggml_type;
        }
        if !default.is_quantized() {
            return default;
        }
        let row_len = source.shape.row_len();
        let wanted = match requested {
            Some(ggml_type) => ggml_type,
            None if options.pure => default,
            None => self.mixture.choose(&MixtureTensor {
                name,
                role,
                row_len,
                is_stacked: matrices(&source.shape) > 1,
            }),
        };
        let to = fitting(wanted, row_len);
        if to != wanted && requested.is_some() {
            self.remarks.misfit(&tensor.name, wanted, to, row_len);
        } else if to != wanted {
            self.remarks.ragged(&tensor.name, wanted, to, row_len);
        }
        to
    }

    pub(crate) fn requested_by_pattern(&self, name: &str) -> Option<GgmlType> {
        self.options
            .tensor_types
            .iter()
            .find(|requested| requested.is_for(name))
            .map(TensorType::ggml_type)
    }

    /// Returns the type requested for tensors of a role. For the per-layer embedding, a pattern
    /// takes precedence.
    pub(crate) fn requested_by_role(
        &self,
        name: &str,
        role: Family,
        by_pattern: Option<GgmlType>,
    ) -> Option<GgmlType> {
        match role {
            Family::TokenEmbedding if name != PER_LAYER_EMBEDDING || by_pattern.is_none() => {
                self.options.token_embedding_type
            }
            Family::Output => self.options.output_tensor_type,
            _ => None,
        }
    }

    /// Returns why a tensor keeps its type, or `None` if it is to be quantized.
    pub(crate) fn kept(&self, name: &str, source: &SourceTensor) -> Option<KeepReason> {
        let is_matrix = without_trailing_ones(&source.shape).dimensions().len() >= 2;
        // For architectures that the reference does not support, a requested type takes precedence
        // over the guess from the name.
        let is_asked = || {
            !self.roles.is_known
                && !self.roles.has_rule(name)
                && self.requested_by_pattern(name).is_some()
        };
        let is_to_become_another =
            self.options.allow_requantize || self.requested_by_pattern(name).is_some();
        let is_for_blocks = self.options.target.default_type().is_some_and(GgmlType::is_quantized);
        if !is_matrix {
            Some(KeepReason::NotMatrix)
        } else if self.options.leave_output_tensor && name == "output.weight" {
            Some(KeepReason::Excluded)
        } else if is_integer(source.ggml_type) {
            Some(KeepReason::Integers)
        } else if [GgmlType::MXFP4, GgmlType::NVFP4].contains(&source.ggml_type)
            && is_for_blocks
            && !is_to_become_another
        {
            Some(KeepReason::FourBitBlocks)
        } else {
            (!self.roles.may_be_quantized(name, &source.shape) && !is_asked())
                .then_some(KeepReason::Name)
        }
    }

    /// Returns the encoding of a tensor, or an error if it cannot be quantized to `to`. In a dry
    /// run, such an error becomes a remark.
    pub(crate) fn encoding(
        &mut self,
        tensor: &Remaining,
        source: &SourceTensor,
        to: GgmlType,
    ) -> Result<Encoding> {
        // Retired types have no codec and are copied without checking values.
        let finite = ggmill_quant::codec(source.ggml_type).is_ok();
        if to == source.ggml_type {
            return Ok(Encoding::new(None, finite));
        }
        let importance = self.importance(source, to)?;
        if let Some(given) = self.options.importance.as_ref().filter(|_| to.is_quantized()) {
            let role = self.roles.of(&String::from_utf8_lossy(&tensor.name));
            self.remarks.weigh(
                &tensor.name,
                source,
                role,
                importance.as_deref(),
                given.leaves_out(&source.name),
            );
        }
        let refusal = if importance.is_none() && self.needs_importance(tensor, to) {
            let (kind, none) = if self.options.importance.is_some() {
                (ErrorKind::ImportanceEntry, "the importance matrix has none for this tensor")
            } else {
                (ErrorKind::Importance, "there are none")
            };
            Some(Error::new(kind, format!("{to} requires importance weights, but {none}")))
        } else if source.ggml_type.is_quantized() && !self.options.allow_requantize {
            Some(Error::new(
                ErrorKind::Quantized,
                format!(
                    "is already {}, and quantizing it again to {to} would lose more precision",
                    source.ggml_type
                ),
            ))
        } else {
            None
        };
        match refusal {
            Some(error) if self.options.dry_run => {
                self.remarks.refuse(&tensor.name, error.to_string());
            }
            Some(error) => return Err(error),
            None => {}
        }
        Ok(Encoding::new(importance, finite))
    }

    /// Returns the importance weights of a tensor, by its name in the source.
    pub(crate) fn importance(
        &self,
        source: &SourceTensor,
        to: GgmlType,
    ) -> Result<Option<Vec<f32>>> {
        let Some(weights) = self
            .options
            .importance
            .as_ref()
            .and_then(|importance| importance.weights(&source.name))
        else {
            return Ok(None);
        };
        let expected = matrices(&source.shape).checked_mul(source.shape.row_len());
        if expected == Some(weights.len() as u64) {
            return Ok(to.is_quantized().then(|| weights.to_vec()));
        }
        // Embeddings are looked up, not multiplied, so an entry with their name belongs to the
        // output matrix.
        if self.roles.of(&source.name().to_string_lossy()) == Family::TokenEmbedding {
            return Ok(None);
        }
        Err(Error::new(
            ErrorKind::Importance,
            format!(
                "{} importance weights, expected {} for shape {}: the importance matrix belongs to \
                 a different model",
                weights.len(),
                expected.unwrap_or(0),
                source.shape
            ),
        ))
    }

    fn needs_importance(&self, tensor: &Remaining, to: GgmlType) -> bool {
        let exempt = matches!(
            self.roles.of(&String::from_utf8_lossy(&tensor.name)),
            Family::TokenEmbedding | Family::Output
        );
        // Some codecs require weights for every tensor.
        let always = ggmill_quant::codec(to).is_ok_and(ggmill_quant::BlockCodec::needs_weights);
        always
            || (!exempt
                && (NEED_IMPORTANCE.contains(&to)
                    || (to == GgmlType::Q2_K && self.mixture.file_type == FileType::Q2_K_S)))
    }
}
