//! Views, which rearrange elements without changing their values.

use ggmill_core::{GgmlType, Shape};

use crate::error::{Error, ErrorKind, Result};
use crate::expression::{Expression, Kind, shape_of};

impl Expression {
    /// Permutes dimensions: dimension `i` of the result is dimension `order[i]`. Fails if `order`
    /// is not a permutation.
    ///
    /// Quantized elements are decoded to F32 unless the first dimension stays the first.
    pub fn axes(&self, order: &[usize]) -> Result<Self> {
        let step = || {
            format!(
                "axes({})",
                order.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            )
        };
        let dimensions = self.shape().dimensions();
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..dimensions.len()) {
            return Err(self.fault(
                step(),
                format_args!("expected each of the {} dimensions exactly once", dimensions.len()),
            ));
        }
        if order.iter().copied().eq(0..dimensions.len()) {
            return Ok(self.clone());
        }
        if self.is_quantized() && order.first() != Some(&0) {
            return self.to_f32()?.axes(order);
        }
        let permuted: Vec<u64> = order.iter().map(|&dimension| dimensions[dimension]).collect();
        Self::new(
            shape_of(&permuted)?,
            self.ggml_type(),
            Kind::Axes { child: self.clone(), order: order.to_vec() },
        )
    }

    /// Exchanges the first two dimensions. Fails for fewer than two.
    pub fn transpose(&self) -> Result<Self> {
        let rank = self.shape().dimensions().len();
        if rank < 2 {
            return Err(self.fault("transpose", "expected at least two dimensions"));
        }
        self.axes(&[1, 0].into_iter().chain(2..rank).collect::<Vec<_>>())
    }

    /// Changes the shape and keeps the order of the elements. Fails if the number of elements
    /// differs.
    ///
    /// Quantized elements are decoded to F32 if the new row length is not a multiple of the block
    /// size.
    pub fn reshape(&self, shape: Shape) -> Result<Self> {
        if shape.elements() != self.shape().elements() {
            return Err(self.fault(
                format_args!("reshape({shape})"),
                format_args!("{} elements, expected {}", self.shape().elements(), shape.elements()),
            ));
        }
        if shape == *self.shape() {
            return Ok(self.clone());
        }
        if !shape.row_len().is_multiple_of(self.0.block.0) {
            return self.to_f32()?.reshape(shape);
        }
        // Skip an inner reshape.
        let child = match &self.0.kind {
            Kind::Reshape { child } => child,
            _ => self,
        };
        Self::new(shape, self.ggml_type(), Kind::Reshape { child: child.clone() })
    }

    /// Keeps `count` indices of a dimension: `start`, `start + step` and so on. Fails if they are
    /// out of bounds.
    ///
    /// Quantized elements are decoded to F32 if the slice cuts blocks.
    pub fn slice(&self, dimension: usize, start: u64, count: u64, step: u64) -> Result<Self> {
        let name = || format!("slice({dimension}, {start}, {count}, {step})");
        let mut dimensions = self.dimensions(0);
        let Some(extent) = dimensions.get_mut(dimension) else {
            return Err(self.fault(
                name(),
                format_args!("there are {} dimensions", self.shape().dimensions().len()),
            ));
        };
        let last =
            count.saturating_sub(1).checked_mul(step).and_then(|reach| reach.checked_add(start));
        if count > 0 && last.is_none_or(|last| last >= *extent)
            || count == 0 && start > *extent
            || step == 0
        {
            return Err(self.fault(name(), format_args!("dimension {dimension} has {extent}")));
        }
        if (start, count) == (0, *extent) {
            return Ok(self.clone());
        }
        let block = if dimension == 0 { self.0.block.0 } else { 1 };
        if block > 1 && !(step == 1 && start.is_multiple_of(block) && count.is_multiple_of(block)) {
            return self.to_f32()?.slice(dimension, start, count, step);
        }
        *extent = count;
        let kind = Kind::Slice { child: self.clone(), dimension, start: start / block, step };
        Self::new(shape_of(&dimensions)?, self.ggml_type(), kind)
    }

    /// Concatenates arrays along a dimension. Fails if their other dimensions differ, or without
    /// arrays.
    ///
    /// Arrays of one type keep it; floats of different types become F32.
    pub fn concat(dimension: usize, parts: &[Self]) -> Result<Self> {
        let Some(first) = parts.first() else {
            return Err(Error::new(ErrorKind::Misuse, format!("concat({dimension}) of nothing")));
        };
        let rank = first.shape().dimensions().len();
        if dimension >= rank {
            return Err(first.fault(
                format_args!("concat({dimension})"),
                format_args!("there are {rank} dimensions"),
            ));
        }
        let parts = Self::with_common_type(parts)?;
        let mut dimensions = first.dimensions(0);
        let mut ends = Vec::with_capacity(parts.len());
        let mut end = 0u64;
        for (number, part) in parts.iter().enumerate() {
            let mut other = part.dimensions(0);
            let differ = || {
                part.fault(
                    format_args!("concat({dimension}), part {number},"),
                    format_args!("its shape does not fit {}", first.shape()),
                )
            };
            let extent = other.get(dimension).copied().ok_or_else(differ)?;
            other[dimension] = dimensions[dimension];
            if other != dimensions {
                return Err(differ());
            }
            end =
                end.checked_add(extent).ok_or_else(|| part.fault("concat", "too many elements"))?;
            let block = if dimension == 0 { part.0.block.0 } else { 1 };
            ends.push(end / block);
        }
        if let [only] = &parts[..] {
            return Ok(only.clone());
        }
        dimensions[dimension] = end;
        let ggml_type = parts[0].ggml_type();
        Self::new(shape_of(&dimensions)?, ggml_type, Kind::Join { parts, dimension, ends })
    }

    /// Stacks arrays of one shape along a new last dimension. Fails if their shapes differ, or
    /// without arrays.
    pub fn stack(parts: &[Self]) -> Result<Self> {
        let raised = parts.iter().map(|part| {
            let mut dimensions = part.dimensions(0);
            dimensions.push(1);
            part.reshape(shape_of(&dimensions)?)
        });
        let raised = raised.collect::<Result<Vec<_>>>()?;
        let rank = parts.first().map_or(0, |part| part.shape().dimensions().len());
        match &raised[..] {
            // `concat` checks the rank of its first part, which a single part does not raise.
            [only] => Ok(only.clone()),
            _ => Self::concat(rank, &raised),
        }
    }

    /// Pads a dimension with zeros at the beginning and end, or crops it for negative numbers.
    /// Fails if it crops more than the extent.
    ///
    /// Quantized elements are decoded to F32 for padding, and if blocks are cut.
    pub fn resize(&self, dimension: usize, before: i64, after: i64) -> Result<Self> {
        let name = || format!("resize({dimension}, {before}, {after})");
        if dimension >= self.shape().dimensions().len() {
            return Err(self.fault(
                name(),
                format_args!("there are {} dimensions", self.shape().dimensions().len()),
            ));
        }
        let cut = |by: i64| if by < 0 { by.unsigned_abs() } else { 0 };
        let left = self
            .extent(dimension)
            .checked_sub(cut(before))
            .and_then(|left| left.checked_sub(cut(after)));
        let left = left.ok_or_else(|| {
            self.fault(name(), format_args!("dimension {dimension} has {}", self.extent(dimension)))
        })?;
        let mut kept = self.slice(dimension, cut(before), left, 1)?;
        if kept.is_quantized() && (before > 0 || after > 0) {
            kept = kept.to_f32()?;
        }
        let zeros = |by: i64| {
            let mut dimensions = kept.dimensions(0);
            dimensions[dimension] = u64::try_from(by).unwrap_or(0);
            Self::zeros(kept.ggml_type(), shape_of(&dimensions)?)
        };
        let mut parts = Vec::with_capacity(3);
        if before > 0 {
            parts.push(zeros(before)?);
        }
        parts.push(kept.clone());
        if after > 0 {
            parts.push(zeros(after)?);
        }
        Self::concat(dimension, &parts)
    }

    /// Repeats the array `times` times along a dimension.
    pub fn repeat(&self, dimension: usize, times: u64) -> Result<Self> {
        let mut dimensions = self.dimensions(0);
        if dimension >= dimensions.len() {
            return Err(self.fault(
                format_args!("repeat({dimension}, {times})"),
                format_args!("there are {} dimensions", dimensions.len()),
            ));
        }
        let inner: u64 = dimensions[..=dimension].iter().product();
        let outer: u64 = dimensions[dimension + 1..].iter().product();
        let too_many =
            || self.fault(format_args!("repeat({dimension}, {times})"), "too many elements");
        dimensions[dimension] = dimensions[dimension].checked_mul(times).ok_or_else(too_many)?;
        self.broadcast(inner, times, outer)?.reshape(shape_of(&dimensions)?)
    }

    /// Repeats each run of `inner` elements `times` times.
    pub(super) fn broadcast(&self, inner: u64, times: u64, outer: u64) -> Result<Self> {
        let child = self.reshape(shape_of(&[inner, 1, outer])?)?;
        Self::new(
            shape_of(&[inner, times, outer])?,
            child.ggml_type(),
            Kind::Broadcast { child, dimension: 1 },
        )
    }

    /// Undoes Hugging Face's permutation of the rows of rotary heads. The last dimension consists
    /// of `heads` groups of `n` rows; row `2 i + j` of a group of the result is row `j n / 2 + i`
    /// of the input (`j` is 0 or 1). Fails unless `n` is an even integer.
    pub fn permute(&self, heads: u64) -> Result<Self> {
        let Some((&rows, faster)) = self.shape().dimensions().split_last() else {
            return Err(self.fault("permute", "a scalar has no rows"));
        };
        let pairs = heads.checked_mul(2).filter(|&pairs| pairs > 0 && rows.is_multiple_of(pairs));
        let Some(pairs) = pairs else {
            return Err(self.fault(
                format_args!("permute({heads})"),
                format_args!(
                    "{rows} rows cannot be divided into {heads} heads with an even number of rows \
                     each"
                ),
            ));
        };
        let halves = rows / pairs;
        if faster.is_empty() {
            return self
                .reshape(shape_of(&[halves, 2, heads])?)?
                .axes(&[1, 0, 2])?
                .reshape(*self.shape());
        }
        let row: u64 = faster.iter().product();
        self.reshape(shape_of(&[row, halves, 2, heads])?)?
            .axes(&[0, 2, 1, 3])?
            .reshape(*self.shape())
    }

    /// Applies `change` to indices `start..start + count` of a dimension. The result must have the
    /// shape of the slice.
    ///
    /// ```
    /// # use ggmill_core::Shape;
    /// # use ggmill_pipeline::Expression;
    /// let ones = Expression::floats(Shape::new(&[4])?, vec![1.0; 4])?;
    /// let second_half_negated = ones.within(0, 2, 2, |half| half.mul(-1.0))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(
        &self,
        dimension: usize,
        start: u64,
        count: u64,
        change: impl FnOnce(&Self) -> Result<Self>,
    ) -> Result<Self> {
        let changed = change(&self.slice(dimension, start, count, 1)?)?;
        let end = start + count;
        let mut parts = Vec::with_capacity(3);
        if start > 0 {
            parts.push(self.slice(dimension, 0, start, 1)?);
        }
        parts.push(changed);
        if end < self.extent(dimension) {
            parts.push(self.slice(dimension, end, self.extent(dimension) - end, 1)?);
        }
        let whole = Self::concat(dimension, &parts)?;
        if whole.shape() == self.shape() {
            Ok(whole)
        } else {
            Err(self.fault("a change within", "changes the shape"))
        }
    }

    /// Converts the parts to a common type: their own if it is equal, otherwise F32; fails if
    /// integers and other types are mixed.
    fn with_common_type(parts: &[Self]) -> Result<Vec<Self>> {
        let is_integer = |part: &Self| {
            matches!(part.ggml_type(), GgmlType::I8 | GgmlType::I16 | GgmlType::I32 | GgmlType::I64)
        };
        let Some(first) = parts.first() else { return Ok(Vec::new()) };
        match parts.iter().find(|part| part.ggml_type() != first.ggml_type()) {
            None => Ok(parts.to_vec()),
            Some(other) if parts.iter().any(is_integer) => Err(other.fault(
                "concat",
                format_args!("elements of type {} and {}", other.ggml_type(), first.ggml_type()),
            )),
            Some(_) => parts.iter().map(Self::to_f32).collect(),
        }
    }
}
