//! The binary form in which descriptions are compiled in. The build script writes the fields of
//! [`schema`](crate::data::schema) in order, without names. Texts are indices into one list that all
//! descriptions share. Decoding needs no TOML parser, which would be most of the size of a WebAssembly
//! module with descriptions.
//!
//! Decoding is infallible, because the same code encoded the data in the build script. Beyond the end
//! of the data it reads zeros.

use std::collections::BTreeMap;

/// If true, the sections of descriptions about checkpoints are compiled in, and are checked in
/// descriptions that are read.
pub(crate) const CHECKPOINTS: bool = cfg!(feature = "checkpoints");
/// If false, descriptions have no computation graphs.
pub(crate) const GRAPHS: bool = cfg!(feature = "graphs");

/// A type with a binary form.
pub(crate) trait Coded: Sized {
    fn decode(input: &mut Input<'_>) -> Self;

    #[allow(dead_code, reason = "the build script writes")]
    fn encode(&self, out: &mut Output<'_>);
}

/// A reader of encoded bytes.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    texts: &'a [&'a str],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8], texts: &'a [&'a str]) -> Self {
        Self { bytes, texts }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    /// Reads a LEB128 integer: seven bits per byte, the lowest first.
    fn number(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn count(&mut self) -> usize {
        usize::try_from(self.number()).unwrap_or(0)
    }

    fn text(&mut self) -> &'a str {
        let number = self.count();
        self.texts.get(number).copied().unwrap_or_default()
    }
}

/// A writer of encoded bytes.
#[allow(dead_code, reason = "the build script writes")]
pub(crate) struct Output<'a> {
    pub(crate) bytes: Vec<u8>,
    texts: &'a mut Texts,
}

/// All texts of all descriptions with their indices, which are valid after [`number`](Self::number).
#[derive(Default)]
#[allow(dead_code, reason = "the build script writes")]
pub(crate) struct Texts(BTreeMap<String, u64>);

#[allow(dead_code, reason = "the build script writes")]
impl Texts {
    /// The terminator of a text in the list, which no text contains.
    pub(crate) const END: char = '\0';

    /// Numbers the texts in alphabetical order, so that similar texts are adjacent, which compresses
    /// best.
    pub(crate) fn number(&mut self) {
        for (place, number) in (0..).zip(self.0.values_mut()) {
            *number = place;
        }
    }

    /// Returns all texts in order, each with its terminator.
    pub(crate) fn list(&self) -> String {
        self.0.keys().flat_map(|text| [text, "\0"]).collect()
    }
}

#[allow(dead_code, reason = "the build script writes")]
impl<'a> Output<'a> {
    pub(crate) fn new(texts: &'a mut Texts) -> Self {
        Self { bytes: Vec::new(), texts }
    }

    fn number(&mut self, number: u64) {
        let mut left = number;
        loop {
            let [low, ..] = (left & 0x7f).to_le_bytes();
            left >>= 7;
            if left == 0 {
                return self.bytes.push(low);
            }
            self.bytes.push(low | 0x80);
        }
    }

    fn text(&mut self, text: &str) {
        assert!(!text.contains(Texts::END), "{text:?}");
        let number = *self.texts.0.entry(text.to_owned()).or_default();
        self.number(number);
    }
}

/// Encodes the fields in order, followed by the fields about checkpoints.
macro_rules! coded {
    ($name:ty { $($field:ident),* $(,)? } $(of checkpoints { $($of:ident),* $(,)? })?) => {
        impl $crate::data::coded::Coded for $name {
            fn decode(input: &mut $crate::data::coded::Input<'_>) -> Self {
                Self {
                    $($field: $crate::data::coded::Coded::decode(input),)*
                    $($($of: $crate::data::coded::decode_of_checkpoints(input),)*)?
                }
            }

            fn encode(&self, out: &mut $crate::data::coded::Output<'_>) {
                $($crate::data::coded::Coded::encode(&self.$field, out);)*
                $(if $crate::data::coded::CHECKPOINTS {
                    $($crate::data::coded::Coded::encode(&self.$of, out);)*
                })?
            }
        }
    };
}

/// Encodes variants by number. An unknown number decodes to the first variant.
macro_rules! coded_enum {
    ($name:ty {
        $first:ident $(($first_value:ident))?
        $(, $number:literal => $variant:ident $(($value:ident))?)* $(,)?
    }) => {
        impl $crate::data::coded::Coded for $name {
            fn decode(input: &mut $crate::data::coded::Input<'_>) -> Self {
                match input.byte() {
                    $($number => {
                        $(let $value = $crate::data::coded::Coded::decode(input);)?
                        Self::$variant $(($value))?
                    })*
                    _ => {
                        $(let $first_value = $crate::data::coded::Coded::decode(input);)?
                        Self::$first $(($first_value))?
                    }
                }
            }

            fn encode(&self, out: &mut $crate::data::coded::Output<'_>) {
                match self {
                    Self::$first $(($first_value))? => {
                        out.bytes.push(0);
                        $($crate::data::coded::Coded::encode($first_value, out);)?
                    }
                    $(Self::$variant $(($value))? => {
                        out.bytes.push($number);
                        $($crate::data::coded::Coded::encode($value, out);)?
                    })*
                }
            }
        }
    };
}

pub(crate) use {coded, coded_enum};

/// Decodes a field about checkpoints, or returns its default in a build without them.
pub(crate) fn decode_of_checkpoints<T: Coded + Default>(input: &mut Input<'_>) -> T {
    if CHECKPOINTS { T::decode(input) } else { T::default() }
}

impl Coded for bool {
    fn decode(input: &mut Input<'_>) -> Self {
        input.byte() != 0
    }

    fn encode(&self, out: &mut Output<'_>) {
        out.bytes.push(u8::from(*self));
    }
}

impl Coded for u64 {
    fn decode(input: &mut Input<'_>) -> Self {
        input.number()
    }

    fn encode(&self, out: &mut Output<'_>) {
        out.number(*self);
    }
}

impl Coded for u32 {
    fn decode(input: &mut Input<'_>) -> Self {
        Self::try_from(input.number()).unwrap_or(0)
    }

    fn encode(&self, out: &mut Output<'_>) {
        out.number(u64::from(*self));
    }
}

impl Coded for i64 {
    fn decode(input: &mut Input<'_>) -> Self {
        input.number().cast_signed()
    }

    fn encode(&self, out: &mut Output<'_>) {
        out.number(self.cast_unsigned());
    }
}

impl Coded for f64 {
    fn decode(input: &mut Input<'_>) -> Self {
        Self::from_bits(input.number())
    }

    fn encode(&self, out: &mut Output<'_>) {
        out.number(self.to_bits());
    }
}

impl Coded for f32 {
    fn decode(input: &mut Input<'_>) -> Self {
        Self::from_bits(u32::decode(input))
    }

    fn encode(&self, out: &mut Output<'_>) {
        self.to_bits().encode(out);
    }
}

impl Coded for String {
    fn decode(input: &mut Input<'_>) -> Self {
        input.text().to_owned()
    }

    fn encode(&self, out: &mut Output<'_>) {
        out.text(self);
    }
}

impl<T: Coded> Coded for Option<T> {
    fn decode(input: &mut Input<'_>) -> Self {
        bool::decode(input).then(|| T::decode(input))
    }

    fn encode(&self, out: &mut Output<'_>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn decode(input: &mut Input<'_>) -> Self {
        (0..input.count()).map(|_| T::decode(input)).collect()
    }

    fn encode(&self, out: &mut Output<'_>) {
        out.number(self.len() as u64);
        for element in self {
            element.encode(out);
        }
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn decode(input: &mut Input<'_>) -> Self {
        (A::decode(input), B::decode(input))
    }

    fn encode(&self, out: &mut Output<'_>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl<T: Coded> Coded for BTreeMap<String, T> {
    fn decode(input: &mut Input<'_>) -> Self {
        (0..input.count()).map(|_| Coded::decode(input)).collect()
    }

    fn encode(&self, out: &mut Output<'_>) {
        out.number(self.len() as u64);
        for (name, value) in self {
            name.encode(out);
            value.encode(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_coded_and_decoded_without_a_change() {
        fn same<T: Coded + PartialEq + std::fmt::Debug>(number: &T) {
            let mut texts = Texts::default();
            let mut out = Output::new(&mut texts);
            number.encode(&mut out);
            let bytes = std::mem::take(&mut out.bytes);
            let mut input = Input::new(&bytes, &[]);
            assert_eq!(T::decode(&mut input), *number);
            assert!(input.is_empty(), "{number:?}");
        }

        for number in [0, 1, 127, 128, u64::MAX / 2, u64::MAX] {
            same(&number);
            same(&number.cast_signed());
            same(&f64::from_bits(number & (f64::MAX.to_bits() | 1 << 63)));
        }
        same(&-0.0);
        same(&f32::MIN);
    }
}
