//! The names that a pickle may take from Python: those that state dictionaries need.

use super::dtype::Dtype;

/// What a name stands for. None of it is ever run: each is a way to read what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// A dictionary.
    OrderedDict,
    /// A tuple of dimensions.
    Size,
    /// A function that makes a tensor of a storage or of another tensor.
    Rebuild(Rebuild),
    /// The class of a tensor.
    Tensor,
    /// A storage, whose elements have this type unless that is said elsewhere.
    Storage(Option<&'static Dtype>),
    Dtype(&'static Dtype),
    /// Something of which no tensor is made, such as a device. What it is called with is forgotten.
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rebuild {
    /// `(storage, offset, size, stride)`.
    V1,
    /// The same, `requires_grad`, hooks, then perhaps metadata.
    V2,
    /// The same, `requires_grad`, hooks, type, then perhaps metadata.
    V3,
    /// A tensor first.
    Parameter,
    /// `(function, class, arguments, state)`.
    FromType,
}

impl Global {
    /// What the name of a module stands for; `None` for everything that is not needed.
    pub(super) fn named(module: &[u8], name: &[u8]) -> Option<Self> {
        let module = std::str::from_utf8(module).ok()?;
        let name = std::str::from_utf8(name).ok()?;
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch", "Size") => Self::Size,
            ("torch._utils", "_rebuild_tensor") => Self::Rebuild(Rebuild::V1),
            ("torch._utils", "_rebuild_tensor_v2") => Self::Rebuild(Rebuild::V2),
            ("torch._utils", "_rebuild_tensor_v3") => Self::Rebuild(Rebuild::V3),
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                Self::Rebuild(Rebuild::Parameter)
            }
            ("torch._tensor" | "torch.tensor", "_rebuild_from_type_v2") => {
                Self::Rebuild(Rebuild::FromType)
            }
            ("torch", "Tensor") | ("torch.nn.parameter", "Parameter") => Self::Tensor,
            ("torch.storage" | "torch", "UntypedStorage") => Self::Storage(None),
            ("torch" | "torch.cuda", class) if class.ends_with("Storage") => {
                Self::Storage(Some(Dtype::of_class(class)?))
            }
            ("torch", "device")
            | ("torch.serialization", "_get_layout")
            | ("_codecs", "encode")
            | ("builtins" | "__builtin__", "set" | "bytearray" | "complex") => Self::Opaque,
            ("torch", name) => Self::Dtype(Dtype::named(name)?),
            _ => return None,
        })
    }
}
