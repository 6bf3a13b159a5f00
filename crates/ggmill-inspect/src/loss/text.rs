//! The report as text.

use std::io::{self, Write};

use super::{LossReport, Row};
use crate::human::{self, counted};
use crate::text::Options;
use crate::text::layout::{Padded, Styles, cut_middle, width};
use crate::text::summary::bar_of;

/// The maximum columns of a name without a terminal.
const MAX_NAME_LEN: usize = 64;
/// The columns of a bar.
const BAR: usize = 20;

/// Writes a table of all tensors and the totals. Uses the options `width` and `styled`.
pub fn write(out: &mut dyn Write, report: &LossReport<'_>, options: &Options) -> io::Result<()> {
    let Styles { title, faint, type_name, bar, .. } = Styles::new(options.styled);
    let rows: Vec<[String; 7]> = report.rows().iter().map(|row| cells(row, report)).collect();
    let weighted = if report.is_weighted() { "weighted" } else { "" };
    let of_text = if report.has_results() { "results" } else { "" };
    let heads = ["tensor", "type", "bits", "rmse", weighted, "error", of_text];
    let column = |number: usize| {
        rows.iter().map(|row| width(&row[number])).chain([heads[number].len()]).max().unwrap_or(0)
    };
    let others: usize = (1..heads.len()).map(|number| column(number) + 2).sum();
    let room =
        options.width.map_or(MAX_NAME_LEN, |width| width.saturating_sub(others + BAR + 2).max(16));
    let name_width = column(0).min(room);
    let line = |out: &mut dyn Write, cells: &[String; 7], share: Option<f64>| -> io::Result<()> {
        let name = cut_middle(cells[0].clone(), name_width);
        write!(
            out,
            "{}  {type_name}{}{type_name:#}",
            Padded(&name, name_width),
            Padded(&cells[1], column(1))
        )?;
        for (number, cell) in
            cells.iter().enumerate().skip(2).filter(|(number, _)| column(*number) > 0)
        {
            write!(out, "  {:>}", Padded(cell, column(number)))?;
        }
        match share {
            Some(share) if share > 0.0 => writeln!(out, "  {bar}{}{bar:#}", bar_of(share, BAR)),
            _ => writeln!(out),
        }
    };
    write!(out, "{faint}")?;
    line(out, &heads.map(str::to_owned), None)?;
    write!(out, "{faint:#}")?;
    let largest = report.largest_error();
    for (row, cells) in report.rows().iter().zip(&rows) {
        line(out, cells, Some(if largest > 0.0 { row.error() / largest } else { 0.0 }))?;
    }
    let (count, weights, size) = (report.rows().len() as u64, report.weights(), report.size());
    writeln!(out, "\n{title}{}{title:#}", human_summary(report))?;
    writeln!(
        out,
        "{faint}{} of {} weights, {}; errors are square roots of noise-to-signal ratios{}{faint:#}",
        counted(count, "tensor"),
        human::count(weights.into()),
        human::bytes(size.into()),
        if report.is_weighted() { ", weighted by importance where available" } else { "" }
    )?;
    if report.has_results() {
        writeln!(
            out,
            "{faint}results: the error of what a matrix computes on held-out text, rounded weight by \
             weight → as written{faint:#}"
        )?;
    }
    Ok(())
}

/// Returns a summary: `4.53 bits per weight, error 3.12%`.
pub(super) fn human_summary(report: &LossReport<'_>) -> String {
    format!(
        "{:.3} bits per weight, error {}",
        report.bits_per_weight(),
        percent(report.relative().sqrt())
    )
}

fn cells(row: &Row<'_>, report: &LossReport<'_>) -> [String; 7] {
    let weighted = match row.weighted_rmse {
        _ if !report.is_weighted() => String::new(),
        Some(error) => scientific(error),
        None => "–".to_owned(),
    };
    let results = if report.has_results() { results(row) } else { String::new() };
    let types = if row.from == row.to {
        row.to.to_string()
    } else {
        format!("{} → {}", row.from, row.to)
    };
    [
        row.name.to_string(),
        types,
        format!("{:.2}", row.bits()),
        scientific(row.rmse),
        weighted,
        percent(row.error()),
        results,
    ]
}

/// Formats the errors of the results of a matrix: `9.120% → 6.331%`, or a dash.
pub(super) fn results(row: &Row<'_>) -> String {
    match row.results {
        Some([plain, written]) => {
            format!("{} → {}", percent(plain.sqrt()), percent(written.sqrt()))
        }
        None => "–".to_owned(),
    }
}

/// Formats an error: `7.059e-3`, or `0`.
pub(super) fn scientific(number: f64) -> String {
    if number > 0.0 { format!("{number:.3e}") } else { "0".to_owned() }
}

/// Formats a ratio as a percentage with three decimals.
pub(super) fn percent(part: f64) -> String {
    match part * 100.0 {
        0.0 => "0%".to_owned(),
        ..0.0005 => "<0.001%".to_owned(),
        some => format!("{some:.3}%"),
    }
}
