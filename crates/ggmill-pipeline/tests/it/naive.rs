//! The definition of expressions: a naive interpreter over whole arrays, element by element.

use ggmill_core::GgmlType;

/// An array with exact elements. The type determines how results are rounded; elements of quantized
/// types are the decoded values.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) dimensions: Vec<u64>,
    pub(crate) ggml_type: GgmlType,
    pub(crate) elements: Vec<f64>,
}

/// Rounds a number to a type.
pub(crate) fn rounded(ggml_type: GgmlType, value: f64) -> f64 {
    let single = value as f32;
    match ggml_type {
        GgmlType::F16 | GgmlType::BF16 => {
            let (mut bytes, mut back) = ([0; 2], [0.0]);
            ggmill_quant::quantize(ggml_type, &[single], 1, None, &mut bytes).unwrap();
            ggmill_quant::dequantize(ggml_type, &bytes, &mut back).unwrap();
            f64::from(back[0])
        }
        GgmlType::F32 => f64::from(single),
        _ => value,
    }
}

fn is_integer(ggml_type: GgmlType) -> bool {
    [GgmlType::I8, GgmlType::I16, GgmlType::I32, GgmlType::I64].contains(&ggml_type)
}

impl Array {
    pub(crate) fn len(&self) -> u64 {
        self.dimensions.iter().product()
    }

    fn element(&self, at: &[u64]) -> f64 {
        let place = at
            .iter()
            .zip(&self.dimensions)
            .rev()
            .fold(0, |place, (at, extent)| place * extent + at);
        self.elements[usize::try_from(place).unwrap()]
    }

    /// Creates an array from a function of the index.
    fn of(dimensions: Vec<u64>, ggml_type: GgmlType, element: impl Fn(&[u64]) -> f64) -> Self {
        let places = 0..dimensions.iter().product();
        let at = |mut place: u64| {
            dimensions
                .iter()
                .map(|extent| {
                    let at = place % extent;
                    place /= extent;
                    at
                })
                .collect::<Vec<_>>()
        };
        let elements = places.map(|place| element(&at(place))).collect();
        Self { dimensions, ggml_type, elements }
    }

    fn map(&self, ggml_type: GgmlType, change: impl Fn(f64) -> f64) -> Self {
        Self {
            dimensions: self.dimensions.clone(),
            ggml_type,
            elements: self.elements.iter().map(|&value| change(value)).collect(),
        }
    }

    pub(crate) fn axes(&self, order: &[usize]) -> Self {
        Self::of(
            order.iter().map(|&dimension| self.dimensions[dimension]).collect(),
            self.ggml_type,
            |at| {
                let mut from = vec![0; at.len()];
                order.iter().zip(at).for_each(|(&dimension, &at)| from[dimension] = at);
                self.element(&from)
            },
        )
    }

    pub(crate) fn reshape(&self, dimensions: Vec<u64>) -> Option<Self> {
        (dimensions.iter().product::<u64>() == self.len())
            .then(|| Self { dimensions, ..self.clone() })
    }

    pub(crate) fn slice(
        &self,
        dimension: usize,
        start: u64,
        count: u64,
        step: u64,
    ) -> Option<Self> {
        let mut dimensions = self.dimensions.clone();
        let fits = if count > 0 {
            start + (count - 1) * step < dimensions[dimension]
        } else {
            start <= dimensions[dimension]
        };
        dimensions[dimension] = count;
        (fits && step > 0).then(|| {
            Self::of(dimensions, self.ggml_type, |at| {
                let mut from = at.to_vec();
                from[dimension] = start + at[dimension] * step;
                self.element(&from)
            })
        })
    }

    pub(crate) fn concat(dimension: usize, parts: &[Self]) -> Option<Self> {
        let first = &parts[0];
        let others = |array: &Self| {
            let mut dimensions = array.dimensions.clone();
            dimensions.remove(dimension);
            dimensions
        };
        if parts.iter().any(|part| {
            part.dimensions.len() != first.dimensions.len() || others(part) != others(first)
        }) {
            return None;
        }
        let same = parts.iter().all(|part| part.ggml_type == first.ggml_type);
        if !same && parts.iter().any(|part| is_integer(part.ggml_type)) {
            return None;
        }
        let ggml_type = if same { first.ggml_type } else { GgmlType::F32 };
        let mut dimensions = first.dimensions.clone();
        dimensions[dimension] = parts.iter().map(|part| part.dimensions[dimension]).sum();
        Some(Self::of(dimensions, ggml_type, |at| {
            let mut from = at.to_vec();
            for part in parts {
                if from[dimension] < part.dimensions[dimension] {
                    return if same {
                        part.element(&from)
                    } else {
                        rounded(GgmlType::F32, part.element(&from))
                    };
                }
                from[dimension] -= part.dimensions[dimension];
            }
            unreachable!()
        }))
    }

    pub(crate) fn stack(parts: &[Self]) -> Option<Self> {
        let raised: Vec<Self> = parts
            .iter()
            .map(|part| Self { dimensions: [&part.dimensions[..], &[1]].concat(), ..part.clone() })
            .collect();
        Self::concat(parts[0].dimensions.len(), &raised)
    }

    pub(crate) fn resize(&self, dimension: usize, before: i64, after: i64) -> Option<Self> {
        let extent = i64::try_from(self.dimensions[dimension]).unwrap();
        if before.min(0) + after.min(0) + extent < 0 {
            return None;
        }
        let mut dimensions = self.dimensions.clone();
        dimensions[dimension] = u64::try_from(extent + before + after).unwrap();
        Some(Self::of(dimensions, self.ggml_type, |at| {
            let mut from = at.to_vec();
            match u64::try_from(i64::try_from(at[dimension]).unwrap() - before) {
                Ok(place) if place < self.dimensions[dimension] => {
                    from[dimension] = place;
                    self.element(&from)
                }
                _ => 0.0,
            }
        }))
    }

    pub(crate) fn repeat(&self, dimension: usize, times: u64) -> Self {
        let mut dimensions = self.dimensions.clone();
        dimensions[dimension] *= times;
        Self::of(dimensions, self.ggml_type, |at| {
            let mut from = at.to_vec();
            from[dimension] %= self.dimensions[dimension];
            self.element(&from)
        })
    }

    /// Row `2i + j` of each head is row `j·n/2 + i` of the input.
    pub(crate) fn permute(&self, heads: u64) -> Option<Self> {
        let (last, rows) = (self.dimensions.len() - 1, *self.dimensions.last().unwrap());
        (heads > 0 && rows.is_multiple_of(2 * heads)).then(|| {
            let head = rows / heads;
            Self::of(self.dimensions.clone(), self.ggml_type, |at| {
                let mut from = at.to_vec();
                let (start, row) = (at[last] / head * head, at[last] % head);
                from[last] = start + row % 2 * (head / 2) + row / 2;
                self.element(&from)
            })
        })
    }

    /// Returns the type of the arithmetic.
    fn arithmetic(&self) -> GgmlType {
        if self.ggml_type == GgmlType::F16 { GgmlType::F16 } else { GgmlType::F32 }
    }

    /// Computes in `f32` and rounds.
    fn calculate(&self, change: impl Fn(f32) -> f32) -> Self {
        let ggml_type = self.arithmetic();
        self.map(ggml_type, |value| rounded(ggml_type, f64::from(change(value as f32))))
    }

    pub(crate) fn add(&self, number: f64) -> Self {
        // For F16, the number is rounded to F16 first.
        let number = rounded(self.arithmetic(), f64::from(number as f32));
        self.calculate(|value| value + number as f32)
    }

    pub(crate) fn mul(&self, number: f64) -> Self {
        self.calculate(|value| value * number as f32)
    }

    pub(crate) fn exp(&self) -> Self {
        self.calculate(|value| f64::from(value).exp() as f32)
    }

    pub(crate) fn sqrt(&self) -> Self {
        self.calculate(f32::sqrt)
    }

    pub(crate) fn softplus(&self) -> Self {
        let step = |x: f32| f64::from(f64::from(x).exp() as f32).ln_1p() as f32;
        self.calculate(|x| if x > 20.0 { x } else { step(x) })
    }

    pub(crate) fn neg_exp(&self) -> Self {
        self.calculate(|value| -(f64::from(value).exp() as f32))
    }

    fn pair(&self, other: &Self, change: impl Fn(f32, f32) -> f32) -> Option<Self> {
        let ggml_type =
            if self.arithmetic() == other.arithmetic() { self.arithmetic() } else { GgmlType::F32 };
        let elements = self
            .elements
            .iter()
            .zip(&other.elements)
            .map(|(&a, &b)| rounded(ggml_type, f64::from(change(a as f32, b as f32))))
            .collect();
        (self.dimensions == other.dimensions).then(|| Self {
            dimensions: self.dimensions.clone(),
            ggml_type,
            elements,
        })
    }

    pub(crate) fn product(&self, other: &Self) -> Option<Self> {
        self.pair(other, |a, b| a * b)
    }

    pub(crate) fn difference(&self, other: &Self) -> Option<Self> {
        self.pair(other, |x, y| x - y)
    }

    pub(crate) fn quotient(&self, other: &Self) -> Option<Self> {
        self.pair(other, |x, y| x / y)
    }

    pub(crate) fn sum(&self, other: &Self) -> Option<Self> {
        self.pair(other, |a, b| a + b)
    }

    fn singles(&self) -> impl Iterator<Item = f32> {
        self.elements.iter().map(|&value| value as f32)
    }

    pub(crate) fn center(&self) -> Self {
        let mean = rounded(
            self.arithmetic(),
            f64::from(
                (self.singles().fold(0.0, |sum, value| sum + f64::from(value)) / self.len() as f64)
                    as f32,
            ),
        );
        self.calculate(|value| value - mean as f32)
    }

    pub(crate) fn normalize_columns(&self) -> Self {
        let columns =
            usize::try_from(self.dimensions.first().copied().unwrap_or(1)).unwrap().max(1);
        let mut squares = vec![0.0f32; columns];
        self.singles()
            .enumerate()
            .for_each(|(place, value)| squares[place % columns] += value * value);
        let elements = self
            .singles()
            .enumerate()
            .map(|(place, value)| f64::from(value / (squares[place % columns].sqrt() + 1e-7)))
            .collect();
        Self { dimensions: self.dimensions.clone(), ggml_type: GgmlType::F32, elements }
    }

    pub(crate) fn ternarize(&self) -> Self {
        let mean = (self.singles().fold(0.0, |sum, value| sum + f64::from(value.abs()))
            / self.len() as f64) as f32;
        let inverse = 1.0 / mean.max(1e-5);
        self.calculate(|value| (value * inverse).round_ties_even().clamp(-1.0, 1.0) / inverse)
    }

    pub(crate) fn matmul(&self, other: &Self) -> Option<Self> {
        let (&[columns, inner], &[others, rows]) = (&self.dimensions[..], &other.dimensions[..])
        else {
            return None;
        };
        (inner == others).then(|| {
            Self::of(vec![columns, rows], GgmlType::F32, |at| {
                let product =
                    |k| self.element(&[at[0], k]) as f32 * other.element(&[k, at[1]]) as f32;
                f64::from((0..inner).fold(0.0f32, |sum, k| sum + product(k)))
            })
        })
    }

    pub(crate) fn encode(&self, ggml_type: GgmlType) -> Self {
        if ggml_type == self.ggml_type {
            return self.clone();
        }
        let values: Vec<f32> = self.singles().collect();
        let layout = ggml_type.layout().unwrap();
        let mut bytes = vec![0; usize::try_from(layout.bytes_for(self.len()).unwrap()).unwrap()];
        let row = usize::try_from(self.dimensions.first().copied().unwrap_or(1)).unwrap();
        ggmill_quant::quantize(ggml_type, &values, row, None, &mut bytes).unwrap();
        decoded(ggml_type, &bytes, &self.dimensions)
    }
}

/// Decodes the bytes of a type.
pub(crate) fn decoded(ggml_type: GgmlType, bytes: &[u8], dimensions: &[u64]) -> Array {
    let elements: Vec<f64> = match ggml_type {
        GgmlType::F64 => {
            bytes.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect()
        }
        GgmlType::I32 => {
            bytes.as_chunks().0.iter().map(|&bytes| f64::from(i32::from_le_bytes(bytes))).collect()
        }
        GgmlType::I64 => {
            bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes) as f64).collect()
        }
        _ => {
            let mut values =
                vec![0.0; usize::try_from(dimensions.iter().product::<u64>()).unwrap()];
            ggmill_quant::dequantize(ggml_type, bytes, &mut values).unwrap();
            values.into_iter().map(f64::from).collect()
        }
    };
    let ggml_type = if ggml_type.is_quantized() { GgmlType::F32 } else { ggml_type };
    Array { dimensions: dimensions.to_vec(), ggml_type, elements }
}
