//! An array of metadata, read as it is asked for.

use std::sync::{Arc, OnceLock};

use ggmill::{RawStr, Value, ValueType};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::error::{Failure, Result};
use crate::memory;
use crate::value::{object, string};

/// An array of `uint64`.
type Numbers<'py> = Bound<'py, PyArray1<u64>>;

/// Which entry of a model's metadata: by its key, of which a file can have several.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) part: usize,
    pub(crate) key: Vec<u8>,
    /// Which of the entries with this key, from 0.
    pub(crate) occurrence: usize,
}

impl Place {
    /// The entry, found by bisection.
    pub(crate) fn entry<'m>(&self, model: &'m ggmill::core::Model) -> Option<ggmill::Entry<'m>> {
        model.parts().get(self.part)?.metadata().all(&self.key).nth(self.occurrence)
    }

    fn array<'m>(&self, model: &'m ggmill::core::Model) -> Result<ggmill::Array<'m>> {
        match self.entry(model).map(|entry| entry.value()).transpose()? {
            Some(Value::Array(array)) => Ok(array),
            _ => Err(Failure::misuse("no such array")),
        }
    }
}

/// An array in the metadata of a model. Nothing is decoded before it is asked for.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Array {
    model: Arc<ggmill::core::Model>,
    place: Place,
    /// Of strings: where each begins in the bytes of the elements, and its length.
    places: OnceLock<Vec<(usize, usize)>>,
}

impl Array {
    pub(crate) fn new(model: Arc<ggmill::core::Model>, place: Place) -> Self {
        Self { model, place, places: OnceLock::new() }
    }

    fn array(&self) -> Result<ggmill::Array<'_>> {
        self.place.array(&self.model)
    }

    /// The places of the strings: found once, by a walk over all of them.
    fn places(&self) -> Result<&[(usize, usize)]> {
        if let Some(places) = self.places.get() {
            return Ok(places);
        }
        let array = self.array()?;
        let base = array.as_bytes().as_ptr().addr();
        let texts = array.strings().ok_or_else(|| {
            Failure::new("wrong_type", format!("an array of {}", array.element_type()))
        })?;
        let place = |text: ggmill::core::Result<RawStr<'_>>| {
            let bytes = text?.as_bytes();
            Ok((bytes.as_ptr().addr().saturating_sub(base), bytes.len()))
        };
        let places = texts.map(place).collect::<Result<Vec<_>>>()?;
        Ok(self.places.get_or_init(|| places))
    }

    fn element<'py>(&self, py: Python<'py>, number: u64) -> Result<Bound<'py, PyAny>> {
        let array = self.array()?;
        if array.element_type() == ValueType::STRING {
            let places = self.places()?;
            let (start, len) = usize::try_from(number)
                .ok()
                .and_then(|number| places.get(number).copied())
                .ok_or_else(|| Failure::misuse("no such element"))?;
            let text = array.as_bytes().get(start..).and_then(|rest| rest.get(..len));
            return string(py, RawStr::new(text.unwrap_or_default()));
        }
        match array.get(number) {
            Some(value) => object(py, &value?, 1),
            None => Err(Failure::misuse("no such element")),
        }
    }
}

#[pymethods]
impl Array {
    fn __len__(&self) -> Result<usize> {
        let len = self.array()?.len();
        usize::try_from(len).map_err(|_| Failure::new("limit", format!("{len} elements")))
    }

    /// The number of the type of the elements.
    #[getter]
    fn element_type(&self) -> Result<u32> {
        Ok(self.array()?.element_type().0)
    }

    /// One element, counted from 0.
    fn get<'py>(&self, py: Python<'py>, number: u64) -> Result<Bound<'py, PyAny>> {
        self.element(py, number)
    }

    /// The elements of a range, as `slice.indices` gives it, as a list.
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: i64,
        stop: i64,
        stride: i64,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        let mut found = Vec::new();
        let mut at = start;
        while (stride > 0 && at < stop) || (stride < 0 && at > stop) {
            let number = u64::try_from(at).map_err(|_| Failure::misuse("no such element"))?;
            found.push(self.element(py, number)?);
            at = at.saturating_add(stride);
        }
        Ok(found)
    }

    /// All elements, as a list.
    fn tolist<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        object(py, &Value::Array(self.array()?), 0)
    }

    /// The bytes of the elements as they are in the file, without a copy.
    fn raw<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<u8>>> {
        memory::view(py, &self.model, |model| Ok(self.place.array(model)?.as_bytes()))
    }

    /// Where each string begins in `raw`, and its length: two arrays of `uint64`.
    fn places_of_strings<'py>(&self, py: Python<'py>) -> Result<(Numbers<'py>, Numbers<'py>)> {
        let places = py.detach(|| self.places())?;
        let starts = places.iter().map(|(start, _)| *start as u64).collect();
        let lengths = places.iter().map(|(_, len)| *len as u64).collect();
        Ok((PyArray1::from_vec(py, starts), PyArray1::from_vec(py, lengths)))
    }
}
