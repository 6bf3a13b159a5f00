//! SentencePiece's `tokenizer.model`: the parts of its protobuf message that a GGUF file contains.
//!
//! The message is `ModelProto` of `sentencepiece_model.proto`. The memory of the reader is
//! proportional to the file. It reads only the two levels of nesting that it knows, and ignores
//! unknown fields.

/// A piece of the vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) score: f32,
    pub(crate) kind: PieceKind,
}

/// The type of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// The algorithm of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Unigram,
    Bpe,
    Word,
    Char,
}

/// The parts of the message that are used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelProto {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) algorithm: Algorithm,
    pub(crate) charsmap: Vec<u8>,
    pub(crate) add_dummy_prefix: bool,
    pub(crate) remove_extra_whitespaces: bool,
}

/// Why a message cannot be read.
pub(crate) type Fault = String;

impl ModelProto {
    /// Parses the message. Fails, like SentencePiece, if it is truncated or malformed, if a piece
    /// is empty, not UTF-8 or a duplicate, or unless exactly one piece is the unknown one.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut this = Self {
            pieces: Vec::new(),
            algorithm: Algorithm::Unigram,
            charsmap: Vec::new(),
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
        };
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Field::Bytes(piece)) => {
                    let number = this.pieces.len();
                    this.pieces.push(
                        Piece::parse(piece).map_err(|fault| format!("piece {number}: {fault}"))?,
                    );
                }
                (2, Field::Bytes(trainer)) => this.read_trainer(trainer)?,
                (3, Field::Bytes(normalizer)) => this.read_normalizer(normalizer)?,
                _ => {}
            }
        }
        this.check()?;
        Ok(this)
    }

    fn read_trainer(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut fields = Fields::new(bytes);
        while let Some(field) = fields.next()? {
            if let (3, Field::Number(number)) = field {
                self.algorithm = match number {
                    1 => Algorithm::Unigram,
                    2 => Algorithm::Bpe,
                    3 => Algorithm::Word,
                    4 => Algorithm::Char,
                    _ => return Err(format!("model type {number}, expected 1 to 4")),
                };
            }
        }
        Ok(())
    }

    fn read_normalizer(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut fields = Fields::new(bytes);
        while let Some(field) = fields.next()? {
            match field {
                (2, Field::Bytes(charsmap)) => self.charsmap = charsmap.to_vec(),
                (3, Field::Number(number)) => self.add_dummy_prefix = number != 0,
                (4, Field::Number(number)) => self.remove_extra_whitespaces = number != 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Fault> {
        if self.pieces.is_empty() {
            return Err("no pieces: not a SentencePiece model".into());
        }
        let mut texts: Vec<(&str, usize)> =
            self.pieces.iter().enumerate().map(|(number, piece)| (&*piece.text, number)).collect();
        texts.sort_unstable();
        for pair in texts.windows(2) {
            if let [(first, one), (second, other)] = pair
                && first == second
            {
                return Err(format!("pieces {one} and {other} are the same"));
            }
        }
        if let Some(empty) = self.pieces.iter().position(|piece| piece.text.is_empty()) {
            return Err(format!("piece {empty} is empty"));
        }
        let unknown = self.pieces.iter().filter(|piece| piece.kind == PieceKind::Unknown).count();
        if unknown == 1 { Ok(()) } else { Err(format!("{unknown} unknown pieces, expected one")) }
    }
}

impl Piece {
    fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut this = Self { text: String::new(), score: 0.0, kind: PieceKind::Normal };
        let mut fields = Fields::new(bytes);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Bytes(text)) => {
                    let text = core::str::from_utf8(text).map_err(|_| "is not valid UTF-8")?;
                    text.clone_into(&mut this.text);
                }
                (2, Field::Four(bytes)) => this.score = f32::from_le_bytes(bytes),
                (3, Field::Number(number)) => {
                    this.kind = match number {
                        1 => PieceKind::Normal,
                        2 => PieceKind::Unknown,
                        3 => PieceKind::Control,
                        4 => PieceKind::UserDefined,
                        5 => PieceKind::Unused,
                        6 => PieceKind::Byte,
                        _ => return Err(format!("type {number}, expected 1 to 6")),
                    }
                }
                _ => {}
            }
        }
        Ok(this)
    }
}

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Number(u64),
    Four([u8; 4]),
    Eight,
    Bytes(&'a [u8]),
}

/// Iterates over the fields of a message.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next field with its number; `None` at the end.
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => {
                self.take(8)?;
                Field::Eight
            }
            2 => {
                let len = self.varint()?;
                Field::Bytes(self.take(len)?)
            }
            5 => {
                let four = self.take(4)?;
                Field::Four(four.try_into().map_err(|_| "ends within a number")?)
            }
            other => return Err(format!("field {} has wire type {other}", tag >> 3)),
        };
        match tag >> 3 {
            0 => Err("a field with number 0".into()),
            number => Ok(Some((number, value))),
        }
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Fault> {
        let split = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (taken, rest) = split.ok_or_else(|| {
            format!("ends early: a field has {len} bytes, but only {} remain", self.rest.len())
        })?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        // Ten bytes of seven bits hold every number.
        for shift in (0..70).step_by(7) {
            let Some((&byte, rest)) = self.rest.split_first() else { break };
            self.rest = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has no end".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn piece(text: &[u8], score: f32, kind: u8) -> Vec<u8> {
        field(
            1,
            &[field(1, text), vec![0x15], score.to_le_bytes().to_vec(), vec![0x18, kind]].concat(),
        )
    }

    #[test]
    fn a_model_is_parsed() {
        let bytes = [
            piece(b"<unk>", 0.0, 2),
            piece(b"<0x0A>", -1.5, 6),
            field(1, &field(1, "\u{2581}a".as_bytes())),
            // The trainer with an unknown eight-byte field, then the normalizer.
            field(2, &[0x18, 2, 0x79, 0, 0, 0, 0, 0, 0, 0, 0]),
            field(3, &[0x18, 0]),
        ]
        .concat();
        let model = ModelProto::parse(&bytes).unwrap();
        let found: Vec<_> =
            model.pieces.iter().map(|piece| (&*piece.text, piece.score, piece.kind)).collect();
        assert_eq!(
            found,
            [
                ("<unk>", 0.0, PieceKind::Unknown),
                ("<0x0A>", -1.5, PieceKind::Byte),
                ("\u{2581}a", 0.0, PieceKind::Normal)
            ]
        );
        assert_eq!(model.algorithm, Algorithm::Bpe);
        assert!(!model.add_dummy_prefix && model.remove_extra_whitespaces);
        // Truncated anywhere, it is an error or a shorter model, never a panic.
        for end in 0..bytes.len() {
            let _ = ModelProto::parse(&bytes[..end]);
        }
    }

    #[test]
    fn broken_models_are_refused() {
        let unknown = piece(b"<unk>", 0.0, 2);
        for (bytes, words) in [
            (vec![], "no pieces"),
            (b"{}".to_vec(), "field 15 has wire type 3"),
            (vec![0x0a, 0x7f, 0], "ends early: a field has 127 bytes, but only 1 remain"),
            (vec![0xff; 12], "a number has no end"),
            ([unknown.clone(), piece(b"", 0.0, 1)].concat(), "piece 1 is empty"),
            ([unknown.clone(), piece(b"a", 0.0, 9)].concat(), "piece 1: type 9"),
            ([unknown.clone(), piece(b"\xff", 0.0, 1)].concat(), "piece 1: is not valid UTF-8"),
            (
                [unknown.clone(), piece(b"a", 0.0, 1), piece(b"a", 1.0, 1)].concat(),
                "pieces 1 and 2 are the same",
            ),
            ([unknown.clone(), piece(b"b", 0.0, 2)].concat(), "2 unknown pieces, expected one"),
        ] {
            let fault = ModelProto::parse(&bytes).unwrap_err();
            assert!(fault.contains(words), "{fault}, expected {words}");
        }
    }
}
