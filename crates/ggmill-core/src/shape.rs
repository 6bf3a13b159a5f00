use core::fmt;

use crate::error::{Detail, Error, ErrorKind, Result};

/// The dimensions of a tensor in stored order: `ne[0]`, the one whose elements lie side by side,
/// comes first.
///
/// PyTorch and NumPy write the same tensor the other way round; [`Shape::row_major`] is the
/// explicit flip. A shape without dimensions is a scalar, of one element. The number of elements
/// always fits `u64`.
///
/// ```
/// use ggmill_core::Shape;
/// let shape = Shape::new(&[4096, 32000])?;
/// assert_eq!((shape.row_len(), shape.rows()), (4096, 32000));
/// assert_eq!(shape.to_string(), "4096 × 32000");
/// assert_eq!(Shape::from_row_major(&[32000, 4096])?, shape);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dimensions: [u64; Self::MAX_DIMENSIONS],
    len: u8,
}

impl Shape {
    /// The most dimensions a shape can hold. ggml has four; the format leaves room for more.
    pub const MAX_DIMENSIONS: usize = 8;

    /// A shape with these dimensions in stored order. Fails when there are more than
    /// [`Shape::MAX_DIMENSIONS`] or their product exceeds `u64`.
    pub fn new(dimensions: &[u64]) -> Result<Self> {
        let mut own = [0; Self::MAX_DIMENSIONS];
        let too_many = || {
            let (found, limit) = (dimensions.len() as u64, Self::MAX_DIMENSIONS as u64);
            Error::new(ErrorKind::Limit, Detail::Limit { what: "dimensions", found, limit })
        };
        own.get_mut(..dimensions.len()).ok_or_else(too_many)?.copy_from_slice(dimensions);
        let len = u8::try_from(dimensions.len()).map_err(|_| too_many())?;
        let shape = Self { dimensions: own, len };
        match shape.product() {
            Some(_) => Ok(shape),
            None => Err(Error::new(ErrorKind::Malformed, Detail::Elements)),
        }
    }

    /// The shape of a tensor whose dimensions are listed slowest first, as PyTorch, NumPy and
    /// safetensors do.
    pub fn from_row_major(dimensions: &[u64]) -> Result<Self> {
        let mut shape = Self::new(dimensions)?;
        if let Some(used) = shape.dimensions.get_mut(..dimensions.len()) {
            used.reverse();
        }
        Ok(shape)
    }

    /// The product of the dimensions: 0 when one of them is, `None` when it exceeds `u64`.
    fn product(&self) -> Option<u64> {
        let dimensions = self.dimensions();
        if dimensions.contains(&0) {
            return Some(0);
        }
        dimensions.iter().try_fold(1u64, |product, &dimension| product.checked_mul(dimension))
    }

    /// The dimensions in stored order.
    pub fn dimensions(&self) -> &[u64] {
        self.dimensions.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The dimensions slowest first, as PyTorch, NumPy and safetensors list them.
    pub fn row_major(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.dimensions().iter().rev().copied()
    }

    /// Elements in all. A scalar has one.
    pub fn elements(&self) -> u64 {
        // `new` has seen that the product fits.
        self.product().unwrap_or(u64::MAX)
    }

    /// Elements in a row: `ne[0]`, or 1 for a scalar.
    pub fn row_len(&self) -> u64 {
        self.dimensions().first().copied().unwrap_or(1)
    }

    /// Rows that hold elements: the product of all dimensions but the first, and 0 for an empty
    /// tensor.
    pub fn rows(&self) -> u64 {
        self.elements().checked_div(self.row_len()).unwrap_or(0)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        let mut shown = alloc::string::String::new();
        for (i, dimension) in self.dimensions().iter().enumerate() {
            write!(shown, "{}{dimension}", if i == 0 { "" } else { " × " })?;
        }
        f.pad(if shown.is_empty() { "scalar" } else { &shown })
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dimensions(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_checked() {
        assert_eq!(Shape::new(&[1 << 32, 1 << 31]).unwrap().elements(), 1 << 63);
        assert_eq!(Shape::new(&[1 << 32, 1 << 32]).unwrap_err().kind(), ErrorKind::Malformed);
        assert_eq!(Shape::new(&[1; 9]).unwrap_err().kind(), ErrorKind::Limit);
    }

    #[test]
    fn a_zero_dimension_makes_an_empty_tensor() {
        let shape = Shape::new(&[u64::MAX, 0, u64::MAX]).unwrap();
        assert_eq!((shape.elements(), shape.rows(), shape.row_len()), (0, 0, u64::MAX));
    }

    #[test]
    fn an_empty_tensor_has_no_rows_to_loop_over() {
        let shape = Shape::new(&[0, u64::MAX, u64::MAX]).unwrap();
        assert_eq!((shape.elements(), shape.rows()), (0, 0));
    }

    #[test]
    fn a_scalar_has_one_element() {
        let scalar = Shape::new(&[]).unwrap();
        assert_eq!((scalar.elements(), scalar.rows(), scalar.row_len()), (1, 1, 1));
        assert_eq!(scalar.to_string(), "scalar");
    }

    use alloc::string::ToString as _;
}
