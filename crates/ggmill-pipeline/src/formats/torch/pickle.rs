//! A pickle as data. Python's pickles are programs for a small machine that can import and call
//! anything. This machine has no such instruction: a name is looked up in a closed list
//! ([`Global`]), and what such a "function" returns is computed here. Nothing is executed, nothing
//! recurses, and every collection is bounded.

use std::collections::BTreeMap;
use std::ops::Range;

use ggmill_core::ByteSize;
use ggmill_io::RandomAccess;

use crate::formats::torch::object::{Fault, Global, Node, Objects, Value, member};
use crate::{Error, ErrorKind, Result};

/// The newest protocol, of Python 3.8.
const MAX_PROTOCOL: u8 = 5;
/// Limit for nested marks; a state dictionary has three.
const MAX_MARKS: usize = 1000;
/// Limit for values on the stack; Python adds elements to a collection in batches of a thousand.
const MAX_STACK: usize = 1 << 20;
/// Limit for memoized values.
const MAX_MEMO: usize = 1 << 21;

/// A decoded pickle.
#[derive(Debug)]
pub(super) struct Pickle {
    pub(super) objects: Objects,
    pub(super) root: Value,
    /// Its bytes, which its strings refer to.
    pub(super) bytes: Vec<u8>,
    /// The offset of its end in the file.
    pub(super) end: u64,
}

impl Pickle {
    /// Decodes the pickle at the beginning of a range of a file.
    pub(super) fn read(file: &RandomAccess, range: Range<u64>) -> Result<Self> {
        let mut machine = Machine {
            stream: Stream::new(file, range),
            objects: Objects::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: BTreeMap::new(),
        };
        loop {
            let offset = machine.stream.offset();
            let [opcode] = machine.stream.array()?;
            match machine.step(opcode, offset)? {
                None => {}
                Some(root) => {
                    let end = machine.stream.offset();
                    let (objects, bytes) = (machine.objects, machine.stream.into_bytes());
                    return Ok(Self { objects, root, bytes, end });
                }
            }
        }
    }

    /// Returns the bytes of a string; `None` for other values.
    pub(super) fn text(&self, value: Value) -> Option<&[u8]> {
        match value {
            Value::Text(text) => Some(text.resolve(&self.bytes)),
            _ => None,
        }
    }
}

struct Machine<'a> {
    stream: Stream<'a>,
    objects: Objects,
    stack: Vec<Value>,
    /// The stack height at each mark.
    marks: Vec<usize>,
    memo: BTreeMap<u32, Value>,
}

impl Machine<'_> {
    /// Executes an opcode. STOP returns the root value.
    fn step(&mut self, opcode: u8, offset: u64) -> Result<Option<Value>> {
        let done = match opcode {
            // BININT, BININT1, BININT2, BINFLOAT.
            b'J' => self.int(|bytes: [u8; 4]| i32::from_le_bytes(bytes).into())?,
            b'K' => self.int(|[byte]| byte.into())?,
            b'M' => self.int(|bytes| u16::from_le_bytes(bytes).into())?,
            b'G' => {
                self.stream.take(8)?;
                self.push(Value::Float)
            }
            // LONG1, LONG4.
            0x8a => self.sized(1, Self::long)?,
            0x8b => self.sized(4, Self::long)?,
            // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8, BINSTRING, SHORT_BINSTRING.
            b'X' | b'T' => self.sized(4, |_, text| Value::Text(text))?,
            b'U' | 0x8c => self.sized(1, |_, text| Value::Text(text))?,
            0x8d => self.sized(8, |_, text| Value::Text(text))?,
            // BINBYTES, SHORT_BINBYTES, BINBYTES8, BYTEARRAY8.
            b'B' => self.sized(4, |_, _| Value::Opaque)?,
            b'C' => self.sized(1, |_, _| Value::Opaque)?,
            0x8e | 0x96 => self.sized(8, |_, _| Value::Opaque)?,
            // GLOBAL.
            b'c' => {
                let (module, name) = (self.stream.line()?, self.stream.line()?);
                self.global(module, name)
            }
            // BINGET, LONG_BINGET, BINPUT, LONG_BINPUT.
            b'h' => {
                let [index] = self.stream.array()?;
                self.get(index.into())
            }
            b'j' => {
                let index = u32::from_le_bytes(self.stream.array()?);
                self.get(index)
            }
            b'q' => {
                let [index] = self.stream.array()?;
                self.put(index.into())
            }
            b'r' => {
                let index = u32::from_le_bytes(self.stream.array()?);
                self.put(index)
            }
            // PROTO, FRAME.
            0x80 => {
                let [protocol] = self.stream.array()?;
                if protocol <= MAX_PROTOCOL {
                    Ok(())
                } else {
                    Err(format!("protocol {protocol}, expected at most {MAX_PROTOCOL}"))
                }
            }
            0x95 => {
                self.stream.take(8)?;
                Ok(())
            }
            b'.' => match self.stack[..] {
                [root] if self.marks.is_empty() => return Ok(Some(root)),
                _ => Err(format!("{} values at its end, expected one", self.stack.len())),
            },
            _ => self.step_without_argument(opcode),
        };
        done.map(|()| None).map_err(|fault| self.stream.fault(offset, fault))
    }

    /// Executes an opcode without argument bytes.
    fn step_without_argument(&mut self, opcode: u8) -> Result<(), Fault> {
        match opcode {
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b')' => self.push(Value::EmptyTuple),
            // EMPTY_SET.
            0x8f => self.push(Value::Opaque),
            b']' => self.push_node(Node::List(Vec::new())),
            b'}' => self.push_node(Node::Dict(Vec::new())),
            b'(' => {
                if self.marks.len() >= MAX_MARKS {
                    return Err(format!("values nested {MAX_MARKS} deep, which is the limit"));
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            // POP, POP_MARK.
            b'0' => self.pop().map(drop),
            b'1' => self.pop_mark().map(drop),
            b't' => {
                let elements = self.pop_mark()?;
                self.push_tuple(elements)
            }
            0x85..=0x87 => {
                let mut elements = Vec::with_capacity(3);
                for _ in 0x84..opcode {
                    elements.push(self.pop()?);
                }
                elements.reverse();
                self.push_tuple(elements)
            }
            // FROZENSET.
            0x91 => {
                self.pop_mark()?;
                self.push(Value::Opaque)
            }
            b'a' => {
                let element = self.pop()?;
                let list = self.top()?;
                self.objects.append(list, &[element])
            }
            // APPENDS, ADDITEMS.
            b'e' | 0x90 => {
                let elements = self.pop_mark()?;
                let list = self.top()?;
                self.objects.append(list, &elements)
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                let dict = self.top()?;
                self.objects.set(dict, &[key, value])
            }
            b'u' => {
                let items = self.pop_mark()?;
                let dict = self.top()?;
                self.objects.set(dict, &items)
            }
            // STACK_GLOBAL.
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (module, name) {
                    (Value::Text(module), Value::Text(name)) => self.global(module, name),
                    _ => Err("a global whose name is not a string".to_owned()),
                }
            }
            // REDUCE, NEWOBJ.
            b'R' | 0x81 => {
                let arguments = self.pop()?;
                let function = self.pop()?;
                let result = self.objects.call(function, arguments)?;
                self.push(result)
            }
            b'b' => {
                self.pop()?;
                self.objects.build(self.top()?)
            }
            b'Q' => {
                let id = self.pop()?;
                let storage = self.objects.persistent(id, self.stream.bytes())?;
                self.push(storage)
            }
            // MEMOIZE.
            0x94 => self.put(u32::try_from(self.memo.len()).unwrap_or(u32::MAX)),
            _ => Err(format!(
                "opcode {opcode:#04x}, which is not one of those that state dictionaries need"
            )),
        }
    }

    fn push(&mut self, value: Value) -> Result<(), Fault> {
        if self.stack.len() >= MAX_STACK {
            return Err(format!("{MAX_STACK} values on the stack, which is the limit"));
        }
        self.stack.push(value);
        Ok(())
    }

    fn push_node(&mut self, node: Node) -> Result<(), Fault> {
        let value = self.objects.add(node)?;
        self.push(value)
    }

    fn push_tuple(&mut self, elements: Vec<Value>) -> Result<(), Fault> {
        if elements.is_empty() {
            return self.push(Value::EmptyTuple);
        }
        self.push_node(Node::Tuple(elements.into()))
    }

    /// Returns the stack height at the last mark.
    fn base(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Value, Fault> {
        let top = if self.stack.len() > self.base() { self.stack.pop() } else { None };
        top.ok_or_else(|| "a value is needed, but the stack has none".to_owned())
    }

    fn top(&self) -> Result<Value, Fault> {
        let own = self.stack.get(self.base()..).unwrap_or_default();
        own.last().copied().ok_or_else(|| "a value is needed, but the stack has none".to_owned())
    }

    /// Pops the last mark and everything above it.
    fn pop_mark(&mut self) -> Result<Vec<Value>, Fault> {
        let base = self.marks.pop().ok_or("a mark is needed, but the stack has none")?;
        Ok(self.stack.split_off(base.min(self.stack.len())))
    }

    fn int<const LEN: usize>(
        &mut self,
        of_bytes: impl Fn([u8; LEN]) -> i64,
    ) -> Result<Result<(), Fault>> {
        let value = of_bytes(self.stream.array()?);
        Ok(self.push(Value::Int(value)))
    }

    /// Pushes a value whose bytes are preceded by their length, an integer of `prefix` bytes.
    fn sized(
        &mut self,
        prefix: u64,
        value: impl Fn(&Self, Text) -> Value,
    ) -> Result<Result<(), Fault>> {
        let prefix = self.stream.take(prefix)?;
        let mut len = [0; 8];
        for (byte, &found) in len.iter_mut().zip(prefix.resolve(self.stream.bytes())) {
            *byte = found;
        }
        let bytes = self.stream.take(u64::from_le_bytes(len))?;
        let value = value(self, bytes);
        Ok(self.push(value))
    }

    /// Decodes a little-endian two's complement integer.
    fn long(&self, text: Text) -> Value {
        let bytes = text.resolve(self.stream.bytes());
        let fill = if bytes.last().is_some_and(|&last| last >= 0x80) { 0xff } else { 0 };
        let mut own = [fill; 8];
        if bytes.len() > own.len() {
            return Value::Long(text);
        }
        for (byte, &found) in own.iter_mut().zip(bytes) {
            *byte = found;
        }
        Value::Int(i64::from_le_bytes(own))
    }

    fn global(&mut self, module: Text, name: Text) -> Result<(), Fault> {
        let bytes = self.stream.bytes();
        let (module, name) = (module.resolve(bytes), name.resolve(bytes));
        match Global::named(module, name) {
            Some(global) => self.push(Value::Global(global)),
            None => Err(format!(
                "the pickle uses {}, expected only globals that state dictionaries need, such as \
                 torch._utils._rebuild_tensor_v2; nothing was executed",
                member(module, name)
            )),
        }
    }

    fn get(&mut self, index: u32) -> Result<(), Fault> {
        let value = self.memo.get(&index).copied();
        self.push(value.ok_or_else(|| format!("the memo has no value with number {index}"))?)
    }

    fn put(&mut self, index: u32) -> Result<(), Fault> {
        // Python numbers the memo from 0 or 1 on, without gaps.
        let max = self.memo.len().saturating_add(1);
        if index as usize > max || self.memo.len() >= MAX_MEMO {
            return Err(format!(
                "the memo has a value with number {index}, expected at most {max}"
            ));
        }
        let value = self.top()?;
        self.memo.insert(index, value);
        Ok(())
    }
}

/// Limit for a pickle in bytes, equal to that of a safetensors header.
const MAX_PICKLE: u64 = 100_000_000;

/// Bytes of the first read; the buffer doubles with each further read.
const FIRST_READ: u64 = 4096;

/// A string, as a range of the bytes of its pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text {
    start: u32,
    len: u32,
}

impl Text {
    /// Returns the bytes of the string, given those of its pickle.
    pub(super) fn resolve(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        bytes.get(start..start.saturating_add(self.len as usize)).unwrap_or_default()
    }
}

/// The bytes of a pickle, read from the file on demand.
struct Stream<'a> {
    file: &'a RandomAccess,
    /// The offset of the first byte in the file.
    start: u64,
    /// The offset of the end in the file.
    end: u64,
    bytes: Vec<u8>,
    at: usize,
}

impl<'a> Stream<'a> {
    fn new(file: &'a RandomAccess, range: Range<u64>) -> Self {
        Self { file, start: range.start, end: range.end, bytes: Vec::new(), at: 0 }
    }

    /// Returns the offset of the next byte in the file.
    fn offset(&self) -> u64 {
        self.start.saturating_add(self.at as u64)
    }

    /// Returns all bytes read so far.
    fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns all bytes read so far.
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Creates an error for an offset in the file.
    #[cold]
    fn fault(&self, offset: u64, message: impl std::fmt::Display) -> Error {
        let message = format!("offset {offset:#x}: {message}");
        Error::new(ErrorKind::Checkpoint, message).file(self.file.path())
    }

    /// Takes the next `len` bytes. Fails if the pickle ends before or exceeds the limit.
    fn take(&mut self, len: u64) -> Result<Text> {
        let start = self.at as u64;
        let until = start.saturating_add(len);
        self.fill(until)?;
        // `fill` has checked that this is below the limit.
        self.at = usize::try_from(until).unwrap_or(usize::MAX);
        let [start, len] = [start, len].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Ok(Text { start, len })
    }

    /// Takes the next bytes as an array.
    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let text = self.take(LEN as u64)?;
        Ok(text.resolve(&self.bytes).first_chunk().copied().unwrap_or([0; LEN]))
    }

    /// Takes a line and returns it without the line feed.
    fn line(&mut self) -> Result<Text> {
        /// Limit for names of modules and functions.
        const MAX_LINE: u32 = 1024;
        let offset = self.offset();
        let start = u32::try_from(self.at).unwrap_or(u32::MAX);
        for len in 0..MAX_LINE {
            if self.array()? == *b"\n" {
                return Ok(Text { start, len });
            }
        }
        Err(self.fault(offset, format_args!("a name of more than {MAX_LINE} bytes")))
    }

    /// Reads until the buffer has `until` bytes.
    fn fill(&mut self, until: u64) -> Result<()> {
        let read = self.bytes.len() as u64;
        if until <= read {
            return Ok(());
        }
        let available = self.end.saturating_sub(self.start);
        if until > available {
            let end = self.end;
            let missing = until - available;
            return Err(self.fault(
                self.offset(),
                format_args!("the pickle ends at {end:#x}, {missing} bytes too early"),
            ));
        }
        if until > MAX_PICKLE {
            let limit = ByteSize::from(MAX_PICKLE);
            let message = format_args!("the pickle has more than {limit}, which is the limit");
            return Err(self.fault(self.offset(), message));
        }
        let wanted =
            until.max(FIRST_READ).max(read.saturating_mul(2)).min(available).min(MAX_PICKLE);
        let more = usize::try_from(wanted - read).unwrap_or(usize::MAX);
        if self.bytes.try_reserve_exact(more).is_err() {
            let message =
                format!("not enough memory for the {} of the pickle", ByteSize::from(wanted));
            return Err(Error::new(ErrorKind::Memory, message).file(self.file.path()));
        }
        let filled = self.bytes.len();
        self.bytes.resize(filled.saturating_add(more), 0);
        let rest = self.bytes.get_mut(filled..).unwrap_or_default();
        Ok(self.file.read_at(self.start.saturating_add(read), rest)?)
    }
}
