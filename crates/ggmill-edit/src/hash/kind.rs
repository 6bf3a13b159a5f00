use std::fmt;
use std::str::FromStr;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh64::Xxh64;

/// `ef001206-dadc-5f6d-a15f-3359e577d4e5`, the namespace of llama.cpp's identifiers: a UUID of
/// version 5 for `en.wikipedia.org/wiki/Llama.cpp`.
const NAMESPACE: uuid::Uuid = uuid::Uuid::from_u128(0xef00_1206_dadc_5f6d_a15f_3359_e577_d4e5);

/// A hash function, by the name it has in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HashKind {
    /// XXH64 with seed 0: fast; detects accidental corruption.
    Xxh64,
    /// SHA-1.
    Sha1,
    /// SHA-256: detects deliberate tampering.
    Sha256,
    /// BLAKE3, 256 bits: detects deliberate tampering; faster than SHA-256. Not known to
    /// llama-gguf-hash.
    Blake3,
    /// A UUID of version 5 over all tensor data in the namespace of llama.cpp: an identifier of a
    /// whole model, never of a tensor.
    Uuid,
}

impl HashKind {
    /// Every kind, in the order in which a manifest has them.
    pub const ALL: [Self; 5] = [Self::Xxh64, Self::Sha1, Self::Sha256, Self::Blake3, Self::Uuid];

    /// Every kind, strongest first: the order in which a manifest is used.
    pub const STRONGEST_FIRST: [Self; 5] =
        [Self::Sha256, Self::Blake3, Self::Sha1, Self::Xxh64, Self::Uuid];

    /// The name in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xxh64 => "xxh64",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Blake3 => "blake3",
            Self::Uuid => "uuid",
        }
    }

    /// Whether single tensors have such a hash.
    pub fn is_of_tensors(self) -> bool {
        self != Self::Uuid
    }

    pub(super) fn start(self) -> State {
        match self {
            Self::Xxh64 => State::Xxh64(Xxh64::new(0)),
            Self::Sha1 => State::Sha1(Sha1::new()),
            Self::Sha256 => State::Sha256(Sha256::new()),
            Self::Blake3 => State::Blake3(Box::new(blake3::Hasher::new())),
            Self::Uuid => State::Uuid(Sha1::new().chain_update(NAMESPACE.as_bytes())),
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HashKind {
    type Err = UnknownHash;

    fn from_str(name: &str) -> Result<Self, UnknownHash> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownHash(()))
    }
}

/// Why a [`HashKind`] could not be made: no hash has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownHash(());

impl fmt::Display for UnknownHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected xxh64, sha1, sha256, blake3 or uuid")
    }
}

impl std::error::Error for UnknownHash {}

/// The result of a hash function. Shown as a manifest has it: hexadecimal in lower case, a UUID
/// with its hyphens.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Digest {
    kind: HashKind,
    bytes: Vec<u8>,
}

impl Digest {
    /// The hash function.
    pub fn kind(&self) -> HashKind {
        self.kind
    }

    /// The digest itself, its most significant byte first.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, byte) in self.bytes.iter().enumerate() {
            if self.kind == HashKind::Uuid && matches!(number, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", self.kind)
    }
}

/// A hash function at work.
#[derive(Clone)]
pub(super) enum State {
    Xxh64(Xxh64),
    Sha1(Sha1),
    Sha256(Sha256),
    Blake3(Box<blake3::Hasher>),
    Uuid(Sha1),
}

impl State {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Xxh64(state) => state.update(bytes),
            Self::Sha1(state) | Self::Uuid(state) => state.update(bytes),
            Self::Sha256(state) => state.update(bytes),
            Self::Blake3(state) => {
                state.update(bytes);
            }
        }
    }

    pub(super) fn finish(self) -> Digest {
        let (kind, bytes) = match self {
            Self::Xxh64(state) => (HashKind::Xxh64, state.digest().to_be_bytes().to_vec()),
            Self::Sha1(state) => (HashKind::Sha1, state.finalize().to_vec()),
            Self::Sha256(state) => (HashKind::Sha256, state.finalize().to_vec()),
            Self::Blake3(state) => (HashKind::Blake3, state.finalize().as_bytes().to_vec()),
            Self::Uuid(state) => {
                let mut bytes = [0; 16];
                bytes.iter_mut().zip(state.finalize()).for_each(|(byte, found)| *byte = found);
                (
                    HashKind::Uuid,
                    uuid::Builder::from_sha1_bytes(bytes).into_uuid().into_bytes().to_vec(),
                )
            }
        };
        Digest { kind, bytes }
    }
}
