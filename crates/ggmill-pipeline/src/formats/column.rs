//! Tensors in the types of an exported file, and streaming their data.

use ggmill_core::{GgmlType, Sink};
use ggmill_quant as quant;

use crate::{
    Checkpoint, Error, ErrorKind, Progress, Report, Result, RunOptions, SourceTensor, zeroed,
};

/// Elements decoded at once, a multiple of every block size.
const CHUNK: u64 = 1 << 18;
/// Chunks in flight per thread.
const AHEAD: usize = 4;

/// A tensor to export.
pub(crate) struct Column<'a> {
    pub(crate) number: usize,
    pub(crate) tensor: &'a SourceTensor,
    /// If true, its data is decoded to F32; otherwise it is copied.
    pub(crate) decoded: bool,
    /// Its exported type.
    pub(crate) element: Element,
    /// Its exported dimensions, slowest first.
    pub(crate) shape: Vec<u64>,
    /// Its exported size in bytes.
    pub(crate) size: u64,
}

/// An element type that other formats support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    I16,
    I8,
    U8,
}

impl Element {
    fn from_ggml(ggml_type: GgmlType) -> Option<Self> {
        Some(match ggml_type {
            GgmlType::F64 => Self::F64,
            GgmlType::F32 => Self::F32,
            GgmlType::F16 => Self::F16,
            GgmlType::BF16 => Self::BF16,
            GgmlType::I64 => Self::I64,
            GgmlType::I32 => Self::I32,
            GgmlType::I16 => Self::I16,
            GgmlType::I8 => Self::I8,
            _ => return None,
        })
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::I8 | Self::U8 => 1,
        }
    }
}

impl<'a> Column<'a> {
    /// Describes the export of a tensor: unchanged if the format supports its type; otherwise
    /// decoded to F32 or, if `raw`, as the bytes of its blocks, one row of bytes for each row.
    pub(crate) fn new(
        checkpoint: &'a dyn Checkpoint,
        number: usize,
        raw: bool,
        supports: impl Fn(Element) -> bool,
    ) -> Result<Self> {
        let tensor = checkpoint
            .tensors()
            .get(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        if let Some(stored_type) = tensor.stored_type {
            let message = format!("elements of type {stored_type} are not supported");
            return Err(Error::new(ErrorKind::Unsupported, message).tensor(&tensor.name));
        }
        let bytes_for =
            |elements| tensor.ggml_type.layout().and_then(|layout| layout.bytes_for(elements));
        let size = bytes_for(tensor.shape.elements());
        let unsized_ = || {
            Error::new(
                ErrorKind::Unsupported,
                format!("the size of {} is unknown", tensor.ggml_type),
            )
            .tensor(&tensor.name)
        };
        let mut shape: Vec<u64> = tensor.shape.row_major().collect();
        if let Some(element) =
            Element::from_ggml(tensor.ggml_type).filter(|element| supports(*element))
        {
            return Ok(Self {
                number,
                tensor,
                decoded: false,
                element,
                shape,
                size: size.ok_or_else(unsized_)?,
            });
        }
        if raw {
            let row = bytes_for(tensor.shape.row_len()).ok_or_else(unsized_)?;
            match shape.last_mut() {
                Some(last) => *last = row,
                None => shape.push(row),
            }
            return Ok(Self {
                number,
                tensor,
                decoded: false,
                element: Element::U8,
                shape,
                size: size.ok_or_else(unsized_)?,
            });
        }
        quant::codec(tensor.ggml_type)
            .map_err(|error| Error::caused(ErrorKind::Unsupported, error).tensor(&tensor.name))?;
        let size = tensor.shape.elements().checked_mul(4).ok_or_else(unsized_)?;
        Ok(Self { number, tensor, decoded: true, element: Element::F32, shape, size })
    }

    /// Computes the exported bytes of elements `start..end`.
    fn bytes(&self, checkpoint: &dyn Checkpoint, start: u64, end: u64) -> Result<Vec<u8>> {
        let ggml_type = self.tensor.ggml_type;
        let bytes_for = |elements| {
            let bytes = ggml_type.layout().and_then(|layout| layout.bytes_for(elements));
            bytes.ok_or_else(|| {
                Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "{elements} elements are not a multiple of the block size of \
                             {ggml_type}"
                    ),
                )
            })
        };
        let (from, to) = (bytes_for(start)?, bytes_for(end)?);
        let mut bytes = zeroed(usize::try_from(to - from).unwrap_or(0))?;
        checkpoint.read(self.number, from, &mut bytes)?;
        if !self.decoded {
            return Ok(bytes);
        }
        let mut values = zeroed::<f32>(usize::try_from(end - start).unwrap_or(0))?;
        quant::dequantize(ggml_type, &bytes, &mut values)
            .map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
        Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }
}

/// Appends the data of tensors, in order.
pub(crate) fn stream<S>(
    checkpoint: &dyn Checkpoint,
    columns: &[Column<'_>],
    sink: &mut S,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<()>
where
    S: Sink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    // Verified before and after, because an interrupted edit or a concurrent write mixes old and
    // new bytes.
    checkpoint.verify()?;
    checkpoint.prefetch(&columns.iter().map(|column| column.number).collect::<Vec<_>>());
    let workers = options.workers()?;
    let total = columns.iter().map(|column| column.size).fold(0, u64::saturating_add);
    let mut written = 0;
    for column in columns {
        let elements = column.tensor.shape.elements();
        let mut starts = (0..elements).step_by(usize::try_from(CHUNK).unwrap_or(usize::MAX));
        loop {
            let window: Vec<u64> = starts.by_ref().take(AHEAD * workers.threads()).collect();
            if window.is_empty() {
                break;
            }
            let chunks: Vec<Result<Vec<u8>>> = workers.map(&window, |&start| {
                column.bytes(checkpoint, start, elements.min(start + CHUNK))
            });
            for bytes in chunks {
                let bytes = bytes.map_err(|error| error.tensor(&column.tensor.name))?;
                append(sink, &bytes)?;
                written += bytes.len() as u64;
            }
            if progress(Progress::new(&column.tensor.name().to_string_lossy(), written, total))
                .is_break()
            {
                return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
            }
        }
    }
    checkpoint.verify()
}

pub(crate) fn append<S>(sink: &mut S, bytes: &[u8]) -> Result<()>
where
    S: Sink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    sink.append(bytes).map_err(|error| Error::caused(ErrorKind::Io, error))
}
