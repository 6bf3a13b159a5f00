//! Builds nodes from the arguments of operations.

use super::arguments::{Argument, Value, arithmetic, bounded, measure, number};
use super::build::Builder;
use super::{Extent, Function, Groups, Operation, Rope, RopeStyle, Rows, Yarn};
use crate::language::expression::{Operator, Outcome, binary};

impl Builder<'_> {
    /// Applies an operator to two values.
    pub(super) fn arithmetic(
        &mut self,
        operator: Operator,
        left: Value,
        right: Value,
    ) -> Outcome<Value> {
        let sum = |with, inputs, extent| (Operation::Arithmetic(with), inputs, extent);
        let (operation, inputs, extent) = match (left, right) {
            (Value::Tensor(left), Value::Tensor(right)) => {
                let (a, b) = (self.extent(left), self.extent(right));
                let with = arithmetic(operator)?;
                let extent = if a == b || repeats(b, a) {
                    a
                } else if repeats(a, b) {
                    b
                } else {
                    return Err(format!(
                        "combines {a} and {b} numbers per token, which do not match"
                    ));
                };
                sum(with, vec![left, right], extent)
            }
            (Value::Tensor(node), Value::Weight(name)) => {
                self.with_weight(operator, node, &name, false)?
            }
            (Value::Weight(name), Value::Tensor(node)) => {
                self.with_weight(operator, node, &name, true)?
            }
            (Value::Tensor(node), other) => {
                let (number, with) = (number(&other.known()?)?, arithmetic(operator)?);
                let extent = self.extent(node);
                (Operation::WithNumber { with, number, left: false }, vec![node], extent)
            }
            (other, Value::Tensor(node)) => {
                let (number, with) = (number(&other.known()?)?, arithmetic(operator)?);
                let extent = self.extent(node);
                (Operation::WithNumber { with, number, left: true }, vec![node], extent)
            }
            (left, right) => {
                let (left, right) = (left.known()?, right.known()?);
                let value = Value::Known(binary(operator, &left, &right)?);
                // The cost is the size of the operands.
                for operand in [left, right] {
                    self.spend(measure(&Value::Known(operand)).0)?;
                }
                bounded(&value)?;
                return Ok(value);
            }
        };
        self.push(operation, inputs, extent)
    }

    fn with_weight(
        &mut self,
        operator: Operator,
        node: usize,
        name: &str,
        left: bool,
    ) -> Outcome<(Operation, Vec<usize>, Extent)> {
        let weight = self.plain(name)?;
        let extent = self.extent(node);
        // Some files have dimensions of 1 between others.
        let shortened = without_ones(self.weights.dimensions(weight));
        let matches = |expected: &[u64]| shortened == without_ones(expected);
        let fits = matches(&[extent.elements()])
            || matches(&[extent.length])
            || extent
                .parts
                .is_some_and(|parts| matches(&[extent.length, parts]) || matches(&[parts]));
        if !fits {
            return Err(self.misfit(weight, extent));
        }
        let with = arithmetic(operator)?;
        Ok((Operation::WithWeight { with, weight, left }, vec![node], extent))
    }

    /// Returns the tensor with this name and the suffix `.weight`, or else with exactly this name.
    pub(super) fn plain(&mut self, name: &str) -> Outcome<usize> {
        let found = self.weights.find(&format!("{name}.weight"));
        let found = found.or_else(|| self.weights.find(name));
        found.ok_or_else(|| format!("needs the tensor {name}, which the model does not have"))
    }

    /// Returns a message about a tensor whose shape does not fit an operand.
    pub(super) fn misfit(&self, weight: usize, extent: Extent) -> String {
        let (name, shape) = (self.weights.name(weight), shown(self.weights.dimensions(weight)));
        format!("applies {name}, which has dimensions {shape}, to {extent} numbers per token")
    }

    /// Returns the matrix with this name. Fails if it has more dimensions.
    pub(super) fn matrix(&mut self, name: &str, dimensions: usize) -> Outcome<usize> {
        let matrix = self.plain(name)?;
        let found = self.weights.dimensions(matrix);
        if found.len() > dimensions {
            return Err(format!(
                "takes at most {dimensions} dimensions, but {} has {}",
                self.weights.name(matrix),
                shown(found)
            ));
        }
        Ok(matrix)
    }

    pub(super) fn dimension(&self, weight: usize, number: usize) -> u64 {
        self.weights.dimensions(weight).get(number).copied().unwrap_or(1)
    }

    pub(super) fn bias(&mut self, name: &str, dimensions: &[u64]) -> Outcome<Option<usize>> {
        let bias = self.weights.find(&format!("{name}.bias"));
        self.with_dimensions(bias, dimensions)
    }

    fn scale(&mut self, name: &str, dimensions: &[u64]) -> Outcome<Option<usize>> {
        let scale = self.weights.scale(&format!("{name}.scale"), dimensions);
        self.with_dimensions(scale, dimensions)
    }

    /// Checks the dimensions of a tensor that belongs to a matrix or norm.
    fn with_dimensions(&self, weight: Option<usize>, dimensions: &[u64]) -> Outcome<Option<usize>> {
        let Some(weight) = weight else { return Ok(None) };
        let found = self.weights.dimensions(weight);
        // Files may omit trailing dimensions of 1.
        if without_last_ones(found) == without_last_ones(dimensions) {
            return Ok(Some(weight));
        }
        let (name, found) = (self.weights.name(weight), shown(found));
        Err(format!("uses {name}, which has dimensions {found}, expected {}", shown(dimensions)))
    }

    /// Builds an operation by name.
    pub(super) fn operation(&mut self, name: &str, mut given: Argument<'_>) -> Outcome<Value> {
        let function = match name {
            "silu" => Some(Function::Silu),
            "gelu" => Some(Function::Gelu),
            "gelu_erf" => Some(Function::GeluErf),
            "relu" => Some(Function::Relu),
            "tanh" => Some(Function::Tanh),
            "sigmoid" => Some(Function::Sigmoid),
            "exp" => Some(Function::Exp),
            "softplus" => Some(Function::Softplus),
            "root" => Some(Function::Root),
            "nearest" => Some(Function::Nearest),
            _ => None,
        };
        if let Some(function) = function {
            let node = given.tensor()?;
            return self.push(Operation::Apply(function), vec![node], self.extent(node));
        }
        match name {
            "rows" => self.rows(&mut given),
            "hashed_rows" => self.hashed_rows(&mut given),
            "linear" => self.linear(&mut given),
            "linear_of" => self.linear_of(&mut given),
            "linear_heads" => self.linear_heads(&mut given),
            "rms_norm" | "layer_norm" => self.norm(name == "rms_norm", &mut given),
            "rope" => self.rope(&mut given),
            "attention" => self.attention(&mut given),
            "split" => {
                let (node, parts) = (given.tensor()?, given.whole()?);
                let extent = self.extent(node);
                let length = extent.length.checked_div(parts).unwrap_or(0);
                if extent.parts.is_some() || length.checked_mul(parts) != Some(extent.length) {
                    return Err(format!("cannot divide {extent} numbers into {parts} equal parts"));
                }
                let extent = Extent { parts: Some(parts), length };
                self.push(Operation::View, vec![node], extent)
            }
            "merge" => {
                let node = given.tensor()?;
                let extent = Extent::run(self.extent(node).elements());
                self.push(Operation::View, vec![node], extent)
            }
            "parts" => self.parts(&mut given),
            "concat" => {
                let (left, right) = (given.tensor()?, given.tensor()?);
                let (a, b) = (self.extent(left), self.extent(right));
                if a.parts != b.parts {
                    return Err(format!("cannot concatenate {a} and {b} numbers"));
                }
                let extent = a.with_length(a.length.saturating_add(b.length));
                self.push(Operation::Concat, vec![left, right], extent)
            }
            "swiglu_oai" => {
                let (gate, value) = (given.tensor()?, given.tensor()?);
                let extent = self.same(gate, value)?;
                self.push(Operation::SwigluOai, vec![gate, value], extent)
            }
            "clamp" => {
                let (node, low, high) = (given.tensor()?, given.number()?, given.number()?);
                if low > high {
                    return Err(format!("has the minimum {low}, which exceeds the maximum {high}"));
                }
                self.push(Operation::Clamp { low, high }, vec![node], self.extent(node))
            }
            "softmax" | "normalize" => {
                let node = given.tensor()?;
                let operation =
                    if name == "softmax" { Operation::Softmax } else { Operation::Normalize };
                self.push(operation, vec![node], self.extent(node))
            }
            "top" => self.top(&mut given),
            "take" => {
                let (node, choice) = (given.tensor()?, given.choice()?);
                let extent = self.extent(node);
                let range = self.range(choice);
                if extent.parts.is_some() || extent.length != range {
                    return Err(format!("takes one vector of {range} numbers, found {extent}"));
                }
                self.push(Operation::Gather, vec![node, choice], self.extent(choice))
            }
            "mix" => {
                let (node, shares) = (given.tensor()?, given.tensor()?);
                let (extent, by) = (self.extent(node), self.extent(shares));
                if by.parts.is_some() || extent.parts != Some(by.length) {
                    return Err(format!("cannot mix {extent} numbers with {by} weights"));
                }
                self.push(Operation::WeightedSum, vec![node, shares], Extent::run(extent.length))
            }
            "repeat" => {
                let (node, count) = (given.tensor()?, given.whole()?);
                let extent = self.extent(node);
                let parts = extent.parts.unwrap_or(1).saturating_mul(count);
                let extent = Extent { parts: Some(parts), ..extent };
                let each = given.bool_option("each", false)?;
                self.push(Operation::Repeat { count, each }, vec![node], extent)
            }
            "l2_norm" => {
                let (node, epsilon) = (given.tensor()?, given.number()?);
                if epsilon <= 0.0 {
                    return Err(format!("has the least divisor {epsilon}, expected more than 0"));
                }
                self.push(Operation::L2Norm { epsilon }, vec![node], self.extent(node))
            }
            "total" => {
                let node = given.tensor()?;
                let extent = self.extent(node).with_length(1);
                self.push(Operation::Sum, vec![node], extent)
            }
            "shift" => {
                let node = given.tensor()?;
                let ahead = given.bool_option("ahead", false)?;
                self.push(Operation::Shift { ahead }, vec![node], self.extent(node))
            }
            "constant" => {
                let numbers = given.numbers()?;
                let extent = Extent::run(u64::try_from(numbers.len()).unwrap_or(u64::MAX));
                self.push(Operation::Constant(numbers), Vec::new(), extent)
            }
            "is_token" => {
                let token = given.whole()?;
                self.push(Operation::IsToken { token }, Vec::new(), Extent::run(1))
            }
            "sinkhorn" => {
                let (node, count, epsilon) = (given.tensor()?, given.whole()?, given.number()?);
                if count == 0 {
                    return Err("divides 0 times, expected at least 1".into());
                }
                let operation = Operation::Sinkhorn { count, epsilon };
                self.push(operation, vec![node], self.extent(node))
            }
            "choice" => {
                let (node, range) = (given.tensor()?, given.whole()?);
                let extent = self.extent(node);
                if extent.parts.is_some() || extent.length > range {
                    return Err(format!("cannot select {extent} of {range}"));
                }
                self.push(Operation::Choice { range }, vec![node], extent)
            }
            "pool" => self.pool(&mut given),
            "pick" => self.pick(&mut given),
            "by_position" => self.by_position(&mut given),
            "conv" => self.conv(&mut given),
            "source_vectors" => {
                let extent = Extent::run(given.whole()?);
                self.push_of_source(Operation::SourceVectors, extent)
            }
            "linear_taps" => self.linear_taps(&mut given),
            "recurrence" => self.recurrence(&mut given),
            _ => Err("is not an operation".into()),
        }
    }

    fn top(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (node, count) = (given.tensor()?, given.whole()?);
        let extent = self.extent(node);
        let [all, used] = [given.whole_option("groups")?, given.whole_option("used_groups")?];
        let mut considered = extent.length;
        let mut groups = None;
        if all > 0 {
            let size = extent.length.checked_div(all).unwrap_or(0);
            if size < 2 || size.checked_mul(all) != Some(extent.length) || used == 0 || used > all {
                return Err(format!(
                    "cannot use {used} of {all} groups of {extent} numbers, expected equal groups \
                     of at least 2"
                ));
            }
            considered = size.saturating_mul(used);
            groups = Some(Groups { count: all, used });
        }
        if extent.parts.is_some() || count > considered {
            return Err(format!("cannot select {count} of {extent} numbers"));
        }
        let shared = given.optional_whole("shared")?.unwrap_or(1);
        if shared == 0 {
            return Err("has shared = 0, expected at least 1".into());
        }
        self.push(Operation::Top { count, groups, shared }, vec![node], Extent::run(count))
    }

    /// Returns the number of experts that indices refer to.
    fn range(&self, choice: usize) -> u64 {
        let shared = match self.made_by(choice) {
            Some(Operation::Choice { range }) => return *range,
            Some(Operation::Top { shared, .. }) => *shared,
            _ => 1,
        };
        let chosen_from = self.input(choice);
        chosen_from.map_or(0, |node| self.extent(node).length.div_ceil(shared.max(1)))
    }

    pub(super) fn same(&self, left: usize, right: usize) -> Outcome<Extent> {
        let (a, b) = (self.extent(left), self.extent(right));
        if a == b {
            Ok(a)
        } else {
            Err(format!("takes two operands of one size, found {a} and {b}"))
        }
    }

    fn rows(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (name, mut rows) = (given.weight()?, given.rows()?);
        if given.bool_option("cyclic", false)? {
            if rows != Rows::Positions {
                return Err("has cyclic = true, which needs positions".into());
            }
            rows = Rows::Cyclic;
        }
        let table = self.matrix(&name, 2)?;
        let extent = Extent::run(self.dimension(table, 0));
        if let Rows::Fixed(row) = rows
            && row >= self.dimension(table, 1)
        {
            let (name, rows) = (self.weights.name(table), self.dimension(table, 1));
            return Err(format!("uses row {row} of {name}, which has {rows} rows"));
        }
        let operation = Operation::Rows { table, rows };
        if given.bool_option("source", false)? {
            self.push_of_source(operation, extent)
        } else {
            self.push(operation, Vec::new(), extent)
        }
    }

    fn linear(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (name, node) = (given.weight()?, given.tensor()?);
        let matrix = self.matrix(&name, 2)?;
        let (columns, rows) = (self.dimension(matrix, 0), self.dimension(matrix, 1));
        let extent = self.extent(node);
        if extent.length != columns {
            return Err(self.misfit(matrix, extent));
        }
        let scale = self.scale(&name, &[1])?;
        let bias = self.bias(&name, &[rows])?;
        let operation = Operation::Linear { matrix, scale, bias };
        self.push(operation, vec![node], extent.with_length(rows))
    }

    fn linear_of(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (name, node, choice) = (given.weight()?, given.tensor()?, given.choice()?);
        let matrix = self.matrix(&name, 3)?;
        let [columns, rows, experts] = [0, 1, 2].map(|number| self.dimension(matrix, number));
        let (extent, chosen) = (self.extent(node), self.extent(choice).length);
        if extent.length != columns || extent.parts.is_some_and(|parts| parts != chosen) {
            return Err(self.misfit(matrix, extent));
        }
        let range = self.range(choice);
        if range != experts {
            let name = self.weights.name(matrix);
            return Err(format!("selects among {range} experts, but {name} has {experts}"));
        }
        let scale = self.scale(&name, &[experts])?;
        let bias = self.bias(&name, &[rows, experts])?;
        let operation = Operation::ExpertLinear { matrix, scale, bias };
        let extent = Extent { parts: Some(chosen), length: rows };
        self.push(operation, vec![node, choice], extent)
    }

    fn linear_heads(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (name, node) = (given.weight()?, given.tensor()?);
        let matrix = self.matrix(&name, 3)?;
        let [columns, mut rows, mut heads] = [0, 1, 2].map(|number| self.dimension(matrix, number));
        let extent = self.extent(node);
        let parts = extent.parts.unwrap_or(1);
        // The matrices of all heads may be one matrix.
        if heads == 1 && rows.checked_rem(parts) == Some(0) {
            (rows, heads) = (rows.checked_div(parts).unwrap_or(0), parts);
        }
        if extent.length != columns || parts != heads {
            return Err(self.misfit(matrix, extent));
        }
        self.push(Operation::HeadLinear { matrix }, vec![node], extent.with_length(rows))
    }

    fn norm(&mut self, is_rms: bool, given: &mut Argument<'_>) -> Outcome<Value> {
        let (node, name, epsilon) = (given.tensor()?, given.optional_weight()?, given.number()?);
        let extent = self.extent(node);
        let (mut weight, mut bias) = (None, None);
        if let Some(name) = name {
            let found = self.plain(&name)?;
            let dimensions = self.weights.dimensions(found).to_vec();
            if dimensions != [extent.length] && !matches_parts(&dimensions, extent) {
                return Err(self.misfit(found, extent));
            }
            bias = self.bias(&name, &dimensions)?;
            weight = Some(found);
        }
        if is_rms && bias.is_some() {
            return Err("has a bias, which this normalization does not have".into());
        }
        let operation = if is_rms {
            Operation::RmsNorm { weight, epsilon }
        } else {
            Operation::LayerNorm { weight, bias, epsilon }
        };
        self.push(operation, vec![node], extent)
    }

    fn rope(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let (node, style) = (given.tensor()?, given.text()?);
        let (length, base) = (given.whole()?, given.number()?);
        let style = match style.as_str() {
            Some("pairs") => RopeStyle::Pairs,
            Some("halves") => RopeStyle::Halves,
            _ => return Err(format!("has the style {style}, expected 'pairs' or 'halves'")),
        };
        let extent = self.extent(node);
        if length.checked_rem(2) != Some(0) || length > extent.length || length == 0 {
            return Err(format!(
                "rotates {length} of {extent} numbers, expected a positive even number of at most \
                 that many"
            ));
        }
        if base <= 0.0 {
            return Err(format!("has the base {base}, expected a positive number"));
        }
        let factors = match given.weight_option("factors")? {
            Some(name) => Some(self.plain(&name)?),
            None => None,
        };
        // The tensor may have factors for all elements of a part, of which fewer are rotated.
        if let Some(factors) = factors
            && !matches!(self.weights.dimensions(factors), &[count] if count >= length >> 1)
        {
            return Err(self.misfit(factors, extent.with_length(length)));
        }
        let yarn = given.numbers_option("yarn")?;
        let yarn = yarn.map(|[context, fast, slow, share]| Yarn { context, fast, slow, share });
        let operation = Operation::Rope(Rope {
            style,
            length,
            base,
            factors,
            scale: given.number_option("scale", 1.0)?,
            magnitude: given.number_option("magnitude", 1.0)?,
            yarn,
            back: given.bool_option("back", false)?,
        });
        self.push(operation, vec![node], extent)
    }

    /// Splits each part into consecutive slices, which must cover it.
    fn parts(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let node = given.tensor()?;
        let extent = self.extent(node);
        let (mut values, mut start) = (Vec::new(), 0u64);
        while let Ok(value) = given.next() {
            let length = value.known()?;
            let length = length.as_u64().filter(|&length| length > 0);
            let length = length.ok_or("takes lengths that are positive integers")?;
            values.push(self.push(
                Operation::Slice { start },
                vec![node],
                extent.with_length(length),
            )?);
            start = start.saturating_add(length);
        }
        if start != extent.length {
            return Err(format!(
                "divides {extent} numbers into parts with {start} numbers in total"
            ));
        }
        Ok(Value::List(values))
    }
}

/// Returns `true` if `single` has a single element where `other` has several, so that it is broadcast.
fn repeats(single: Extent, other: Extent) -> bool {
    single.length == 1 && (single.parts == other.parts || single.parts.is_none())
}

/// Returns `true` if a weight has a number per element of all parts.
fn matches_parts(dimensions: &[u64], extent: Extent) -> bool {
    extent.parts.is_some_and(|parts| dimensions == [extent.length, parts])
        || dimensions == [extent.elements()]
}

fn without_last_ones(mut dimensions: &[u64]) -> &[u64] {
    while let [rest @ .., 1] = dimensions {
        dimensions = rest;
    }
    dimensions
}

fn without_ones(dimensions: &[u64]) -> Vec<u64> {
    dimensions.iter().copied().filter(|&dimension| dimension != 1).collect()
}

/// Formats dimensions for messages.
fn shown(dimensions: &[u64]) -> String {
    let shown: Vec<String> = dimensions.iter().map(u64::to_string).collect();
    if shown.is_empty() { "1".into() } else { shown.join(" × ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_number_is_repeated() {
        assert!(repeats(Extent::run(1), Extent::run(8)));
        assert!(!repeats(Extent::run(2), Extent::run(8)));
        let parts = Extent { parts: Some(3), length: 8 };
        assert!(repeats(parts.with_length(1), parts) && repeats(Extent::run(1), parts));
        assert!(matches_parts(&[8, 3], parts) && !matches_parts(&[3, 8], parts));
    }
}
