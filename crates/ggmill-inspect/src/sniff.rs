//! The format of a file that is not GGUF.

use std::fmt;

use ggmill_core::RawStr;

/// The format of a file. Displays as a noun: `a safetensors file`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// An empty file.
    Empty,
    /// Only zeros in the inspected bytes.
    Zeros,
    /// GGUF, possibly damaged.
    Gguf,
    /// A ggml file from before GGUF.
    LegacyGgml {
        /// `GGML`, `GGMF`, `GGJT` or `GGLA`.
        magic: &'static str,
        /// The version; `GGML` has none.
        version: Option<u32>,
    },
    /// Safetensors.
    Safetensors,
    /// A PyTorch checkpoint in a zip archive.
    PytorchZip,
    /// A PyTorch checkpoint as a stream of pickles, as before PyTorch 1.6.
    PytorchLegacy,
    /// A PyTorch checkpoint in a tar archive, as before PyTorch 0.2.
    PytorchTar,
    /// A Python pickle.
    Pickle,
    /// A NumPy array.
    Numpy,
    /// Several NumPy arrays in a zip archive.
    NumpyZip,
    /// An importance matrix of llama-imatrix in the legacy format (`.dat`).
    Imatrix,
    /// ONNX.
    Onnx,
    /// TensorFlow Lite.
    Tflite,
    /// HDF5, as Keras writes it.
    Hdf5,
    /// A compressed file or an archive, with the command that unpacks it.
    Packed(&'static str),
    /// A llamafile: a program with a zip archive behind it, in which a GGUF file is stored.
    Llamafile,
    /// An executable program or library.
    Program,
    /// A document or picture, as a noun.
    Media(&'static str),
    /// A web page.
    Html,
    /// JSON.
    Json,
    /// A Jinja template, such as a chat template.
    Jinja,
    /// XML.
    Xml,
    /// A Git LFS pointer in place of a large file.
    LfsPointer {
        /// The size of the real file in bytes.
        size: Option<u64>,
    },
    /// Text, with its first line.
    Text(String),
}

/// The number of bytes at the start of a file that [`sniff`] needs.
pub const SNIFFED: usize = 4096;

/// Identifies the format of a file by its first [`SNIFFED`] bytes and, if they are ambiguous, by its
/// name. Returns `None` if it is not recognized.
///
/// ```
/// use ggmill_inspect::{FileKind, sniff};
/// let kind = sniff(b"tjgg\x03\0\0\0", Some("model.bin"));
/// assert_eq!(kind, Some(FileKind::LegacyGgml { magic: "GGJT", version: Some(3) }));
/// assert_eq!(sniff(b"\x01\x02\x03\x04", Some("model.gguf")), None);
/// ```
pub fn sniff(bytes: &[u8], name: Option<&str>) -> Option<FileKind> {
    if bytes.is_empty() {
        return Some(FileKind::Empty);
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return Some(FileKind::Zeros);
    }
    legacy_ggml(bytes)
        .or_else(|| by_magic(bytes))
        .or_else(|| safetensors(bytes))
        .or_else(|| onnx(bytes, name))
        .or_else(|| imatrix(bytes))
        .or_else(|| text(bytes, name))
}

fn legacy_ggml(bytes: &[u8]) -> Option<FileKind> {
    let (magic, versioned) = match bytes.first_chunk::<4>()? {
        b"lmgg" => ("GGML", false),
        b"fmgg" => ("GGMF", true),
        b"tjgg" => ("GGJT", true),
        b"algg" => ("GGLA", true),
        _ => return None,
    };
    let version = bytes
        .get(4..)?
        .first_chunk()
        .map(|version| u32::from_le_bytes(*version))
        .filter(|_| versioned);
    Some(FileKind::LegacyGgml { magic, version })
}

fn by_magic(bytes: &[u8]) -> Option<FileKind> {
    let kinds: [(&[u8], FileKind); 25] = [
        (b"GGUF", FileKind::Gguf),
        (b"FUGG", FileKind::Gguf),
        (b"PK\x03\x04", zip(bytes)),
        (b"PK\x05\x06", FileKind::Packed("unzip")),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", FileKind::PytorchLegacy),
        (b"\x80\x02", FileKind::Pickle),
        (b"\x80\x03", FileKind::Pickle),
        (b"\x80\x04", FileKind::Pickle),
        (b"\x80\x05", FileKind::Pickle),
        (b"\x93NUMPY", FileKind::Numpy),
        (b"\x89HDF\r\n\x1a\n", FileKind::Hdf5),
        (b"\x7fELF", FileKind::Program),
        (b"MZqFpD", FileKind::Llamafile),
        (b"MZ", FileKind::Program),
        (b"\x1f\x8b", FileKind::Packed("gunzip")),
        (b"\x28\xb5\x2f\xfd", FileKind::Packed("unzstd")),
        (b"\xfd7zXZ\0", FileKind::Packed("unxz")),
        (b"BZh", FileKind::Packed("bunzip2")),
        (b"7z\xbc\xaf\x27\x1c", FileKind::Packed("7z x")),
        (b"Rar!\x1a\x07", FileKind::Packed("unrar x")),
        (b"\x04\x22\x4d\x18", FileKind::Packed("unlz4")),
        (b"%PDF-", FileKind::Media("a PDF document")),
        (b"\x89PNG\r\n\x1a\n", FileKind::Media("a PNG picture")),
        (b"\xff\xd8\xff", FileKind::Media("a JPEG picture")),
        (b"GIF8", FileKind::Media("a GIF picture")),
    ];
    let found = kinds.into_iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, kind)| kind);
    found.or_else(|| match bytes.get(257..262) {
        Some(b"ustar") if bytes.starts_with(b"sys_info\0") => Some(FileKind::PytorchTar),
        Some(b"ustar") => Some(FileKind::Packed("tar -xf")),
        _ => (bytes.get(4..8) == Some(b"TFL3")).then_some(FileKind::Tflite),
    })
}

/// Identifies a zip archive by the name of its first entry.
fn zip(bytes: &[u8]) -> FileKind {
    let entry = || {
        let len = u16::from_le_bytes(*bytes.get(26..)?.first_chunk()?);
        bytes.get(30..)?.get(..usize::from(len))
    };
    match entry() {
        Some(name)
            if name.ends_with(b"/data.pkl")
                || name.ends_with(b"/version")
                || name.ends_with(b"/.format_version") =>
        {
            FileKind::PytorchZip
        }
        Some(name) if name.ends_with(b".npy") => FileKind::NumpyZip,
        _ => FileKind::Packed("unzip"),
    }
}

/// Recognizes safetensors: the length of a JSON header in 64 bits, then the header.
fn safetensors(bytes: &[u8]) -> Option<FileKind> {
    let (len, header) = bytes.split_first_chunk::<8>()?;
    let len = u64::from_le_bytes(*len);
    ((2..1 << 30).contains(&len) && header.starts_with(b"{\"")).then_some(FileKind::Safetensors)
}

/// Recognizes ONNX: a protocol buffer whose first field is the version of the format. It has no magic,
/// so the name of the file must agree.
fn onnx(bytes: &[u8], name: Option<&str>) -> Option<FileKind> {
    (has_extension(name, "onnx") && matches!(bytes, [0x08, 1..=32, ..])).then_some(FileKind::Onnx)
}

/// Returns `true` if a file name has this extension.
fn has_extension(name: Option<&str>, expected: &str) -> bool {
    let extension = name.and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension);
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case(expected))
}

/// Recognizes a legacy importance matrix: the number of entries, then the length and the name of the
/// first tensor. The format has no magic, so the name is checked.
fn imatrix(bytes: &[u8]) -> Option<FileKind> {
    const MAX_ENTRIES: u32 = 1 << 20;
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let name = rest.get(..usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
    let is_name =
        name.len() > 7 && name.ends_with(b".weight") && name.iter().all(u8::is_ascii_graphic);
    let is_count = (1..=MAX_ENTRIES).contains(&u32::from_le_bytes(*count));
    (is_name && is_count).then_some(FileKind::Imatrix)
}

fn text(bytes: &[u8], name: Option<&str>) -> Option<FileKind> {
    const LFS: &str = "version https://git-lfs.github.com/spec/";
    let shown = bytes.get(..4096).unwrap_or(bytes);
    let text = match std::str::from_utf8(shown) {
        Ok(text) => text,
        // The end of the inspected bytes splits a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(shown.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with(LFS) {
        let size = text.lines().find_map(|line| line.strip_prefix("size ")?.trim().parse().ok());
        return Some(FileKind::LfsPointer { size });
    }
    let begins =
        |with: &str| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    if begins("<!doctype html") || begins("<html") {
        return Some(FileKind::Html);
    }
    if begins("<?xml") {
        return Some(FileKind::Xml);
    }
    if ["{%", "{{", "{#"].iter().any(|tag| text.starts_with(tag)) && !text.contains('\0') {
        return Some(FileKind::Jinja);
    }
    if (text.starts_with('{') || text.starts_with('[')) && !text.contains('\0') {
        return Some(FileKind::Json);
    }
    // Too short for text; it can be the start of a magic number.
    if bytes.len() < 4 {
        return None;
    }
    let printable = !text.is_empty()
        && text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'));
    if printable && has_extension(name, "jinja") {
        return Some(FileKind::Jinja);
    }
    let first_line: String = text.lines().next().unwrap_or_default().chars().take(60).collect();
    printable.then_some(FileKind::Text(first_line))
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LegacyGgml { magic, version: Some(version) } => {
                return write!(f, "a {magic} file of version {version}, a legacy format");
            }
            Self::LegacyGgml { magic, version: None } => {
                return write!(f, "a {magic} file, a legacy format");
            }
            Self::LfsPointer { size: Some(size) } => {
                return write!(
                    f,
                    "a Git LFS pointer, not the file itself ({})",
                    crate::human::bytes(u128::from(*size))
                );
            }
            Self::Media(kind) => return f.write_str(kind),
            Self::Text(line) => {
                return write!(f, "a text file that begins with {:?}", RawStr::from(line.as_str()));
            }
            _ => {}
        }
        f.write_str(match self {
            Self::Empty => "an empty file",
            Self::Zeros => "a file of zeros",
            Self::Gguf => "a GGUF file",
            Self::Safetensors => "a safetensors file",
            Self::PytorchZip => "a PyTorch checkpoint",
            Self::PytorchLegacy => "a PyTorch checkpoint in the format used before 1.6",
            Self::PytorchTar => "a PyTorch checkpoint in the format used before 0.2",
            Self::Pickle => "a Python pickle",
            Self::Numpy => "a NumPy array",
            Self::NumpyZip => "an archive of NumPy arrays",
            Self::Imatrix => "an importance matrix in the legacy format",
            Self::Onnx => "an ONNX model",
            Self::Tflite => "a TensorFlow Lite model",
            Self::Hdf5 => "an HDF5 file, perhaps of Keras weights",
            Self::Packed(_) => "a compressed file or an archive",
            Self::Llamafile => "a llamafile, a program with an archive that has the model",
            Self::Program => "a program",
            Self::Html => "a web page",
            Self::Json => "a JSON file",
            Self::Jinja => "a Jinja template",
            Self::Xml => "an XML document",
            Self::LfsPointer { .. } => "a Git LFS pointer, not the file itself",
            Self::LegacyGgml { .. } | Self::Media(_) | Self::Text(_) => "",
        })
    }
}

impl FileKind {
    /// Returns a hint as a sentence without a full stop; `None` for a GGUF file.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Gguf => return None,
            Self::Empty | Self::Zeros => {
                "the download or copy failed; download the file again".to_owned()
            }
            Self::LegacyGgml { magic: "GGLA", .. } => {
                "a LoRA adapter of 2023; convert the original adapter to GGUF instead".to_owned()
            }
            Self::Safetensors => "`ggmill convert` converts the directory with this file and its \
                                  config.json to GGUF"
                .to_owned(),
            Self::PytorchZip | Self::PytorchLegacy => {
                "`ggmill convert` converts the directory with this file and its config.json to \
                 GGUF, without executing any code in it"
                    .to_owned()
            }
            Self::PytorchTar | Self::Pickle => {
                "it must be converted to GGUF; loading it in Python can execute code, so do not \
                 load files from sources that you do not trust"
                    .to_owned()
            }
            Self::LegacyGgml { .. } => {
                "`ggmill convert` converts LLaMA files to GGUF; for other models, look for a GGUF \
                 file"
                    .to_owned()
            }
            Self::Numpy | Self::NumpyZip | Self::Onnx | Self::Tflite | Self::Hdf5 => {
                "look for a GGUF file of the model, or convert its original checkpoint".to_owned()
            }
            Self::Imatrix => "`ggmill imatrix show` lists its entries".to_owned(),
            Self::Packed(tool) => format!("unpack it first: {tool}"),
            Self::Llamafile => {
                "`unzip -l FILE` lists its members, and `unzip FILE NAME.gguf` extracts \
                                the model"
                    .to_owned()
            }
            Self::Program => "this is not a model; do not trust its source".to_owned(),
            Self::Media(_) => "this is not a model; is it the intended file?".to_owned(),
            Self::Html => "this is the address of a page about the file; download the file itself \
                           (on Hugging Face: `/resolve/` in place of `/blob/`)"
                .to_owned(),
            Self::Jinja => "`ggmill template` renders and checks chat templates; other commands \
                            require a model"
                .to_owned(),
            Self::Json | Self::Xml | Self::Text(_) => "perhaps a message from a server instead of \
                                                       the file; read it, then download the file \
                                                       again"
                .to_owned(),
            Self::LfsPointer { .. } => "run `git lfs pull`".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8], name: &str) -> String {
        sniff(bytes, Some(name)).map_or_else(|| "unknown".to_owned(), |kind| kind.to_string())
    }

    #[test]
    fn formats_are_recognized_by_their_first_bytes() {
        let pointer =
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4368439584\n";
        assert_eq!(shown(pointer, "a"), "a Git LFS pointer, not the file itself (4.07 GiB)");
        assert_eq!(shown(b"", "a"), "an empty file");
        assert_eq!(shown(&[0; 64], "a"), "a file of zeros");
        assert_eq!(shown(b"\n <HTML>", "a"), "a web page");
        assert_eq!(shown(b"{\"error\":1}", "a"), "a JSON file");
        assert_eq!(shown(b"{%- if tools %}", "a"), "a Jinja template");
        assert_eq!(shown(b"{{ bos_token }}", "a"), "a Jinja template");
        assert_eq!(shown(b"<|im_start|>user", "chat_template.jinja"), "a Jinja template");
        assert_eq!(shown(b"fmgg\x65\0\0\0", "a"), "a GGMF file of version 101, a legacy format");
        assert_eq!(shown(b"lmgg\x65\0\0\0", "a"), "a GGML file, a legacy format");
        assert_eq!(
            shown(b"Entry not found", "a"),
            "a text file that begins with \"Entry not found\""
        );
        assert_eq!(shown(b"\x08\x07\x12\x07pytorch", "a.onnx"), "an ONNX model");
        assert_eq!(shown(b"\x08\x07\x12\x07pytorch", "a.gguf"), "unknown");
        assert_eq!(shown(b"abc\x1b", "a"), "unknown");
        assert_eq!(shown(b"GG", "a"), "unknown");
        let llamafile = sniff(b"MZqFpD='\n", None).unwrap();
        assert!(llamafile.to_string().starts_with("a llamafile, "));
        assert!(llamafile.hint().unwrap().contains("unzip FILE NAME.gguf"));
        assert_eq!(shown(b"MZ\x90\0", "a"), "a program");
        assert_eq!(shown(b"%PDF-1.7\n", "a"), "a PDF document");
        assert_eq!(shown(b"Rar!\x1a\x07\x01\0", "a"), "a compressed file or an archive");
    }

    #[test]
    fn text_is_escaped_when_shown() {
        assert_eq!(
            shown("a\u{202e}b".as_bytes(), "a"),
            r#"a text file that begins with "a\u{202e}b""#
        );
    }
}
