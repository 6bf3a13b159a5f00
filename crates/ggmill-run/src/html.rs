//! Renders measurements as a self-contained HTML page without scripts. Text from files is escaped twice:
//! control characters, then HTML.

use std::io::{self, Write};

use ggmill_core::RawStr;
use ggmill_text::html::{COLOURS, Escaped, write_head};

use crate::measure::{Distribution, Estimate, Measurement};

const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:1.5rem 0 0}
p{margin:.3rem 0}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.8rem 0}
th,td{text-align:right;padding:.15rem .5rem;white-space:nowrap;vertical-align:baseline}
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:8rem}
thead th{border-bottom:1px solid #8888}small{opacity:.7}
svg{display:block;width:100%;max-width:44rem;height:auto}
svg text{font:11px system-ui,sans-serif;fill:currentColor}
.key{display:inline-block;width:.8em;height:.8em;margin-right:.3em}
@media(max-width:45rem){table{font-size:.85em}small{display:block}th,td{padding:.15rem .3rem}\
                     th:first-child,td:first-child{min-width:5rem}}
";

/// The size of a chart, with margins for labels on the left and below.
const WIDTH: f64 = 420.0;
const LEFT: f64 = 48.0;
const TOP: f64 = 8.0;
const HEIGHT: f64 = 170.0;
/// The maximum number of decades (powers of ten) on the vertical axis.
const MAX_DECADES: f64 = 6.0;

/// A page about measurements.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    base: Option<&'a str>,
    context: usize,
    models: Vec<(&'a str, &'a Measurement)>,
    program: Option<&'a str>,
}

/// A chart with one line per model.
struct Chart<'a> {
    title: &'a str,
    axis_label: &'a str,
    /// The ends of the horizontal axis.
    ends: [String; 2],
    lines: Vec<Vec<f64>>,
}

impl<'a> Page<'a> {
    /// Returns a page of measurements with the names of the models, over chunks of `context` tokens.
    pub fn new(
        base: Option<&'a str>,
        context: usize,
        models: impl IntoIterator<Item = (&'a str, &'a Measurement)>,
    ) -> Self {
        Self { base, context, models: models.into_iter().collect(), program: None }
    }

    /// Sets the name and version of the measuring program.
    #[must_use]
    pub fn with_program(mut self, name: &'a str) -> Self {
        self.program = Some(name);
        self
    }

    /// Writes the page. Fails when `out` does.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let title = match (&*self.models, self.base) {
            ([(name, _)], None) => name.to_string(),
            ([(name, _)], Some(base)) => format!("{name} against {base}"),
            (several, None) => format!("{} models", several.len()),
            (several, Some(base)) => format!("{} models against {base}", several.len()),
        };
        let title = RawStr::from(&*title);
        write_head(out, title, STYLE)?;
        writeln!(out, "<h1>{}</h1>", Escaped(title))?;
        if let Some((_, first)) = self.models.first() {
            writeln!(
                out,
                "<p>{} chunks of {} tokens, {} tokens counted</p>",
                first.chunks, self.context, first.counted
            )?;
        }
        self.table(out)?;
        self.charts(out)?;
        write!(out, "<p><small>{}", Escaped(sentence(Measurement::ABOUT)))?;
        if let Some(program) = self.program {
            write!(out, " Measured by {}.", Escaped(RawStr::from(program)))?;
        }
        writeln!(out, "</small></p>\n</html>")
    }

    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let (has_comparison, has_similarity) =
            self.models.iter().fold((false, false), |(one, other), (_, it)| {
                (one || it.comparison.is_some(), other || it.similarity.is_some())
            });
        write!(out, "<div class=\"scroll\"><table>\n<thead><tr><th>model")?;
        if !has_similarity {
            write!(out, "<th>perplexity")?;
        }
        if has_comparison {
            write!(out, "<th>KL divergence<th>its 99%<th>same top<th>perplexity ratio")?;
        }
        if has_similarity {
            write!(out, "<th>cosine<th>its 1%<th>its min")?;
        }
        writeln!(out, "</tr></thead>\n<tbody>")?;
        let base = self.models.first().and_then(|(_, first)| first.comparison.as_ref());
        if let (Some(name), Some(first_comparison)) = (self.base, base) {
            write!(out, "<tr><td>{} <small>(base)</small>", Escaped(RawStr::from(name)))?;
            writeln!(
                out,
                "{}<td>–<td>–<td>–<td>–</tr>",
                cell(&first_comparison.base_perplexity, 4)
            )?;
        }
        for (number, (name, measured)) in self.models.iter().enumerate() {
            write!(out, "<tr><td>{}{}", legend_swatch(number), Escaped(RawStr::from(*name)))?;
            if let Some(perplexity) = &measured.perplexity {
                write!(out, "{}", cell(perplexity, 4))?;
            }
            if let Some(found) = &measured.comparison {
                let far = found.divergence.quantile(0.99);
                write!(out, "{}<td>{far:.6}", cell(&found.divergence.mean, 6))?;
                write!(out, "{}", cell(&found.same_top, 4))?;
                write!(out, "{}", cell(&found.ratio, 6))?;
            }
            if let Some(Distribution { mean, .. }) =
                measured.similarity.as_ref().map(|it| &it.cosine)
            {
                write!(out, "{}", cell(mean, 6))?;
            }
            if let Some(found) = &measured.similarity {
                let (low, least) = (found.cosine.quantile(0.01), found.cosine.quantile(0.0));
                write!(out, "<td>{low:.6}<td>{least:.6}")?;
            }
            writeln!(out, "</tr>")?;
        }
        writeln!(out, "</tbody>\n</table></div>")
    }

    /// Writes the charts, if the models were compared with a base.
    fn charts(&self, out: &mut dyn Write) -> io::Result<()> {
        let of = |each: &dyn Fn(&Measurement) -> Option<Vec<f64>>| -> Vec<Vec<f64>> {
            self.models.iter().filter_map(|(_, measured)| each(measured)).collect()
        };
        let by_chunk = of(&|measured| match (&measured.comparison, &measured.similarity) {
            (Some(found), _) => Some(found.divergence_by_chunk.clone()),
            (None, Some(found)) => {
                Some(found.cosine_by_chunk.iter().map(|cosine| 1.0 - cosine).collect())
            }
            (None, None) => None,
        });
        let shares = || (0..=100u8).map(|percent| f64::from(percent) / 100.0);
        let by_share = of(&|measured| match (&measured.comparison, &measured.similarity) {
            (Some(found), _) => {
                Some(shares().map(|share| found.divergence.quantile(share)).collect())
            }
            // The least similar are last, as for a divergence.
            (None, Some(found)) => {
                Some(shares().map(|share| 1.0 - found.cosine.quantile(1.0 - share)).collect())
            }
            (None, None) => None,
        });
        let Some(chunks) = by_chunk.first().map(Vec::len) else { return Ok(()) };
        let of_embeddings = self.models.iter().any(|(_, measured)| measured.similarity.is_some());
        let what = if of_embeddings { "1 − cosine" } else { "KL divergence" };
        let charts = [
            Chart {
                title: &format!("{what} by chunk"),
                axis_label: "chunk",
                ends: ["1".to_owned(), chunks.to_string()],
                lines: by_chunk,
            },
            Chart {
                title: &format!("{what} by percentile"),
                axis_label: "share of tokens that are not above",
                ends: ["0%".to_owned(), "100%".to_owned()],
                lines: by_share,
            },
        ];
        for chart in &charts {
            chart.write(out, &self.models)?;
        }
        Ok(())
    }
}

impl Chart<'_> {
    /// Draws the lines on a logarithmic scale. Values below the scale are drawn at its lower end.
    fn write(&self, out: &mut dyn Write, models: &[(&str, &Measurement)]) -> io::Result<()> {
        let Self { title, axis_label, ends, lines } = self;
        writeln!(out, "<h2>{title}</h2>")?;
        let positive = || lines.iter().flatten().copied().filter(|&value| value > 0.0);
        let (least, most) = positive().fold((f64::INFINITY, 0.0f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        if most <= 0.0 {
            return writeln!(out, "<p>0 everywhere</p>");
        }
        let top = most.log10().ceil();
        let floor = least.log10().floor().clamp(top - MAX_DECADES, top - 1.0);
        let height = |value: f64| {
            let part = if value > 0.0 { (value.log10() - floor) / (top - floor) } else { 0.0 };
            TOP + HEIGHT - part.clamp(0.0, 1.0) * HEIGHT
        };
        let (bottom, right) = (TOP + HEIGHT, WIDTH - 8.0);
        writeln!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{title}\">",
            bottom + 34.0
        )?;
        let mut power = floor;
        while power <= top {
            let y = height(10f64.powf(power));
            writeln!(
                out,
                "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#8886\"/><text x=\"{:.0}\" \
                 y=\"{:.1}\" text-anchor=\"end\">1e{power}</text>",
                LEFT - 5.0,
                y + 4.0
            )?;
            power += 1.0;
        }
        for (number, ((name, _), line)) in models.iter().zip(lines).enumerate() {
            let steps = line.len().saturating_sub(1).max(1) as f64;
            let place = |(at, value): (usize, &f64)| {
                format!("{:.1},{:.1}", LEFT + at as f64 / steps * (right - LEFT), height(*value))
            };
            let points: Vec<String> = line.iter().enumerate().map(place).collect();
            writeln!(
                out,
                "<polyline fill=\"none\" stroke-width=\"1.6\" stroke=\"{}\" \
                 points=\"{}\"><title>{}</title></polyline>",
                color(number),
                points.join(" "),
                Escaped(RawStr::from(*name))
            )?;
        }
        let y = bottom + 15.0;
        writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{y}\">{}</text><text x=\"{right}\" y=\"{y}\" \
             text-anchor=\"end\">{}</text><text x=\"{:.0}\" y=\"{:.0}\" \
             text-anchor=\"middle\">{axis_label}</text>\n</svg>",
            ends[0],
            ends[1],
            f64::midpoint(LEFT, right),
            y + 13.0
        )?;
        write!(out, "<p>")?;
        for (number, (name, _)) in models.iter().enumerate() {
            write!(out, "{}{} &nbsp; ", legend_swatch(number), Escaped(RawStr::from(*name)))?;
        }
        writeln!(out, "</p>")
    }
}

/// Returns the text as a sentence: capitalized, with a full stop.
fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    first.chain(rest).chain(['.']).collect()
}

fn color(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// Returns the colored square of a model in the legend.
fn legend_swatch(number: usize) -> String {
    format!("<span class=\"key\" style=\"background:{}\"></span>", color(number))
}

fn cell(estimate: &Estimate, digits: usize) -> String {
    format!("<td>{:.digits$} <small>± {:.digits$}</small>", estimate.value, estimate.error)
}
