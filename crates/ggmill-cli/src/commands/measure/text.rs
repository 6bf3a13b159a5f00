//! Measurements as text.

use std::io::{self, Write};

use ggmill_inspect::text::{Column, Options, Table, write_paragraph};
use ggmill_run::{Distribution, Estimate, Measurement};

use crate::counted::counted;

/// The measurements of models, with their names.
pub(super) struct Text<'a> {
    pub(super) models: Vec<(&'a str, &'a Measurement)>,
    pub(super) base: Option<&'a str>,
    pub(super) context: usize,
}

impl Text<'_> {
    pub(super) fn write(&self, out: &mut dyn Write, options: &Options) -> io::Result<()> {
        let Some((name, first)) = self.models.first() else { return Ok(()) };
        let several = self.models.len() > 1;
        if !several {
            writeln!(out, "{name}")?;
        }
        let counts = format!(
            "{} of {} tokens, {} counted",
            counted(first.chunks, "chunk"),
            self.context,
            counted(first.counted, "token")
        );
        if several {
            write_paragraph(out, &counts, options)?;
            writeln!(out)?;
            return self.side_by_side(out, options);
        }
        let indent = options.width.map(|width| width.saturating_sub(2));
        let mut lines = Vec::new();
        write_paragraph(&mut lines, &counts, &options.with_width(indent))?;
        for line in String::from_utf8_lossy(&lines).lines() {
            writeln!(out, "  {line}")?;
        }
        writeln!(out)?;
        alone(first, out, options)
    }

    /// Writes a table with a row for each model.
    fn side_by_side(&self, out: &mut dyn Write, options: &Options) -> io::Result<()> {
        let first = self.models.first().map(|(_, first)| *first);
        let compared = first.and_then(|first| first.comparison.as_ref());
        let columns: &[Column<'_>] = match first {
            Some(first) if first.similarity.is_some() => {
                &[Column::Number("cosine"), Column::Number("its 1%"), Column::Number("its min")]
            }
            Some(first) if first.comparison.is_some() => &[
                Column::Number("perplexity"),
                Column::Number("KL divergence"),
                Column::Number("its 99%"),
                Column::Number("same top"),
            ],
            _ => &[Column::Number("perplexity")],
        };
        let mut table = Table::new("model", columns);
        if let (Some(name), Some(compared)) = (self.base, compared) {
            let none = || "–".to_owned();
            let cells = [with_error(&compared.base_perplexity, 4), none(), none(), none()];
            table.add(&format!("{name} (base)"), cells);
        }
        for (name, measured) in &self.models {
            let mut cells = Vec::new();
            cells.extend(measured.perplexity.as_ref().map(|it| with_error(it, 4)));
            if let Some(found) = &measured.comparison {
                cells.push(with_error(&found.divergence.mean, 6));
                cells.push(format!("{:.6}", found.divergence.quantile(0.99)));
                cells.push(format!("{:.2}%", found.same_top.value * 100.0));
            }
            if let Some(found) = &measured.similarity {
                cells.push(with_error(&found.cosine.mean, 6));
                cells.extend([0.01, 0.0].map(|it| format!("{:.6}", found.cosine.quantile(it))));
            }
            table.add(name, cells);
        }
        table.write(out, options)
    }
}

/// Writes all numbers of one model.
fn alone(measured: &Measurement, out: &mut dyn Write, options: &Options) -> io::Result<()> {
    let mut table = Table::new("", &[Column::Number("")]).with_indent(2);
    let mut line = |name: &str, estimate: &Estimate, digits| {
        table.add(name, [with_error(estimate, digits)]);
    };
    if let Some(perplexity) = &measured.perplexity {
        line("perplexity", perplexity, 4);
    }
    if let Some(comparison) = &measured.comparison {
        line("perplexity of the base", &comparison.base_perplexity, 4);
        line("their ratio", &comparison.ratio, 6);
        line("KL divergence", &comparison.divergence.mean, 6);
        line("same most probable token", &comparison.same_top, 4);
        line("change of probability", &comparison.probability_change.mean, 6);
        line("its root mean square", &comparison.probability_rms, 6);
    }
    if let Some(similarity) = &measured.similarity {
        line("cosine of embeddings", &similarity.cosine.mean, 6);
    }
    table.write(out, options)?;
    let (columns, distributions): (Vec<Column<'_>>, Vec<&Distribution>) =
        match (&measured.comparison, &measured.similarity) {
            (Some(found), _) => (
                vec![Column::Number("KL divergence"), Column::Number("Δ probability")],
                vec![&found.divergence, &found.probability_change],
            ),
            (None, Some(found)) => (vec![Column::Number("cosine")], vec![&found.cosine]),
            (None, None) => return Ok(()),
        };
    writeln!(out)?;
    let mut table = Table::new("", &columns).with_indent(2);
    for (name, share) in Distribution::SHARES {
        let quantiles = distributions.iter().map(|it| format!("{:.6}", it.quantile(share)));
        table.add(name, quantiles);
    }
    table.write(out, options)
}

fn with_error(estimate: &Estimate, digits: usize) -> String {
    format!("{:.digits$} ± {:.digits$}", estimate.value, estimate.error)
}
