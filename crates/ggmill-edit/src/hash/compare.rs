//! Element-wise comparison of two tensors.

use ggmill_core::GgmlType;
use ggmill_pipeline::{Checkpoint, Error, ErrorKind, Progress, Report, Result, RunOptions, zeroed};
use ggmill_quant as quant;

/// Elements per chunk, a multiple of every block size. It does not depend on the number of threads, so
/// that the sums do not either.
const CHUNK: u64 = 1 << 18;
/// Chunks in flight per thread.
const AHEAD: usize = 4;

/// The result of comparing the data of two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[non_exhaustive]
pub struct Comparison {
    /// The first byte that differs, if both have the same type; otherwise `None`.
    pub first_byte: Option<u64>,
    /// The number of bytes that differ, if both have the same type.
    pub different_bytes: u64,
    /// The numeric differences, if requested and if both types can be decoded.
    pub numeric: Option<NumericError>,
}

/// The numeric differences between two tensors. Pairs with an infinite or NaN element are excluded
/// from the errors.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NumericError {
    /// The largest absolute difference between two elements.
    pub max_abs: f64,
    /// The index of that element, in stored order; `None` if no elements differ.
    pub max_at: Option<u64>,
    /// The root mean square error (RMSE).
    pub rmse: f64,
    /// The RMSE divided by the root mean square of the first tensor; `None` if that is 0.
    pub relative: Option<f64>,
    /// The cosine similarity of the two tensors; `None` if all elements of one are 0.
    pub cosine: Option<f64>,
    /// The number of pairs in which an element is not finite and the bits differ.
    pub non_finite: u64,
}

/// Two tensors to compare, by their numbers in their checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "two numbers")]
pub struct ToCompare {
    /// The number in A.
    pub a: usize,
    /// The number in B.
    pub b: usize,
}

/// Compares the data of pairs of tensors: bytes if both have the same type and, if `numeric`, decoded
/// values.
///
/// Reads in parallel, on the number of threads in `options`, in bounded memory. Bytes of different
/// types, and values of types without a decoder, are not compared. Fails if the shapes of a pair
/// differ, and if reading fails.
pub fn compare(
    a: &dyn Checkpoint,
    b: &dyn Checkpoint,
    pairs: &[ToCompare],
    numeric: bool,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<Vec<Comparison>> {
    [a, b].into_iter().try_for_each(Checkpoint::verify)?;
    let workers = options.workers()?;
    let pairs: Vec<Pair<'_>> =
        pairs.iter().map(|pair| Pair::new([a, b], *pair, numeric)).collect::<Result<_>>()?;
    for (side, source) in [a, b].into_iter().enumerate() {
        let numbers: Vec<usize> = pairs.iter().map(|pair| pair.sides[side].number).collect();
        source.prefetch(&numbers);
    }
    let total = pairs.iter().map(|pair| pair.elements).fold(0, u64::saturating_add);
    let mut sums: Vec<Sums> = vec![Sums::default(); pairs.len()];
    let mut chunks = pairs.iter().enumerate().flat_map(|(number, pair)| {
        let starts = (0..pair.elements).step_by(usize::try_from(CHUNK).unwrap_or(usize::MAX));
        starts.map(move |start| (number, start, pair.elements.min(start + CHUNK)))
    });
    let mut written = 0;
    loop {
        let window: Vec<_> = chunks.by_ref().take(AHEAD * workers.threads()).collect();
        let Some(&(last, ..)) = window.last() else { break };
        let found: Vec<Result<(usize, Sums)>> = workers
            .map(&window, |&(number, start, end)| Ok((number, pairs[number].sums(start, end)?)));
        for found in found {
            let (number, more) = found?;
            sums[number] = sums[number].and(more);
        }
        written += window.iter().map(|(_, start, end)| end - start).sum::<u64>();
        if progress(Progress::new(&pairs[last].name, written, total)).is_break() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
    }
    // A file that changed meanwhile was read as a mixture of old and new bytes.
    [a, b].into_iter().try_for_each(Checkpoint::verify)?;
    Ok(pairs.iter().zip(sums).map(|(pair, sums)| sums.comparison(pair.numeric)).collect())
}

/// Two tensors, and whether their bytes and values are compared.
struct Pair<'a> {
    sides: [Side<'a>; 2],
    name: String,
    elements: u64,
    bytes: bool,
    numeric: bool,
}

struct Side<'a> {
    checkpoint: &'a dyn Checkpoint,
    number: usize,
    ggml_type: GgmlType,
}

impl<'a> Pair<'a> {
    fn new(checkpoints: [&'a dyn Checkpoint; 2], pair: ToCompare, numeric: bool) -> Result<Self> {
        let [a, b] = checkpoints;
        let (Some(first), Some(second)) = (a.tensors().get(pair.a), b.tensors().get(pair.b)) else {
            return Err(Error::new(ErrorKind::Misuse, "no tensor has this number"));
        };
        if first.shape != second.shape {
            return Err(Error::new(
                ErrorKind::Misuse,
                format!("shape {} cannot be compared with shape {}", second.shape, first.shape),
            )
            .tensor(&first.name));
        }
        let sides = [
            Side { checkpoint: a, number: pair.a, ggml_type: first.ggml_type },
            Side { checkpoint: b, number: pair.b, ggml_type: second.ggml_type },
        ];
        let name = first.name().to_string_lossy().into_owned();
        let numeric = numeric && sides.iter().all(|side| quant::codec(side.ggml_type).is_ok());
        Ok(Self {
            name,
            elements: first.shape.elements(),
            bytes: first.ggml_type == second.ggml_type,
            numeric,
            sides,
        })
    }

    fn sums(&self, start: u64, end: u64) -> Result<Sums> {
        if !self.bytes && !self.numeric {
            return Ok(Sums::default());
        }
        let about = |error: Error| error.tensor(&self.name);
        let [a, b] = &self.sides;
        let (a_bytes, b_bytes) =
            (a.read(start, end).map_err(about)?, b.read(start, end).map_err(about)?);
        let mut sums = Sums::default();
        if self.bytes && a_bytes != b_bytes {
            let offset = a.bytes_for(start)?;
            let differ = a_bytes.iter().zip(&b_bytes).map(|(a, b)| a != b);
            sums.first_byte =
                differ.clone().position(|differs| differs).map(|position| offset + position as u64);
            sums.different_bytes = differ.filter(|differs| *differs).count() as u64;
        }
        if self.numeric {
            let a = a.decode(&a_bytes, end - start).map_err(about)?;
            // Equal bytes have equal values, but the sums are still needed.
            let b = if self.bytes && sums.first_byte.is_none() {
                a.clone()
            } else {
                b.decode(&b_bytes, end - start).map_err(about)?
            };
            sums.add(&a, &b, start);
        }
        Ok(sums)
    }
}

impl Side<'_> {
    fn bytes_for(&self, elements: u64) -> Result<u64> {
        let bytes = self.ggml_type.layout().and_then(|layout| layout.bytes_for(elements));
        bytes.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{elements} elements are not a multiple of the block size of {}",
                    self.ggml_type
                ),
            )
        })
    }

    fn read(&self, start: u64, end: u64) -> Result<Vec<u8>> {
        let (from, to) = (self.bytes_for(start)?, self.bytes_for(end)?);
        let mut bytes = zeroed(usize::try_from(to - from).unwrap_or(0))?;
        self.checkpoint.read(self.number, from, &mut bytes)?;
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8], elements: u64) -> Result<Vec<f32>> {
        let mut values = zeroed(usize::try_from(elements).unwrap_or(0))?;
        quant::dequantize(self.ggml_type, bytes, &mut values)
            .map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
        Ok(values)
    }
}

/// The sums over the chunks of a tensor.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    first_byte: Option<u64>,
    different_bytes: u64,
    finite: u64,
    non_finite: u64,
    max_abs: f64,
    max_at: Option<u64>,
    squares: f64,
    a_squares: f64,
    b_squares: f64,
    products: f64,
}

impl Sums {
    fn add(&mut self, a: &[f32], b: &[f32], start: u64) {
        for (number, (&a, &b)) in a.iter().zip(b).enumerate() {
            if !(a.is_finite() && b.is_finite()) {
                self.non_finite += u64::from(a.to_bits() != b.to_bits());
                continue;
            }
            let (a, b) = (f64::from(a), f64::from(b));
            let distance = (a - b).abs();
            if distance > self.max_abs {
                (self.max_abs, self.max_at) = (distance, Some(start + number as u64));
            }
            self.finite += 1;
            self.squares += distance * distance;
            self.a_squares += a * a;
            self.b_squares += b * b;
            self.products += a * b;
        }
    }

    /// Adds the sums of a later chunk.
    fn and(self, later: Self) -> Self {
        let max = if later.max_abs > self.max_abs { later } else { self };
        Self {
            first_byte: self.first_byte.or(later.first_byte),
            different_bytes: self.different_bytes + later.different_bytes,
            finite: self.finite + later.finite,
            non_finite: self.non_finite + later.non_finite,
            max_abs: max.max_abs,
            max_at: max.max_at,
            squares: self.squares + later.squares,
            a_squares: self.a_squares + later.a_squares,
            b_squares: self.b_squares + later.b_squares,
            products: self.products + later.products,
        }
    }

    fn comparison(self, numeric: bool) -> Comparison {
        #[expect(
            clippy::cast_precision_loss,
            reason = "exact up to 2^53 elements, which is enough for a mean"
        )]
        let count = self.finite.max(1) as f64;
        let norms = self.a_squares.sqrt() * self.b_squares.sqrt();
        let numeric = numeric.then(|| NumericError {
            max_abs: self.max_abs,
            max_at: self.max_at,
            rmse: (self.squares / count).sqrt(),
            relative: (self.a_squares > 0.0).then(|| (self.squares / self.a_squares).sqrt()),
            cosine: (norms > 0.0).then(|| (self.products / norms).clamp(-1.0, 1.0)),
            non_finite: self.non_finite,
        });
        Comparison { first_byte: self.first_byte, different_bytes: self.different_bytes, numeric }
    }
}
