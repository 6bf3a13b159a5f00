//! The report as a self-contained HTML page without scripts. Text from a model is escaped twice: for
//! readers, then for HTML.

use std::fmt;
use std::io::{self, Write};

use ggmill_core::{GgmlType, RawStr};
use ggmill_text::html::{COLOURS, Escaped, write_head};

use super::text::{human_summary, percent, results, scientific};
use super::{LossReport, Row};
use crate::human::{self, counted, grouped};

const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem;margin:0;overflow-wrap:anywhere}p{margin:.3rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.15rem .5rem;white-space:nowrap}
th:first-child,td:first-child{text-align:left;font-family:ui-monospace,monospace;font-size:.85em;\
                     white-space:normal}
tr:nth-child(even){background:#8881}thead th{border-bottom:1px solid \
                     #8888;position:sticky;top:0;background:Canvas}
svg{display:block;width:100%;height:auto;margin:.5rem 0 1.5rem}svg text{font:12px \
                     system-ui,sans-serif;fill:currentColor}
td svg{width:8rem;height:.8rem;margin:0;display:inline-block;vertical-align:middle}
.type{display:inline-block;margin-right:1em}
.key{display:inline-block;width:.8em;height:.8em;margin-right:.3em}
@media(max-width:45rem){.scroll{overflow-x:auto}.more{display:none}th,td{padding:.15rem .3rem}.scroll svg{min-width:40rem}\
                     td svg{min-width:0!important;width:3rem}}
";

/// Writes the page. Fails if `out` fails.
pub fn write(out: &mut dyn Write, report: &LossReport<'_>) -> io::Result<()> {
    let name = RawStr::from(report.output);
    write_head(out, format_args!("Quantization errors of {name}"), STYLE)?;
    let (weights, size) = (report.weights(), report.size());
    writeln!(out, "<h1>{}</h1>\n<p><b>{}</b></p>", Escaped(name), Escaped(human_summary(report)))?;
    provenance(out, report)?;
    let tensors = counted(report.rows().len() as u64, "tensor");
    writeln!(
        out,
        "<p>{tensors} of {} weights, {} ({} bytes)</p>",
        human::count(weights.into()),
        human::bytes(size.into()),
        grouped(size)
    )?;
    let types = report.types();
    let colour = |wanted: GgmlType| {
        let place = types
            .iter()
            .position(|&(ggml_type, ..)| ggml_type == wanted)
            .unwrap_or(COLOURS.len() - 1);
        COLOURS[place.min(COLOURS.len() - 1)]
    };
    shares(out, report, &types, &colour)?;
    errors(out, report, &colour)?;
    table(out, report, &colour)?;
    writeln!(
        out,
        "<p>Errors are the square roots of noise-to-signal ratios{}.{}</p>\n</html>",
        if report.is_weighted() { ", weighted by importance where available" } else { "" },
        if report.has_results() { RESULTS } else { "" }
    )
}

/// The explanation of the column of results.
const RESULTS: &str = " Results: the error of what a matrix computes on held-out text, rounded weight \
                       by weight and as written.";

/// Writes the sources of the figures: the quantized file, the importance matrix and the program.
fn provenance(out: &mut dyn Write, report: &LossReport<'_>) -> io::Result<()> {
    let Some(input) = report.input else { return Ok(()) };
    write!(
        out,
        "<p>The error of each tensor of {} against {}",
        Escaped(RawStr::from(report.output)),
        Escaped(RawStr::from(input))
    )?;
    match report.imatrix {
        Some(imatrix) => {
            write!(out, ", with the importance matrix {}", Escaped(RawStr::from(imatrix)))?;
        }
        None => write!(out, ", without an importance matrix")?,
    }
    if let Some(program) = report.program {
        write!(out, "; measured by {}", Escaped(RawStr::from(program)))?;
    }
    writeln!(out, "</p>")
}

/// Writes a bar with the share of each type in the bytes.
fn shares(
    out: &mut dyn Write,
    report: &LossReport<'_>,
    types: &[(GgmlType, u64, u64)],
    colour: &dyn Fn(GgmlType) -> &'static str,
) -> io::Result<()> {
    writeln!(out, "<svg viewBox=\"0 0 1000 24\" role=\"img\" aria-label=\"bytes by type\">")?;
    let mut at = 0.0;
    for &(ggml_type, _, size) in types {
        let width = super::as_f64(size) / super::as_f64(report.size().max(1)) * 1000.0;
        writeln!(
            out,
            "<rect x=\"{at:.2}\" y=\"0\" width=\"{width:.2}\" height=\"24\" \
             fill=\"{}\"><title>{ggml_type}</title></rect>",
            colour(ggml_type)
        )?;
        at += width;
    }
    writeln!(out, "</svg>\n<p>")?;
    for &(ggml_type, weights, size) in types {
        let bits = super::bits(size, weights);
        let key =
            format_args!("<span class=\"key\" style=\"background:{}\"></span>", colour(ggml_type))
                .to_string();
        let size = human::bytes(size.into());
        writeln!(out, "<span class=\"type\">{key}{ggml_type} {size} at {bits:.2} bits</span>")?;
    }
    writeln!(out, "</p>")
}

/// Writes a chart with the error of each tensor on a logarithmic scale, in the order of the file.
fn errors(
    out: &mut dyn Write,
    report: &LossReport<'_>,
    colour: &dyn Fn(GgmlType) -> &'static str,
) -> io::Result<()> {
    const LEFT: f64 = 60.0;
    const TOP: f64 = 10.0;
    const WIDE: f64 = 930.0;
    const HIGH: f64 = 220.0;
    let lossy = || report.rows().iter().map(Row::error).filter(|&error| error > 0.0);
    let (least, most) = lossy()
        .fold((f64::INFINITY, 0.0f64), |(least, most), error| (least.min(error), most.max(error)));
    if most <= 0.0 {
        return writeln!(out, "<p>There are no errors.</p>");
    }
    let (floor, ceiling) =
        (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0));
    let height = |error: f64| ((error.log10() - floor) / (ceiling - floor)).clamp(0.0, 1.0) * HIGH;
    writeln!(
        out,
        "<div class=\"scroll\"><svg viewBox=\"0 0 1000 {:.0}\" role=\"img\" aria-label=\"error of each tensor\">",
        TOP + HIGH + 20.0
    )?;
    let mut power = floor;
    while power <= ceiling {
        let y = TOP + HIGH - (power - floor) / (ceiling - floor) * HIGH;
        writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{:.0}\" stroke=\"#8886\"/><text x=\"{:.0}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            LEFT + WIDE,
            LEFT - 6.0,
            y + 4.0,
            power_of_ten(power)
        )?;
        power += 1.0;
    }
    let step = WIDE / super::as_f64(report.rows().len().max(1) as u64);
    let mut x = LEFT;
    for row in report.rows() {
        if row.error() > 0.0 {
            let high = height(row.error()).max(1.0);
            let (y, wide) = (TOP + HIGH - high, (step * 0.85).max(0.2));
            write!(
                out,
                "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{wide:.2}\" height=\"{high:.1}\" \
                 fill=\"{}\">",
                colour(row.to)
            )?;
            writeln!(
                out,
                "<title>{} {} {}</title></rect>",
                Escaped(row.name),
                row.to,
                percent(row.error())
            )?;
        }
        x += step;
    }
    writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{:.0}\">error of each tensor, in the order of the \
         file</text>\n</svg></div>",
        TOP + HIGH + 16.0
    )
}

/// Formats a power of ten as a percentage in plain decimals: `0.001%`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few decimals")]
fn power_of_ten(power: f64) -> String {
    let decimals = (-(power + 2.0)).clamp(0.0, 40.0) as usize;
    format!("{:.decimals$}%", 10f64.powf(power + 2.0))
}

fn table(
    out: &mut dyn Write,
    report: &LossReport<'_>,
    colour: &dyn Fn(GgmlType) -> &'static str,
) -> io::Result<()> {
    let weighted = report.is_weighted();
    write!(out, "<div class=\"scroll\"><table>\n<thead><tr><th>tensor<th class=\"more\">shape")?;
    write!(out, "<th class=\"more\">was<th>is<th class=\"more\">bits<th class=\"more\">RMSE")?;
    writeln!(
        out,
        "{}<th>error<th>share of loss{}<th></tr></thead>\n<tbody>",
        if weighted { "<th class=\"more\">weighted RMSE" } else { "" },
        if report.has_results() { "<th class=\"more\">results" } else { "" }
    )?;
    let largest = report.largest_error();
    for row in report.rows() {
        write!(
            out,
            "<tr><td>{}<td class=\"more\">{}<td class=\"more\">{}<td>{}",
            Breakable(row.name),
            row.shape,
            row.from,
            row.to
        )?;
        write!(
            out,
            "<td class=\"more\">{:.2}<td class=\"more\">{}",
            row.bits(),
            scientific(row.rmse)
        )?;
        match row.weighted_rmse {
            Some(error) => write!(out, "<td class=\"more\">{}", scientific(error))?,
            None if weighted => write!(out, "<td class=\"more\">–")?,
            None => {}
        }
        let part = if largest > 0.0 { row.error() / largest * 100.0 } else { 0.0 };
        write!(out, "<td>{}<td>{}", percent(row.error()), percent(report.share(row)))?;
        if report.has_results() {
            write!(out, "<td class=\"more\">{}", results(row))?;
        }
        let bar =
            format_args!("<rect width=\"{part:.1}\" height=\"10\" fill=\"{}\"/>", colour(row.to))
                .to_string();
        writeln!(
            out,
            "<td><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\">{bar}</svg></tr>"
        )?;
    }
    writeln!(out, "</tbody>\n</table></div>")
}

/// The name of a tensor, which may break after its dots.
struct Breakable<'a>(RawStr<'a>);

impl fmt::Display for Breakable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Escaped(self.0).to_string().replace('.', ".<wbr>"))
    }
}
