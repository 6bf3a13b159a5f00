//! Builds attention nodes from arguments and options.

use super::arguments::{Argument, Value};
use super::build::Builder;
use super::{Attention, Buckets, Extent, Operation};
use crate::language::expression::Outcome;

impl Builder<'_> {
    pub(super) fn attention(&mut self, given: &mut Argument<'_>) -> Outcome<Value> {
        let [queries, keys, values] = [given.tensor()?, given.tensor()?, given.tensor()?];
        let scale = given.number()?;
        let [q, k, v] = [queries, keys, values].map(|node| self.extent(node));
        let parts = |extent: Extent| extent.parts.unwrap_or(1);
        let fits = q.length == k.length
            && parts(k) == parts(v)
            && parts(q).checked_rem(parts(k)) == Some(0);
        if !fits {
            return Err(format!(
                "cannot combine queries of {q}, keys of {k} and values of {v} numbers"
            ));
        }
        let sinks = match given.weight_option("sinks")? {
            Some(name) => Some(self.plain(&name)?),
            None => None,
        };
        if let Some(sinks) = sinks
            && self.weights.dimensions(sinks) != [parts(q)]
        {
            return Err(self.misfit(sinks, q));
        }
        let picks = given.picks_option("picks")?;
        let mut inputs = vec![queries, keys, values];
        let runs = self.runs(given, [k, v])?;
        let attention = Attention {
            scale,
            causal: given.bool_option("causal", true)?,
            window: given.whole_option("window")?,
            softcap: given.number_option("softcap", 0.0)?,
            alibi: given.number_option("alibi", 0.0)?,
            sinks,
            ahead: given.optional_whole("ahead")?,
            chunk: given.whole_option("chunk")?,
            buckets: self.buckets(given, q)?,
            picks: picks.is_some(),
            run: runs.map_or(0, |(run, _)| run),
        };
        if runs.is_some()
            && (!attention.causal || attention.chunk > 0 || attention.is_by_distance())
        {
            return Err(
                "has runs, which need causal attention without chunks, and scores that depend on \
                 no distance"
                    .into(),
            );
        }
        if let Some(picks) = picks {
            let found = self.extent(picks).parts.unwrap_or(1);
            if found != 1 && found != parts(k) {
                return Err(format!("has the picks of {found} heads, expected 1 or {}", parts(k)));
            }
            let has_window = attention.window > 0 && runs.is_none();
            if !attention.causal || has_window || attention.chunk > 0 {
                return Err("has picks, which need causal attention without other masks".into());
            }
            let are_runs = |run: u64| {
                let of = self.made_by(picks);
                matches!(of, Some(Operation::SelectTokens(of)) if of.whole && of.block == run)
            };
            if runs.is_some_and(|(run, _)| !are_runs(run)) {
                return Err("has runs, and picks that are not of whole runs of this length".into());
            }
            inputs.push(picks);
        }
        if let Some((_, runs)) = runs {
            inputs.extend(runs);
        }
        let length = parts(q).saturating_mul(v.length);
        self.push(Operation::Attention(attention), inputs, Extent::run(length))
    }

    /// Returns the run length, and the nodes of pooled keys and values, if the options are given.
    fn runs(
        &mut self,
        given: &mut Argument<'_>,
        [k, v]: [Extent; 2],
    ) -> Outcome<Option<(u64, [usize; 2])>> {
        let keys = given.tensor_option("run_keys")?;
        let values = given.tensor_option("run_values")?;
        match (given.optional_whole("run")?, keys, values) {
            (None, None, None) => Ok(None),
            (Some(run), Some(keys), Some(values)) if run > 0 => {
                let found = [keys, values].map(|node| self.extent(node));
                if found != [k, v] {
                    let [keys, values] = found;
                    return Err(format!(
                        "has keys of {k} and values of {v} numbers, but those of runs have {keys} \
                         and {values}"
                    ));
                }
                Ok(Some((run, [keys, values])))
            }
            _ => Err("has one of run, run_keys and run_values without the others".into()),
        }
    }

    /// Returns the relative position buckets, if the options are given. At least two buckets per
    /// direction, and a distance above their number, are required.
    fn buckets(&mut self, given: &mut Argument<'_>, queries: Extent) -> Outcome<Option<Buckets>> {
        let distance = given.optional_whole("distance")?;
        let Some(name) = given.weight_option("buckets")? else {
            return if distance.is_some() {
                Err("has distance, which is an option of buckets".to_owned())
            } else {
                Ok(None)
            };
        };
        let weight = self.plain(&name)?;
        let &[heads, count] = self.weights.dimensions(weight) else {
            return Err(self.misfit(weight, queries));
        };
        if heads != queries.parts.unwrap_or(1) {
            return Err(self.misfit(weight, queries));
        }
        let distance = distance.unwrap_or(Buckets::DISTANCE);
        if count < 4 || distance <= count {
            return Err(format!(
                "has {count} buckets up to a distance of {distance}, expected at least 4, and a \
                 distance above their number"
            ));
        }
        Ok(Some(Buckets { weight, count, distance }))
    }
}
