//! PyTorch files: an archive, or the stream of pickles from before 1.6, each with a pickle that
//! describes tensors ([`pickle`]) and the bytes of their storages.

mod container;
mod dtype;
mod file;
mod global;
mod object;
mod pickle;
mod stream;
mod strided;
mod zip;

pub use self::file::TorchFile;
