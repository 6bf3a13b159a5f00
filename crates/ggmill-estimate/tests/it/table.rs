//! The deviation of compute buffers from a record, by architecture.

use std::collections::BTreeMap;

use ggmill_estimate::Device;

use crate::devices::Case;

/// Cases of an architecture.
#[derive(Default)]
struct Row {
    cases: usize,
    known: usize,
    /// Buffers of a device: all, equal, within 1 % and within 10 %.
    buffers: usize,
    equal: usize,
    near: usize,
    far: usize,
    /// The minimum and maximum of the total of a case.
    least: f64,
    most: f64,
}

/// Cases by architecture, and those that deviate too much.
#[derive(Default)]
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
    pub(crate) wrong: Vec<String>,
    /// Those with a buffer that differs.
    unequal: Vec<String>,
}

/// Sums of a table.
#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) architectures: usize,
    pub(crate) known: usize,
    pub(crate) equal: usize,
    pub(crate) near: usize,
    pub(crate) far: usize,
}

impl Table {
    /// Adds the result of a case, if it is known. The total may exceed the reference by the ratio `limit`.
    pub(crate) fn add(
        &mut self,
        architecture: &str,
        case: &Case,
        found: Option<&[Device]>,
        limit: f64,
    ) {
        let row = self.rows.entry(architecture.to_owned()).or_default();
        row.cases += 1;
        let Some(found) = found else { return };
        row.known += 1;
        #[expect(clippy::cast_precision_loss, reason = "a quotient is wanted")]
        let part = |found: u64, expected: u64| found as f64 / expected.max(1) as f64 - 1.0;
        let mut shown = Vec::new();
        for (found, [_, _, expected]) in found.iter().zip(case.expected) {
            if expected == 0 && found.compute == 0 {
                continue;
            }
            let part = part(found.compute, expected);
            row.buffers += 1;
            row.equal += usize::from(found.compute == expected);
            row.near += usize::from(part.abs() <= 0.01);
            row.far += usize::from(part.abs() > 0.1);
            shown.push(format!("{} for {expected} ({part:+.3})", found.compute));
        }
        let ours = found.iter().map(|device| device.compute).sum();
        let compute = part(ours, case.expected.iter().map(|device| device[2]).sum());
        let expected = case.expected.iter().flatten().sum();
        let total = part(found.iter().map(|device| device.total() - device.output).sum(), expected);
        (row.least, row.most) = (row.least.min(compute), row.most.max(compute));
        let shown = format!(
            "{}, {}: {compute:+.3} of compute, {total:+.4} of all: {}",
            case.model,
            case.placement,
            shown.join(", ")
        );
        if total > limit || total < -0.01 {
            self.wrong.push(shown.clone());
        }
        if found
            .iter()
            .zip(case.expected)
            .any(|(found, [_, _, expected])| found.compute != expected)
        {
            self.unequal.push(shown);
        }
    }

    /// Prints the table and the cases that are not equal, and returns the sums.
    pub(crate) fn print(&self) -> Sums {
        println!(
            "| architecture | cases | known | buffers | equal | within 1 % | beyond 10 % | least | most |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|"
        );
        for (architecture, row) in self.rows.iter().filter(|(_, row)| row.known > 0) {
            println!(
                "| {architecture} | {} | {} | {} | {} | {} | {} | {:+.2} % | {:+.2} % |",
                row.cases,
                row.known,
                row.buffers,
                row.equal,
                row.near,
                row.far,
                row.least * 100.0,
                row.most * 100.0
            );
        }
        let rows: Vec<_> = self.rows.values().filter(|row| row.known > 0).collect();
        let sum = |of: fn(&Row) -> usize| rows.iter().map(|row| of(row)).sum::<usize>();
        let sums = Sums {
            architectures: rows.len(),
            known: sum(|row| row.known),
            equal: sum(|row| row.equal),
            near: sum(|row| row.near),
            far: sum(|row| row.far),
        };
        println!(
            "{} architectures, {} cases known, {} buffers, {} equal, {} within 1 %, {} beyond 10 %",
            sums.architectures,
            sums.known,
            sum(|row| row.buffers),
            sums.equal,
            sums.near,
            sums.far
        );
        println!("{}", self.unequal.join("\n"));
        sums
    }
}
