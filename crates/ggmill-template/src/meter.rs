//! Counts the steps and the memory of a rendering.

use std::cell::Cell;
use std::rc::Rc;

use ggmill_core::ByteSize;

use crate::error::{Error, ErrorKind, Result};

/// Limits for rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of steps. A step is an expression, an iteration of a loop, or 32 bytes that an
    /// operation reads, copies or compares.
    pub steps: u64,
    /// Maximum bytes of texts, lists, dictionaries and variables at any time, not including the
    /// conversation.
    pub memory: usize,
}

impl Limits {
    /// Returns the defaults: ten million steps and 24 MiB, a hundred times what long conversations
    /// need.
    pub fn new() -> Self {
        Self { steps: 10_000_000, memory: 24 << 20 }
    }

    /// Sets the limit of steps.
    #[must_use]
    pub fn with_steps(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }

    /// Sets the limit of memory in bytes.
    #[must_use]
    pub fn with_memory(mut self, memory: usize) -> Self {
        self.memory = memory;
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes that one step reads, copies or compares.
const BYTES_A_STEP: u64 = 32;

/// Bytes that the overhead of an access counts as: without it, accesses of single characters would be
/// nearly free.
const ACCESS: u64 = 8;

/// Counts steps and allocated bytes.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The remaining steps, in bytes.
    budget: Cell<u64>,
    held: Cell<usize>,
    memory: Cell<usize>,
    /// Bytes of the conversation, which do not count.
    given: Cell<usize>,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Rc<Self> {
        Rc::new(Self {
            budget: Cell::new(limits.steps.saturating_mul(BYTES_A_STEP)),
            held: Cell::new(0),
            memory: Cell::new(limits.memory),
            given: Cell::new(0),
        })
    }

    /// Starts counting: what is allocated so far belongs to the conversation and lives as long as
    /// the meter.
    pub(crate) fn begin(&self, limits: Limits) {
        self.budget.set(limits.steps.saturating_mul(BYTES_A_STEP));
        self.memory.set(limits.memory);
        self.given.set(self.held.get());
    }

    /// Counts steps.
    pub(crate) fn spend(&self, steps: u64) -> Result<()> {
        self.charge(steps.saturating_mul(BYTES_A_STEP))
    }

    fn charge(&self, bytes: u64) -> Result<()> {
        let Some(left) = self.budget.get().checked_sub(bytes) else {
            self.budget.set(0);
            return Err(Error::new(ErrorKind::Limit, "the template takes too many steps"));
        };
        self.budget.set(left);
        Ok(())
    }

    /// Returns the remaining steps.
    pub(crate) fn steps_left(&self) -> u64 {
        self.budget.get() / BYTES_A_STEP
    }

    /// Counts an access that reads `bytes` bytes.
    pub(crate) fn walk(&self, bytes: usize) -> Result<()> {
        self.charge((bytes as u64).saturating_add(ACCESS))
    }

    fn take(&self, bytes: usize) -> Result<()> {
        let held = self.held.get().saturating_add(bytes);
        if held > self.memory.get().saturating_add(self.given.get()) {
            let most = ByteSize::from(self.memory.get());
            let message = format!("the template needs more than {most} of memory");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        self.held.set(held);
        Ok(())
    }
}

/// Allocated bytes, which are returned to the meter on drop.
#[derive(Debug)]
pub(crate) struct Held {
    meter: Rc<Meter>,
    bytes: usize,
}

impl Held {
    pub(crate) fn new(meter: &Rc<Meter>, bytes: usize) -> Result<Self> {
        meter.take(bytes)?;
        Ok(Self { meter: Rc::clone(meter), bytes })
    }

    /// Allocates more bytes and counts the steps of copying them.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<()> {
        self.meter.walk(bytes)?;
        self.hold(bytes)
    }

    /// Allocates more bytes without copying.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<()> {
        self.meter.take(bytes)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    pub(crate) fn meter(&self) -> &Rc<Meter> {
        &self.meter
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.meter.held.set(self.meter.held.get().saturating_sub(self.bytes));
    }
}
