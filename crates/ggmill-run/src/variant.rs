//! A model in which one tensor has another type.

use std::sync::Arc;

use ggmill_core::{BlockLayout, GgmlType};

use crate::error::{Error, ErrorKind, Result, room};
use crate::program::Program;
use crate::rounded::Rounded;

impl<'m> Program<'m> {
    /// The same model with one tensor as another type. `None` where the graph does not take the
    /// tensor.
    ///
    /// Fails for a type that the rows of the tensor are not whole blocks of, that cannot be
    /// written, or that needs importance where there is none, and for importance of another length.
    pub(crate) fn rounded(
        &self,
        tensor: &str,
        ggml_type: GgmlType,
        importance: Option<&Arc<Vec<f32>>>,
    ) -> Result<Option<Program<'m>>> {
        let weights = self.graph.weights();
        let Some(weight) = weights.iter().position(|weight| weight.name == tensor) else {
            return Ok(None);
        };
        let wrong = |message: String| {
            Error::new(ErrorKind::Tensor, format_args!("tensor {tensor:?}: {message}"))
        };
        let row_len = self.row_len(weight);
        let source = self.model.tensor(tensor)?.ggml_type();
        for holds in [ggml_type, source] {
            let whole = |layout: BlockLayout| row_len.is_multiple_of(layout.elements as usize);
            if !holds.layout().is_some_and(whole) {
                return Err(wrong(format!("rows of {row_len} are not whole blocks of {holds}")));
            }
        }
        let matrices = weights[weight].dimensions.iter().skip(2).product::<u64>();
        let wanted = row_len * matrices as usize;
        if let Some(found) = importance.map(|all| all.len()).filter(|&found| found != wanted) {
            return Err(wrong(format!("{found} importance weights, expected {wanted}")));
        }
        let rounded = Rounded { weight, ggml_type, importance: importance.map(Arc::clone) };
        // What a row of zeros is refused for, every row is.
        let mut zeros = room(row_len)?;
        rounded.round(1, 0, row_len, &mut zeros).map_err(|error| wrong(error.to_string()))?;
        let mut program = self.clone();
        program.rounded = Some(rounded);
        Ok(Some(program))
    }

    /// The first node whose result can differ from that of the model as it is.
    pub(crate) fn first_difference(&self) -> usize {
        let nodes = self.graph.nodes();
        let takes = |rounded: &Rounded| {
            nodes.iter().position(|node| node.operation.weights().contains(&rounded.weight))
        };
        self.rounded.as_ref().and_then(takes).unwrap_or(nodes.len())
    }
}
