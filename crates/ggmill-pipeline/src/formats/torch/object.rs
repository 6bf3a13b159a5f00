//! The values of a pickle, including tensors and storages, and the globals that create them.

use ggmill_core::{GgmlType, RawStr, Shape};

use crate::formats::torch::pickle::Text;

/// Limit for nodes; a tensor needs about seven, and files have fewer than 100,000 tensors.
const MAX_NODES: usize = 1 << 21;
/// Limit for values in tuples, lists and dictionaries; a tensor needs about twenty.
const MAX_ELEMENTS: usize = 1 << 23;
/// Limit for flags of a tensor; PyTorch has two.
const MAX_FLAGS: usize = 16;

/// A value. Shared and mutable values are nodes, referred to by number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// The bytes of an integer of more than 64 bits.
    Long(Text),
    Float,
    Text(Text),
    EmptyTuple,
    Global(Global),
    /// A value that no tensor uses.
    Opaque,
    Node(u32),
}

#[derive(Debug)]
pub(super) enum Node {
    Tuple(Box<[Value]>),
    List(Vec<Value>),
    /// A list whose elements were moved to a dictionary that was made from it.
    MovedList,
    /// Keys and values, in insertion order.
    Dict(Vec<(Value, Value)>),
    Storage(Storage),
    Tensor(Box<Tensor>),
}

/// A storage, which several tensors can share, or a view of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// The key of its bytes in the file.
    pub(super) key: Text,
    /// Its element type; `None` for an untyped storage, whose tensors have types.
    pub(super) dtype: Option<&'static Dtype>,
    /// Its length in elements, or in bytes if untyped.
    pub(super) len: u64,
    /// Its offset in the storage in the file, in elements.
    pub(super) offset: u64,
    /// The length of the storage in the file, in elements.
    pub(super) whole: u64,
}

impl Storage {
    /// Returns the bytes per element.
    pub(super) fn unit(&self) -> u64 {
        self.dtype.map_or(1, |dtype| dtype.size)
    }
}

/// A view of a storage.
#[derive(Debug)]
pub(super) struct Tensor {
    pub(super) storage: Storage,
    pub(super) dtype: &'static Dtype,
    /// Its offset in elements.
    pub(super) offset: u64,
    /// Its dimensions, slowest first.
    pub(super) size: Vec<u64>,
    /// The stride of each dimension in elements.
    pub(super) stride: Vec<u64>,
}

/// The nodes of a pickle.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) nodes: Vec<Node>,
    /// The number of values in all collections.
    elements: usize,
}

/// The message of an error.
pub(super) type Fault = String;

impl Objects {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::new(), elements: 0 }
    }

    pub(super) fn add(&mut self, node: Node) -> Result<Value, Fault> {
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("more than {MAX_NODES} objects, which is the limit"));
        }
        if let Node::Tuple(elements) = &node {
            self.count_elements(elements.len())?;
        }
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(node);
        Ok(Value::Node(number))
    }

    /// Counts values before they are added to a collection, because a one-byte opcode can add a
    /// value that needs many bytes of memory.
    fn count_elements(&mut self, more: usize) -> Result<(), Fault> {
        self.elements = self.elements.saturating_add(more);
        if self.elements > MAX_ELEMENTS {
            return Err(format!(
                "more than {MAX_ELEMENTS} values in tuples, lists and dictionaries, which is the \
                 limit"
            ));
        }
        Ok(())
    }

    pub(super) fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(number) => self.nodes.get(number as usize),
            _ => None,
        }
    }

    fn node_mut(&mut self, value: Value) -> Option<&mut Node> {
        match value {
            Value::Node(number) => self.nodes.get_mut(number as usize),
            _ => None,
        }
    }

    /// Returns the elements of a tuple; `None` for other values.
    pub(super) fn tuple(&self, value: Value) -> Option<&[Value]> {
        match self.node(value) {
            Some(Node::Tuple(elements)) => Some(elements),
            _ if matches!(value, Value::EmptyTuple) => Some(&[]),
            _ => None,
        }
    }

    /// Returns the elements of a tuple or list; `None` for other values.
    fn sequence(&self, value: Value) -> Option<&[Value]> {
        match self.node(value) {
            Some(Node::List(elements)) => Some(elements),
            _ => self.tuple(value),
        }
    }

    /// Returns the entries of a dictionary; `None` for other values.
    pub(super) fn dict(&self, value: Value) -> Option<&[(Value, Value)]> {
        match self.node(value) {
            Some(Node::Dict(entries)) => Some(entries),
            _ => None,
        }
    }

    /// Describes a value for error messages.
    pub(super) fn describe(&self, value: Value) -> String {
        match value {
            Value::None => "None".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Long(_) => "an integer of more than 64 bits".to_owned(),
            Value::Float => "a number".to_owned(),
            Value::Text(_) => "a string".to_owned(),
            Value::EmptyTuple => "a tuple of 0".to_owned(),
            Value::Global(_) => "a class or function".to_owned(),
            Value::Opaque => "an object".to_owned(),
            Value::Node(_) => match self.node(value) {
                Some(Node::Tuple(elements)) => format!("a tuple of {}", elements.len()),
                Some(Node::List(elements)) => format!("a list of {}", elements.len()),
                Some(Node::MovedList) => "a list that another dictionary was made from".to_owned(),
                Some(Node::Dict(entries)) => format!("a dictionary of {}", entries.len()),
                Some(Node::Storage(_)) => "a storage".to_owned(),
                Some(Node::Tensor(_)) => "a tensor".to_owned(),
                None => "nothing".to_owned(),
            },
        }
    }

    /// Takes the elements of a list, which cannot be used again; `None` for other values.
    fn move_list(&mut self, value: Value) -> Option<Vec<Value>> {
        let node = self.node_mut(value)?;
        let Node::List(elements) = node else { return None };
        let elements = std::mem::take(elements);
        *node = Node::MovedList;
        Some(elements)
    }

    /// Computes the result of a known function.
    pub(super) fn call(&mut self, function: Value, arguments: Value) -> Result<Value, Fault> {
        let Value::Global(global) = function else {
            return Err(format!("a call of {}, expected a function", self.describe(function)));
        };
        let Some(values) = self.tuple(arguments) else {
            return Err(format!("{} as arguments, expected a tuple", self.describe(arguments)));
        };
        match (global, values) {
            (Global::Opaque, _) => Ok(Value::Opaque),
            (Global::OrderedDict, []) => self.add(Node::Dict(Vec::new())),
            // Written by Python 2.
            (Global::OrderedDict, &[pairs]) => {
                // Moved rather than copied: copying a list that is used a thousand times would need
                // far more memory than the file has bytes. Python uses each list once; another use is
                // an error.
                let Some(pairs) = self.move_list(pairs) else {
                    let found = self.describe(pairs);
                    return Err(format!("a dictionary of {found}, expected a list"));
                };
                let pair = |&pair: &Value| match self.sequence(pair) {
                    Some(&[key, value]) => Ok((key, value)),
                    _ => Err(format!("{} as an entry, expected two values", self.describe(pair))),
                };
                let entries = pairs.iter().map(pair).collect::<Result<_, _>>()?;
                self.add(Node::Dict(entries))
            }
            (Global::Size, &[dimensions]) => Ok(dimensions),
            (Global::Rebuild(rebuild), _) => self.rebuild(rebuild, arguments),
            _ => Err(format!("{global:?} called with {} arguments", values.len())),
        }
    }

    fn rebuild(&mut self, mut rebuild: Rebuild, mut arguments: Value) -> Result<Value, Fault> {
        loop {
            let values = self.tuple(arguments).unwrap_or_default();
            match (rebuild, values) {
                // Each tuple is older than the one that contains it, so this terminates.
                (
                    Rebuild::FromType,
                    &[
                        Value::Global(Global::Rebuild(nested)),
                        Value::Global(Global::Tensor),
                        inner,
                        _,
                    ],
                ) => {
                    // A nested one would be walked again for every tensor.
                    if matches!(nested, Rebuild::FromType) {
                        return Err("a tensor with a conflicting type".to_owned());
                    }
                    (rebuild, arguments) = (nested, inner);
                    if self.tuple(arguments).is_none() {
                        let found = self.describe(arguments);
                        return Err(format!("{found} as arguments, expected a tuple"));
                    }
                }
                (Rebuild::Parameter, &[tensor, ..]) => {
                    return match self.node(tensor) {
                        Some(Node::Tensor(_)) => Ok(tensor),
                        _ => Err(format!("a parameter of {}", self.describe(tensor))),
                    };
                }
                (Rebuild::V1, &[storage, offset, size, stride]) => {
                    return self.tensor([storage, offset, size, stride], None);
                }
                (Rebuild::V2, &[storage, offset, size, stride, _, _, ref rest @ ..])
                    if rest.len() <= 1 =>
                {
                    self.refuse_flags(rest)?;
                    return self.tensor([storage, offset, size, stride], None);
                }
                (
                    Rebuild::V3,
                    &[
                        storage,
                        offset,
                        size,
                        stride,
                        _,
                        _,
                        Value::Global(Global::Dtype(dtype)),
                        ref rest @ ..,
                    ],
                ) if rest.len() <= 1 => {
                    self.refuse_flags(rest)?;
                    return self.tensor([storage, offset, size, stride], Some(dtype));
                }
                _ => {
                    return Err(format!(
                        "a tensor with {} arguments, which do not match the function",
                        values.len()
                    ));
                }
            }
        }
    }

    /// Fails for a tensor that is a lazily negated or conjugated view.
    fn refuse_flags(&self, rest: &[Value]) -> Result<(), Fault> {
        let entries = rest.iter().filter_map(|&value| self.dict(value)).flatten();
        // Bounded, because a dictionary shared by all tensors is walked for each of them.
        if entries.clone().nth(MAX_FLAGS).is_some() {
            return Err(format!("a tensor with more than {MAX_FLAGS} flags"));
        }
        match entries.into_iter().find(|(_, value)| !matches!(value, Value::Bool(false))) {
            Some(_) => Err("a tensor that is a negation or a conjugate of its storage".to_owned()),
            None => Ok(()),
        }
    }

    fn tensor(
        &mut self,
        [storage, offset, size, stride]: [Value; 4],
        dtype: Option<&'static Dtype>,
    ) -> Result<Value, Fault> {
        let Some(&Node::Storage(storage)) = self.node(storage) else {
            return Err(format!("a tensor of {}, expected a storage", self.describe(storage)));
        };
        let dtype = dtype.or(storage.dtype).ok_or("a tensor whose elements have no type")?;
        let offset = self.count(offset, "a tensor's offset")?;
        let counts = |this: &Self, value: Value, what: &str| {
            let found = this.sequence(value).ok_or_else(|| {
                format!("{} as {what}, expected a tuple of integers", this.describe(value))
            })?;
            if found.len() > Shape::MAX_DIMENSIONS {
                let (found, limit) = (found.len(), Shape::MAX_DIMENSIONS);
                return Err(format!("a tensor of {found} dimensions, expected at most {limit}"));
            }
            found.iter().map(|&value| this.count(value, what)).collect::<Result<Vec<_>, _>>()
        };
        let size = counts(self, size, "a tensor's size")?;
        let stride = counts(self, stride, "a tensor's stride")?;
        if size.len() != stride.len() {
            return Err(format!(
                "a tensor of {} dimensions and {} strides",
                size.len(),
                stride.len()
            ));
        }
        let tensor = Tensor { storage, dtype, offset, size, stride };
        let bytes = storage.len.saturating_mul(storage.unit());
        match tensor.reach().and_then(|reach| reach.checked_mul(dtype.size)) {
            Some(reach) if reach <= bytes => self.add(Node::Tensor(Box::new(tensor))),
            reach => {
                let reach = reach.map_or("2^64 or more".to_owned(), |reach| reach.to_string());
                Err(format!(
                    "a tensor of size {:?}, stride {:?} and offset {offset} that takes {reach} \
                     bytes of a storage of {bytes}",
                    tensor.size, tensor.stride
                ))
            }
        }
    }

    /// Returns a nonnegative integer; `what` names it in the error.
    fn count(&self, value: Value, what: &str) -> Result<u64, Fault> {
        match value {
            Value::Int(number) if number >= 0 => Ok(number.unsigned_abs()),
            _ => Err(format!("{} as {what}, expected a nonnegative integer", self.describe(value))),
        }
    }

    /// Resolves a persistent ID, which must be a storage.
    pub(super) fn persistent(&mut self, id: Value, bytes: &[u8]) -> Result<Value, Fault> {
        let (class, key, len, view) = match self.tuple(id) {
            Some(&[Value::Text(kind), class, key, _, len, ref view @ ..])
                if kind.resolve(bytes) == b"storage" && view.len() <= 1 =>
            {
                (class, key, len, view.first().copied())
            }
            _ => {
                return Err(format!(
                    "{} as a persistent ID, expected a storage",
                    self.describe(id)
                ));
            }
        };
        let Value::Global(Global::Storage(dtype)) = class else {
            return Err(format!("{} as a class of storages", self.describe(class)));
        };
        let Value::Text(key) = key else {
            return Err(format!(
                "{} as the key of a storage, expected a string",
                self.describe(key)
            ));
        };
        let whole = self.count(len, "the length of a storage")?;
        let mut storage = Storage { key, dtype, len: whole, offset: 0, whole };
        if let Some(view) = view.filter(|view| !matches!(view, Value::None)) {
            let Some(&[_, offset, len]) = self.tuple(view) else {
                return Err(format!("{} as a view of a storage", self.describe(view)));
            };
            storage.offset = self.count(offset, "the offset of a view")?;
            storage.len = self.count(len, "the length of a view")?;
            if storage.offset.checked_add(storage.len).is_none_or(|end| end > whole) {
                return Err(format!(
                    "elements {} to {} of a storage of {whole}",
                    storage.offset,
                    storage.offset.saturating_add(storage.len)
                ));
            }
        }
        self.add(Node::Storage(storage))
    }

    /// Sets attributes of an object. They are ignored, because no tensor uses them.
    pub(super) fn build(&self, object: Value) -> Result<(), Fault> {
        match self.node(object) {
            Some(Node::Dict(_)) => Ok(()),
            _ if matches!(object, Value::Opaque) => Ok(()),
            _ => Err(format!("attributes for {}, expected a dictionary", self.describe(object))),
        }
    }

    /// Appends elements to a list.
    pub(super) fn append(&mut self, list: Value, elements: &[Value]) -> Result<(), Fault> {
        self.count_elements(elements.len())?;
        match self.node_mut(list) {
            Some(Node::List(own)) => own.extend_from_slice(elements),
            _ if matches!(list, Value::Opaque) => {}
            _ => return Err(format!("elements for {}, expected a list", self.describe(list))),
        }
        Ok(())
    }

    /// Adds alternating keys and values to a dictionary.
    pub(super) fn set(&mut self, dict: Value, items: &[Value]) -> Result<(), Fault> {
        self.count_elements(items.len())?;
        let (pairs, rest) = items.as_chunks::<2>();
        match self.node_mut(dict) {
            Some(Node::Dict(entries)) if rest.is_empty() => {
                entries.extend(pairs.iter().map(|&[key, value]| (key, value)));
            }
            Some(Node::Dict(_)) => return Err("a key without a value".to_owned()),
            _ if matches!(dict, Value::Opaque) => {}
            _ => return Err(format!("entries for {}, expected a dictionary", self.describe(dict))),
        }
        Ok(())
    }
}

impl Tensor {
    /// Returns the number of storage elements up to the last element of the tensor, 0 for a tensor
    /// without elements; `None` on overflow.
    fn reach(&self) -> Option<u64> {
        if self.size.contains(&0) {
            return Some(0);
        }
        let mut reach = self.offset.checked_add(1)?;
        for (&size, &stride) in self.size.iter().zip(&self.stride) {
            reach = reach.checked_add(stride.checked_mul(size - 1)?)?;
        }
        Some(reach)
    }
}

/// Returns the qualified name of a global, escaped for display.
pub(super) fn member(module: &[u8], name: &[u8]) -> String {
    format!("{}.{}", RawStr::new(module), RawStr::new(name))
}

/// An element type of PyTorch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    /// The name of its storage class in the module `torch`, if it has one.
    class: Option<&'static str>,
    /// Its name in the module `torch`.
    name: &'static str,
    /// The GGML type, or the integer type of the same size.
    pub(super) ggml_type: GgmlType,
    /// The safetensors name of a type that GGML does not have.
    pub(super) stored_type: Option<&'static str>,
    /// Bytes per element.
    pub(super) size: u64,
    /// Size of the units that depend on the byte order: half an element for a complex type.
    pub(super) unit: usize,
}

const fn native(class: &'static str, name: &'static str, ggml_type: GgmlType, size: u8) -> Dtype {
    Dtype {
        class: Some(class),
        name,
        ggml_type,
        stored_type: None,
        size: size as u64,
        unit: size as usize,
    }
}

const fn foreign(
    class: Option<&'static str>,
    name: &'static str,
    stored_type: &'static str,
    size: u8,
) -> Dtype {
    let ggml_type = match size {
        1 => GgmlType::I8,
        2 => GgmlType::I16,
        4 => GgmlType::I32,
        _ => GgmlType::I64,
    };
    Dtype {
        class,
        name,
        ggml_type,
        stored_type: Some(stored_type),
        size: size as u64,
        unit: size as usize,
    }
}

static DTYPES: [Dtype; 19] = [
    native("DoubleStorage", "float64", GgmlType::F64, 8),
    native("FloatStorage", "float32", GgmlType::F32, 4),
    native("HalfStorage", "float16", GgmlType::F16, 2),
    native("BFloat16Storage", "bfloat16", GgmlType::BF16, 2),
    native("LongStorage", "int64", GgmlType::I64, 8),
    native("IntStorage", "int32", GgmlType::I32, 4),
    native("ShortStorage", "int16", GgmlType::I16, 2),
    native("CharStorage", "int8", GgmlType::I8, 1),
    foreign(Some("ByteStorage"), "uint8", "U8", 1),
    foreign(Some("BoolStorage"), "bool", "BOOL", 1),
    Dtype { unit: 4, ..foreign(Some("ComplexFloatStorage"), "complex64", "C64", 8) },
    foreign(None, "uint16", "U16", 2),
    foreign(None, "uint32", "U32", 4),
    foreign(None, "uint64", "U64", 8),
    foreign(None, "float8_e4m3fn", "F8_E4M3", 1),
    foreign(None, "float8_e5m2", "F8_E5M2", 1),
    foreign(None, "float8_e4m3fnuz", "F8_E4M3FNUZ", 1),
    foreign(None, "float8_e5m2fnuz", "F8_E5M2FNUZ", 1),
    foreign(None, "float8_e8m0fnu", "F8_E8M0", 1),
];

impl Dtype {
    /// Returns the type of a storage class.
    fn of_class(class: &str) -> Option<&'static Self> {
        DTYPES.iter().find(|dtype| dtype.class == Some(class))
    }

    /// Returns the type with this name in the module `torch`.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        DTYPES.iter().find(|dtype| dtype.name == name)
    }
}

/// A known global. None of them is executed: each selects how its arguments are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// A dictionary.
    OrderedDict,
    /// A tuple of dimensions.
    Size,
    /// A function that creates a tensor from a storage or another tensor.
    Rebuild(Rebuild),
    /// The class of a tensor.
    Tensor,
    /// A storage class with its element type; `None` for an untyped storage.
    Storage(Option<&'static Dtype>),
    Dtype(&'static Dtype),
    /// A value that no tensor uses, such as a device. Its arguments are ignored.
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rebuild {
    /// `(storage, offset, size, stride)`.
    V1,
    /// `(storage, offset, size, stride, requires_grad, hooks[, metadata])`.
    V2,
    /// `(storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])`.
    V3,
    /// `(tensor, …)`.
    Parameter,
    /// `(function, class, arguments, state)`.
    FromType,
}

impl Global {
    /// Looks up a global; `None` for every name that state dictionaries do not need.
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
