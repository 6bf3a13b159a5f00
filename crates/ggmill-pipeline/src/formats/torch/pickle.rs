//! A pickle as data. Python's pickles are programs for a small machine that can import and call
//! anything. This machine has no such instruction: a name is looked up in a closed list
//! ([`Global`]), and what such a "function" returns is computed here. Nothing is executed, nothing
//! calls itself, and every collection is bounded.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Result;
use ggmill_io::RandomAccess;

use super::global::Global;
use super::object::{Fault, Node, Objects, Value, member};
use super::stream::{Stream, Text};

/// The newest protocol: that of Python 3.8.
const MAX_PROTOCOL: u8 = 5;
/// Marks within marks. A state dictionary has three.
const MAX_MARKS: usize = 1000;
/// Values on the stack. Python adds a thousand elements to a collection at a time.
const MAX_STACK: usize = 1 << 20;
/// Values that are kept to be used again.
const MAX_MEMO: usize = 1 << 21;

/// What a pickle describes.
#[derive(Debug)]
pub(super) struct Pickle {
    pub(super) objects: Objects,
    pub(super) root: Value,
    /// Its bytes, which its texts are in.
    pub(super) bytes: Vec<u8>,
    /// Where in the file it ends.
    pub(super) end: u64,
}

impl Pickle {
    /// Reads the pickle at the beginning of a range of a file.
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

    /// The bytes of a text.
    pub(super) fn text(&self, value: Value) -> Option<&[u8]> {
        match value {
            Value::Text(text) => Some(text.of(&self.bytes)),
            _ => None,
        }
    }
}

struct Machine<'a> {
    stream: Stream<'a>,
    objects: Objects,
    stack: Vec<Value>,
    /// For each mark how many values were below it.
    marks: Vec<usize>,
    memo: BTreeMap<u32, Value>,
}

impl Machine<'_> {
    /// Does what an opcode says; the last one gives what the pickle describes.
    fn step(&mut self, opcode: u8, offset: u64) -> Result<Option<Value>> {
        let done = match opcode {
            // Values whose bytes follow.
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
            _ => self.compute(opcode),
        };
        done.map(|()| None).map_err(|fault| self.stream.fault(offset, fault))
    }

    /// The opcodes that no bytes follow.
    fn compute(&mut self, opcode: u8) -> Result<(), Fault> {
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
                let made = self.objects.call(function, arguments)?;
                self.push(made)
            }
            b'b' => {
                self.pop()?;
                self.objects.build(self.top()?)
            }
            b'Q' => {
                let id = self.pop()?;
                let made = self.objects.persistent(id, self.stream.bytes())?;
                self.push(made)
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

    /// The values of the stack above the last mark begin here.
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

    /// Everything above the last mark, and the mark.
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

    /// A value with the number of its bytes before it, which has this many bytes itself.
    fn sized(
        &mut self,
        prefix: u64,
        value: impl Fn(&Self, Text) -> Value,
    ) -> Result<Result<(), Fault>> {
        let prefix = self.stream.take(prefix)?;
        let mut len = [0; 8];
        for (byte, &found) in len.iter_mut().zip(prefix.of(self.stream.bytes())) {
            *byte = found;
        }
        let bytes = self.stream.take(u64::from_le_bytes(len))?;
        let value = value(self, bytes);
        Ok(self.push(value))
    }

    /// An integer in two's complement.
    fn long(&self, text: Text) -> Value {
        let bytes = text.of(self.stream.bytes());
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
        let (module, name) = (module.of(bytes), name.of(bytes));
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
        // Python numbers what it keeps from 0 or 1 on, without gaps.
        let most = self.memo.len().saturating_add(1);
        if index as usize > most || self.memo.len() >= MAX_MEMO {
            return Err(format!(
                "the memo has a value with number {index}, expected at most {most}"
            ));
        }
        let value = self.top()?;
        self.memo.insert(index, value);
        Ok(())
    }
}
