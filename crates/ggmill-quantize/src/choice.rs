//! The choice of types, tensor by tensor: what was asked for, what is kept, and what the mixture
//! says of the others.

use ggmill_arch::ModelView;
use ggmill_core::{FileType, GgmlType, Shape};
use ggmill_pipeline::{Encoding, Error, ErrorKind, Result, SourceTensor, matrices};

use crate::fallback;
use crate::family::Family;
use crate::hyper::Hyper;
use crate::layers::Remaining;
use crate::mixture::{Mixture, Seen, Subject};
use crate::options::{QuantizeOptions, TensorType};
use crate::remarks::{Kept, Remarks};
use crate::role::{PER_LAYER_EMBEDDING, Roles};
use crate::types;
use crate::weight_types::is_integer;

/// Dimensions of one at the end say nothing, and the reference drops them.
pub(crate) fn without_trailing_ones(shape: &Shape) -> Shape {
    let dimensions = shape.dimensions();
    let kept = dimensions.iter().rposition(|&dimension| dimension != 1).map_or(1, |last| last + 1);
    // A part of a shape is a shape; a scalar is a row of one.
    dimensions.get(..kept).map_or_else(|| Shape::new(&[1]), Shape::new).unwrap_or(*shape)
}

/// Types that need importance weights, and refused without them but for embeddings and the output.
pub(crate) const NEED_IMPORTANCE: &[GgmlType] = &[
    GgmlType::IQ3_XXS,
    GgmlType::IQ2_XXS,
    GgmlType::IQ2_XS,
    GgmlType::IQ2_S,
    GgmlType::IQ1_M,
    GgmlType::IQ1_S,
];

/// The choice of types, tensor by tensor.
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
        // Neither metadata nor names say how deep the model is: each layer has one of these.
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

    /// The type a tensor gets.
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
            if kept.is_some_and(|kept| kept != Kept::Left)
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

    /// The type a tensor gets by the mixture, and by what was asked for.
    fn chosen(
        &mut self,
        tensor: &Remaining,
        name: &str,
        source: &SourceTensor,
        default: GgmlType,
    ) -> GgmlType {
        let options = self.options;
        let role = self.roles.of(name);
        let asked = self.asked_by_pattern(name);
        if let Some(ggml_type) = self.asked_by_role(name, role, asked) {
            return ggml_type;
        }
        if !default.is_quantized() {
            return default;
        }
        let row_len = source.shape.row_len();
        let wanted = match asked {
            Some(ggml_type) => ggml_type,
            None if options.pure => default,
            None => self.mixture.choose(&Subject {
                name,
                role,
                row_len,
                is_stacked: matrices(&source.shape) > 1,
            }),
        };
        let fitting = fallback::fitting(wanted, row_len);
        if fitting != wanted && asked.is_some() {
            self.remarks.misfit(&tensor.name, wanted, fitting, row_len);
        } else if fitting != wanted {
            self.remarks.ragged(&tensor.name, wanted, fitting, row_len);
        }
        fitting
    }

    pub(crate) fn asked_by_pattern(&self, name: &str) -> Option<GgmlType> {
        self.options.tensor_types.iter().find(|asked| asked.is_for(name)).map(TensorType::ggml_type)
    }

    /// The type asked for what has this role. A pattern is stronger for embeddings that are not
    /// those of tokens.
    pub(crate) fn asked_by_role(
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

    /// Why a tensor keeps its type, or `None` where it is one to be quantized.
    pub(crate) fn kept(&self, name: &str, source: &SourceTensor) -> Option<Kept> {
        let is_matrix = without_trailing_ones(&source.shape).dimensions().len() >= 2;
        // Where there is nothing to be equal to, what was asked for by name is stronger than what
        // names look like.
        let is_asked = || {
            !self.roles.is_known
                && !self.roles.has_rule(name)
                && self.asked_by_pattern(name).is_some()
        };
        let is_to_become_another =
            self.options.allow_requantize || self.asked_by_pattern(name).is_some();
        let is_for_blocks = self.options.target.default_type().is_some_and(GgmlType::is_quantized);
        if !is_matrix {
            Some(Kept::NoMatrix)
        } else if self.options.leave_output_tensor && name == "output.weight" {
            Some(Kept::Left)
        } else if is_integer(source.ggml_type) {
            Some(Kept::Integers)
        } else if [GgmlType::MXFP4, GgmlType::NVFP4].contains(&source.ggml_type)
            && is_for_blocks
            && !is_to_become_another
        {
            Some(Kept::Blocks)
        } else {
            (!self.roles.may_be_quantized(name, &source.shape) && !is_asked()).then_some(Kept::Name)
        }
    }

    /// How a tensor is to be encoded, once nothing rules it out.
    pub(crate) fn encoding(
        &mut self,
        tensor: &Remaining,
        source: &SourceTensor,
        to: GgmlType,
    ) -> Result<Encoding> {
        // Retired types are copied unseen.
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
            let none = if self.options.importance.is_some() {
                "the importance matrix has none for this tensor"
            } else {
                "there are none"
            };
            Some(Error::new(
                ErrorKind::Importance,
                format!("{to} requires importance weights, but {none}"),
            ))
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

    /// The weights for a tensor, by the name it has in the source.
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
        // Embeddings are looked up, not multiplied: their entry, where there is one, belongs to an
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
        // Some cannot be written without, whatever the tensor.
        let always = ggmill_quant::codec(to).is_ok_and(ggmill_quant::BlockCodec::needs_weights);
        always
            || (!exempt
                && (NEED_IMPORTANCE.contains(&to)
                    || (to == GgmlType::Q2_K && self.mixture.file_type == FileType::Q2_K_S)))
    }
}
