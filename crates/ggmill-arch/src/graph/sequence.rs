//! Builds nodes of operations along the sequence, except attention and rotary embeddings.

use super::arguments::{Argument, Value};
use super::build::Builder;
use super::{Extent, Growth, HashedRows, Operation, Recurrence, Rows, TokenSelection};
use crate::language::expression::Outcome;

impl Builder<'_> {
    pub(super) fn by_position(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (node, length, factor) = (given.tensor()?, given.number()?, given.number()?);
        let offset = given.number_option("offset", 0.0)?;
        if length < 1.0 || offset < 0.0 {
            return Err(format!(
                "has the length {length} and the offset {offset}, expected at least 1 and 0"
            ));
        }
        let operation = Operation::ByPosition(Growth { length, factor, offset });
        self.push(operation, vec![node], self.extent(node))
    }

    pub(super) fn conv(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (name, node) = (given.weight()?, given.tensor()?);
        let kernel = self.plain(&name)?;
        let extent = self.extent(node);
        // Some files have a dimension of 1 between taps and channels.
        let mut rows = self.weights.dimensions(kernel).iter().skip(1).filter(|&&rows| rows != 1);
        let channels = rows.next().copied().unwrap_or(1);
        if rows.next().is_some() || channels != extent.elements() {
            return Err(self.misfit(kernel, extent));
        }
        let bias = self.bias(&name, &[channels])?;
        let dilation = given.optional_whole("dilation")?.unwrap_or(1);
        if dilation == 0 {
            return Err("has dilation = 0, expected at least 1".into());
        }
        self.push(Operation::Convolution { kernel, bias, dilation }, vec![node], extent)
    }

    pub(super) fn hashed_rows(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (name, rows) = (given.weight()?, given.rows()?);
        let (multipliers, sizes, offsets) = (given.wholes()?, given.wholes()?, given.wholes()?);
        let end = given.whole()?;
        if rows != Rows::Tokens {
            return Err("takes tokens".into());
        }
        let table = self.matrix(&name, 2)?;
        let (length, rows) = (self.dimension(table, 0), self.dimension(table, 1));
        // There are as many hashes of two tokens as of three, and so on.
        let kinds = multipliers.len().saturating_sub(1);
        if sizes.len().checked_rem(kinds) != Some(0) || sizes.len() != offsets.len() {
            return Err(format!(
                "has {} multipliers, {} sizes and {} offsets, expected at least 2 multipliers, as \
                 many sizes as offsets, and a multiple of the number of multipliers less 1",
                multipliers.len(),
                sizes.len(),
                offsets.len()
            ));
        }
        for (&size, offset) in sizes.iter().zip(&offsets) {
            if size == 0 || offset.saturating_add(size) > rows {
                let name = self.weights.name(table);
                return Err(format!(
                    "uses {size} rows of {name} from row {offset} on, expected at least 1 of its \
                     {rows} rows"
                ));
            }
        }
        let parts = u64::try_from(sizes.len()).unwrap_or(u64::MAX);
        let hashed = HashedRows { table, multipliers, sizes, offsets, end };
        self.push(Operation::HashedRows(hashed), Vec::new(), Extent { parts: Some(parts), length })
    }

    pub(super) fn linear_taps(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (name, node) = (given.weight()?, given.tensor()?);
        let kernel = self.matrix(&name, 3)?;
        let [taps, channels, rows] = [0, 1, 2].map(|number| self.dimension(kernel, number));
        let extent = self.extent(node);
        if extent.parts.unwrap_or(1) != taps || extent.length != channels {
            return Err(self.misfit(kernel, extent));
        }
        // Some files store the bias with shape [1, rows].
        let bias = self.bias(&name, &[1, rows]).or_else(|_| self.bias(&name, &[rows]))?;
        let operation = Operation::TapsLinear { kernel, bias };
        self.push(operation, vec![node], Extent::run(rows))
    }

    pub(super) fn pick(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (queries, keys) = (given.tensor()?, given.tensor()?);
        let (weights, count) = (given.optional_tensor()?, given.whole()?);
        let block = given.optional_whole("block")?.unwrap_or(1);
        let local = given.whole_option("local")?;
        let whole = given.bool_option("whole", false)?;
        let [q, k] = [queries, keys].map(|node| self.extent(node));
        if k.parts.unwrap_or(1) != 1 || k.length != q.length {
            return Err(format!("cannot combine queries of {q} and keys of {k} numbers"));
        }
        if block == 0 || count == 0 {
            return Err(format!("picks {count} runs of {block} tokens, expected at least 1"));
        }
        if whole && local > 0 {
            return Err("has both local and whole".into());
        }
        let heads = q.parts.unwrap_or(1);
        let mut inputs = vec![queries, keys];
        if let Some(weights) = weights {
            let found = self.extent(weights);
            if found.elements() != heads {
                return Err(format!("has weights of {found} numbers, expected {heads}"));
            }
            inputs.push(weights);
        }
        let weighted = weights.is_some();
        let parts = if weighted { None } else { Some(heads) };
        let operation =
            Operation::SelectTokens(TokenSelection { count, block, local, weighted, whole });
        let length = count.saturating_add(u64::from(whole));
        self.push(operation, inputs, Extent { parts, length })
    }

    pub(super) fn pool(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (node, scores, run) = (given.tensor()?, given.tensor()?, given.whole()?);
        let extent = self.same(node, scores)?;
        if run == 0 {
            return Err("has runs of 0 tokens, expected at least 1".into());
        }
        self.push(Operation::Pool { run }, vec![node, scores], Extent::run(extent.length))
    }

    pub(super) fn recurrence(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let nodes = [given.tensor()?, given.tensor()?, given.tensor()?, given.tensor()?];
        let [queries, keys, values, decays] = nodes.map(|node| self.extent(node));
        let parts = |extent: Extent| extent.parts.unwrap_or(1);
        let (heads, length) = (parts(values), keys.length);
        let divides = |extent: Extent| heads.checked_rem(parts(extent)) == Some(0);
        let has_all = |extent: Extent| parts(extent) == heads && extent.length == length;
        let rates = match given.weight_option("rates")? {
            Some(name) => Some(self.plain(&name)?),
            None => None,
        };
        let is_single = parts(decays) == heads && decays.length == 1;
        let decays_fit = if rates.is_some() { is_single } else { is_single || has_all(decays) };
        if queries.length != length || !divides(queries) || !divides(keys) || !decays_fit {
            return Err(format!(
                "cannot combine queries of {queries}, keys of {keys}, values of {values} and \
                 decays of {decays} numbers"
            ));
        }
        if let Some(rates) = rates {
            let found = self.weights.dimensions(rates);
            if found != [length, heads] && !(heads == 1 && found == [length]) {
                return Err(self.misfit(rates, Extent { parts: Some(heads), length }));
            }
        }
        let mut inputs = nodes.to_vec();
        let moves = [given.tensor_option("from")?, given.tensor_option("to")?];
        match moves {
            [Some(from), Some(to)] => {
                if !has_all(self.extent(from)) || !has_all(self.extent(to)) {
                    return Err(format!(
                        "has from and to of {} and {} numbers, expected {heads} times {length}",
                        self.extent(from),
                        self.extent(to)
                    ));
                }
                inputs.extend([from, to]);
            }
            [None, None] => {}
            _ => return Err("has one of from and to without the other".into()),
        }
        let operation = Operation::Recurrence(Recurrence {
            rates,
            output_before_update: given.bool_option("before", false)?,
            delta_rule: inputs.len() > nodes.len(),
        });
        self.push(operation, inputs, values)
    }
}
