//! The objects in a pickle: values, including tensors and storages.

use ggmill_core::{RawStr, Shape};

use super::dtype::Dtype;
use super::global::{Global, Rebuild};
use super::stream::Text;

/// Objects of a pickle: a tensor takes about seven, and no file has a hundred thousand tensors.
const MAX_NODES: usize = 1 << 21;
/// Values in tuples, lists and dictionaries: of a tensor they are about twenty.
const MAX_ELEMENTS: usize = 1 << 23;
/// Flags of a tensor: there are two.
const MAX_FLAGS: usize = 16;

/// A value. What is shared or changes later is a node, which is referred to by its number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than 64 bits, as its bytes.
    Long(Text),
    Float,
    Text(Text),
    EmptyTuple,
    Global(Global),
    /// Something of which no tensor is made.
    Opaque,
    Node(u32),
}

#[derive(Debug)]
pub(super) enum Node {
    Tuple(Box<[Value]>),
    List(Vec<Value>),
    /// Keys and values, in the order in which they were set.
    Dict(Vec<(Value, Value)>),
    Storage(Storage),
    Tensor(Box<Tensor>),
}

/// Bytes that tensors share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// The name of its bytes in the file.
    pub(super) key: Text,
    /// The type of its elements; that of its tensors where it has none.
    pub(super) dtype: Option<&'static Dtype>,
    /// Its elements; bytes where they have no type.
    pub(super) len: u64,
    /// Where it begins in the storage that the file has, in elements.
    pub(super) offset: u64,
    /// The elements of the storage that the file has.
    pub(super) whole: u64,
}

impl Storage {
    /// Bytes of an element.
    pub(super) fn unit(&self) -> u64 {
        self.dtype.map_or(1, |dtype| dtype.size)
    }
}

/// A view of a storage.
#[derive(Debug)]
pub(super) struct Tensor {
    pub(super) storage: Storage,
    pub(super) dtype: &'static Dtype,
    /// Where it begins, in elements.
    pub(super) offset: u64,
    /// Its dimensions, slowest first.
    pub(super) size: Vec<u64>,
    /// The elements from one index of a dimension to the next.
    pub(super) stride: Vec<u64>,
}

/// All objects of a pickle.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) nodes: Vec<Node>,
    /// The values that they have in them.
    elements: usize,
}

/// What was found in place of something else.
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

    /// Counts values before they are added to a tuple, a list or a dictionary: a short opcode adds
    /// one, which takes many times its bytes.
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

    pub(super) fn node_mut(&mut self, value: Value) -> Option<&mut Node> {
        match value {
            Value::Node(number) => self.nodes.get_mut(number as usize),
            _ => None,
        }
    }

    /// The elements of a tuple.
    pub(super) fn tuple(&self, value: Value) -> Option<&[Value]> {
        match self.node(value) {
            Some(Node::Tuple(elements)) => Some(elements),
            _ if matches!(value, Value::EmptyTuple) => Some(&[]),
            _ => None,
        }
    }

    /// The elements of a tuple or a list.
    fn sequence(&self, value: Value) -> Option<&[Value]> {
        match self.node(value) {
            Some(Node::List(elements)) => Some(elements),
            _ => self.tuple(value),
        }
    }

    /// The entries of a dictionary.
    pub(super) fn dict(&self, value: Value) -> Option<&[(Value, Value)]> {
        match self.node(value) {
            Some(Node::Dict(entries)) => Some(entries),
            _ => None,
        }
    }

    /// A value in words.
    pub(super) fn shown(&self, value: Value) -> String {
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
                Some(Node::Dict(entries)) => format!("a dictionary of {}", entries.len()),
                Some(Node::Storage(_)) => "a storage".to_owned(),
                Some(Node::Tensor(_)) => "a tensor".to_owned(),
                None => "nothing".to_owned(),
            },
        }
    }

    /// What a function makes of its arguments.
    pub(super) fn call(&mut self, function: Value, arguments: Value) -> Result<Value, Fault> {
        let Value::Global(global) = function else {
            return Err(format!("a call of {}, expected a function", self.shown(function)));
        };
        let Some(given) = self.tuple(arguments) else {
            return Err(format!("{} as arguments, expected a tuple", self.shown(arguments)));
        };
        match (global, given) {
            (Global::Opaque, _) => Ok(Value::Opaque),
            (Global::OrderedDict, []) => self.add(Node::Dict(Vec::new())),
            // As Python 2 wrote it.
            (Global::OrderedDict, &[pairs]) => {
                // Taken rather than copied: a list that is used a thousand times would be memory
                // that the file does not have.
                let Some(Node::List(list)) = self.node_mut(pairs) else {
                    let found = self.shown(pairs);
                    return Err(format!("a dictionary of {found}, expected a list"));
                };
                let pairs = std::mem::take(list);
                let pair = |&pair: &Value| match self.sequence(pair) {
                    Some(&[key, value]) => Ok((key, value)),
                    _ => Err(format!("{} as an entry, expected two values", self.shown(pair))),
                };
                let entries = pairs.iter().map(pair).collect::<Result<_, _>>()?;
                self.add(Node::Dict(entries))
            }
            (Global::Size, &[dimensions]) => Ok(dimensions),
            (Global::Rebuild(rebuild), _) => self.rebuild(rebuild, arguments),
            _ => Err(format!("{global:?} called with {} arguments", given.len())),
        }
    }

    fn rebuild(&mut self, mut rebuild: Rebuild, mut arguments: Value) -> Result<Value, Fault> {
        loop {
            let given = self.tuple(arguments).unwrap_or_default();
            match (rebuild, given) {
                // Each tuple is older than the one it is in, so this ends.
                (
                    Rebuild::FromType,
                    &[Value::Global(Global::Rebuild(of)), Value::Global(Global::Tensor), inner, _],
                ) => {
                    // One in another would be walked again for every tensor.
                    if matches!(of, Rebuild::FromType) {
                        return Err("a tensor with a conflicting type".to_owned());
                    }
                    (rebuild, arguments) = (of, inner);
                    if self.tuple(arguments).is_none() {
                        let found = self.shown(arguments);
                        return Err(format!("{found} as arguments, expected a tuple"));
                    }
                }
                (Rebuild::Parameter, &[tensor, ..]) => {
                    return match self.node(tensor) {
                        Some(Node::Tensor(_)) => Ok(tensor),
                        _ => Err(format!("a parameter of {}", self.shown(tensor))),
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
                        given.len()
                    ));
                }
            }
        }
    }

    /// Tensors whose elements are to be negated or conjugated when they are read.
    fn refuse_flags(&self, rest: &[Value]) -> Result<(), Fault> {
        let entries = rest.iter().filter_map(|&value| self.dict(value)).flatten();
        // A dictionary that all tensors share is walked for each of them.
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
            return Err(format!("a tensor of {}, expected a storage", self.shown(storage)));
        };
        let dtype = dtype.or(storage.dtype).ok_or("a tensor whose elements have no type")?;
        let offset = self.count(offset, "a tensor's offset")?;
        let counts = |this: &Self, value: Value, what: &str| {
            let found = this.sequence(value).ok_or_else(|| {
                format!("{} as {what}, expected a tuple of integers", this.shown(value))
            })?;
            if found.len() > Shape::MAX_DIMENSIONS {
                let (found, most) = (found.len(), Shape::MAX_DIMENSIONS);
                return Err(format!("a tensor of {found} dimensions, expected at most {most}"));
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

    /// A number of elements.
    fn count(&self, value: Value, what: &str) -> Result<u64, Fault> {
        match value {
            Value::Int(number) if number >= 0 => Ok(number.unsigned_abs()),
            _ => Err(format!("{} as {what}, expected a nonnegative integer", self.shown(value))),
        }
    }

    /// What a persistent ID refers to: a storage.
    pub(super) fn persistent(&mut self, id: Value, bytes: &[u8]) -> Result<Value, Fault> {
        let (class, key, len, view) = match self.tuple(id) {
            Some(&[Value::Text(kind), class, key, _, len, ref view @ ..])
                if kind.of(bytes) == b"storage" && view.len() <= 1 =>
            {
                (class, key, len, view.first().copied())
            }
            _ => {
                return Err(format!("{} as a persistent ID, expected a storage", self.shown(id)));
            }
        };
        let Value::Global(Global::Storage(dtype)) = class else {
            return Err(format!("{} as a class of storages", self.shown(class)));
        };
        let Value::Text(key) = key else {
            return Err(format!("{} as the key of a storage, expected a string", self.shown(key)));
        };
        let whole = self.count(len, "the length of a storage")?;
        let mut storage = Storage { key, dtype, len: whole, offset: 0, whole };
        if let Some(view) = view.filter(|view| !matches!(view, Value::None)) {
            let Some(&[_, offset, len]) = self.tuple(view) else {
                return Err(format!("{} as a view of a storage", self.shown(view)));
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

    /// Gives an object its attributes, which no tensor is made of.
    pub(super) fn build(&self, object: Value) -> Result<(), Fault> {
        match self.node(object) {
            Some(Node::Dict(_)) => Ok(()),
            _ if matches!(object, Value::Opaque) => Ok(()),
            _ => Err(format!("attributes for {}, expected a dictionary", self.shown(object))),
        }
    }

    /// Adds elements to a list.
    pub(super) fn append(&mut self, list: Value, elements: &[Value]) -> Result<(), Fault> {
        self.count_elements(elements.len())?;
        match self.node_mut(list) {
            Some(Node::List(own)) => own.extend_from_slice(elements),
            _ if matches!(list, Value::Opaque) => {}
            _ => return Err(format!("elements for {}, expected a list", self.shown(list))),
        }
        Ok(())
    }

    /// Adds keys with their values to a dictionary.
    pub(super) fn set(&mut self, dict: Value, items: &[Value]) -> Result<(), Fault> {
        self.count_elements(items.len())?;
        let (pairs, rest) = items.as_chunks::<2>();
        match self.node_mut(dict) {
            Some(Node::Dict(entries)) if rest.is_empty() => {
                entries.extend(pairs.iter().map(|&[key, value]| (key, value)));
            }
            Some(Node::Dict(_)) => return Err("a key without a value".to_owned()),
            _ if matches!(dict, Value::Opaque) => {}
            _ => return Err(format!("entries for {}, expected a dictionary", self.shown(dict))),
        }
        Ok(())
    }
}

impl Tensor {
    /// Elements of the storage from its beginning to the last of the tensor, which is 0 for a
    /// tensor without elements; `None` when there are 2^64 or more.
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

/// The name of a module's member, escaped for display.
pub(super) fn member(module: &[u8], name: &[u8]) -> String {
    format!("{}.{}", RawStr::new(module), RawStr::new(name))
}
