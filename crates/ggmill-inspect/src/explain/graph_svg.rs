//! A computation graph as SVG: a box for each step, in order, with frames around loops and conditions,
//! and a line from each value to the steps that use it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ggmill_arch::graph::StepsOutline;

/// The characters of a line in a box, their width in pixels, and the height of a line.
const COLUMNS: usize = 96;
const WIDTH: usize = 700;
const LINE: usize = 17;
/// The distances between boxes, around frames, and between lines of values, in pixels.
const GAP: usize = 14;
const INSET: usize = 12;
const LANE: usize = 9;

const STYLE: &str = "\
:root{color-scheme:light dark}svg{color:#222;background:#fff}\
@media(prefers-color-scheme:dark){svg{color:#ddd;background:#161616}}\
text{font:12px ui-monospace,monospace;fill:currentColor}.label{font-style:italic;opacity:.75}\
.step{fill:#4477aa22;stroke:#4477aa}.frame{fill:none;stroke:currentColor;opacity:.45}\
.none{fill:#ee667722;stroke:#ee6677}.value{fill:none;stroke:currentColor;opacity:.6}\
.turn{stroke-dasharray:4 3}.value:hover{opacity:1;stroke-width:2}";

/// Returns the graph as an SVG document. Values from the previous iteration of a loop have dashed lines.
///
/// ```
/// use ggmill_arch::Architecture;
/// let llama = Architecture::builtin("llama").ok_or("built in")?;
/// let groups = llama.graph_outline().ok_or("has a graph")?;
/// let svg = ggmill_inspect::explain::graph_svg(llama.title(), &groups);
/// assert!(svg.starts_with("<svg ") && svg.contains("embed(token_embd, tokens)"));
/// # Ok::<(), &str>(())
/// ```
pub fn graph_svg(title: &str, groups: &[StepsOutline]) -> String {
    let mut picture = Picture { y: 2 * GAP + LINE, ..Picture::default() };
    for body in groups.chunk_by(|one, next| one.repeat.is_some() && one.repeat == next.repeat) {
        let repeat = body.first().and_then(|group| group.repeat.as_deref());
        let top = repeat.map(|repeat| picture.open(1, &format!("for {repeat}")));
        for group in body {
            let depth = usize::from(repeat.is_some());
            picture.group(depth, group);
        }
        if let Some(top) = top {
            picture.close(1, top);
        }
    }
    picture.finish(title)
}

/// The middle of the right edge of the box of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Anchor {
    x: usize,
    y: usize,
}

#[derive(Debug, Default)]
struct Picture {
    boxes: String,
    frames: String,
    y: usize,
    anchors: Vec<Anchor>,
    /// The steps that use a value, by the step that computes it and its name.
    values: BTreeMap<(usize, String), Vec<usize>>,
}

/// Returns the right edge of the outermost frames.
fn right_edge() -> usize {
    8 * INSET + WIDTH
}

impl Picture {
    fn group(&mut self, depth: usize, group: &StepsOutline) {
        let when = group.when.as_ref().map(|when| self.open(depth + 1, &format!("when {when}")));
        let depth = depth + usize::from(when.is_some());
        if let Some(because) = &group.because {
            self.step(depth, &format!("no graph: {because}"), "none");
        }
        for step in &group.steps {
            let number = self.anchors.len();
            let anchor = self.step(depth, &step.text, "step");
            self.anchors.push(anchor);
            for (from, name) in &step.takes {
                self.values.entry((*from, name.clone())).or_default().push(number);
            }
        }
        if let Some(top) = when {
            self.close(depth, top);
        }
    }

    /// Begins a frame and returns its top.
    fn open(&mut self, depth: usize, label: &str) -> usize {
        let top = self.y;
        let x = depth * INSET + 8;
        self.y += LINE + 2;
        for line in wrapped(label, COLUMNS) {
            let _ = writeln!(
                self.boxes,
                "<text class=\"label\" x=\"{x}\" y=\"{}\">{}</text>",
                self.y - 4,
                escaped(&line)
            );
            self.y += LINE;
        }
        self.y -= LINE - 4;
        top
    }

    fn close(&mut self, depth: usize, top: usize) {
        let x = depth * INSET;
        let width = right_edge() - 2 * x;
        let _ = writeln!(
            self.frames,
            "<rect class=\"frame\" x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{}\" rx=\"8\"/>",
            self.y - top
        );
        self.y += GAP;
    }

    /// Draws a box.
    fn step(&mut self, depth: usize, text: &str, class: &str) -> Anchor {
        let lines = wrapped(text, COLUMNS);
        let height = lines.len() * LINE + 10;
        let x = (depth + 1) * INSET;
        let width = right_edge() - 2 * x;
        let _ = writeln!(
            self.boxes,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{height}\" rx=\"4\"/>",
            self.y
        );
        for (number, line) in lines.iter().enumerate() {
            let y = self.y + (number + 1) * LINE;
            let _ =
                writeln!(self.boxes, "<text x=\"{}\" y=\"{y}\">{}</text>", x + 8, escaped(line));
        }
        let anchor = Anchor { x: x + width, y: self.y + height / 2 };
        self.y += height + GAP;
        anchor
    }

    fn finish(self, title: &str) -> String {
        let (values, lanes) = self.lines();
        let (width, height) = (right_edge() + (lanes + 2) * LANE, self.y + GAP);
        let title = escaped(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"computation graph of \
             {title}\">\n<style>{STYLE}</style>\n<defs><marker id=\"end\" viewBox=\"0 0 6 6\" \
             refX=\"5\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\"><path \
             d=\"M0 0L6 3L0 6z\" fill=\"currentColor\"/></marker></defs>\n<text x=\"{INSET}\" \
             y=\"{}\">{title}</text>\n{}{}{values}</svg>\n",
            GAP + LINE,
            self.frames,
            self.boxes,
        )
    }

    /// Draws the lines of values to the right of the boxes, each in the first lane that is free over its
    /// length. Returns them and the number of lanes.
    fn lines(&self) -> (String, usize) {
        let at = |step: usize| self.anchors.get(step).copied().unwrap_or_default();
        let mut values: Vec<_> = self.values.iter().collect();
        let span = |from: usize, to: &[usize]| {
            let ends = to.iter().chain([&from]);
            (ends.clone().min().copied().unwrap_or(from), ends.max().copied().unwrap_or(from))
        };
        values.sort_by_key(|((from, _), to)| {
            let (first, last) = span(*from, to);
            (last - first, first)
        });
        let mut taken: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut out = String::new();
        for ((from, name), to) in values {
            let (first, last) = span(*from, to);
            let is_free = |lane: &Vec<(usize, usize)>| {
                lane.iter().all(|&(start, end)| end < first || last < start)
            };
            let lane = taken.iter().position(is_free).unwrap_or(taken.len());
            if lane == taken.len() {
                taken.push(Vec::new());
            }
            if let Some(lane) = taken.get_mut(lane) {
                lane.push((first, last));
            }
            let x = right_edge() + (lane + 1) * LANE;
            for &step in to {
                let (start, end) = (at(*from), at(step));
                let turn = if step <= *from { " turn" } else { "" };
                let _ = writeln!(
                    out,
                    "<path class=\"value{turn}\" marker-end=\"url(#end)\" d=\"M{} {}H{x}V{}H{}\">\
                     <title>{}</title></path>",
                    start.x,
                    start.y + 3,
                    end.y - 3,
                    end.x,
                    escaped(name)
                );
            }
        }
        (out, taken.len())
    }
}

/// Wraps text at spaces into lines of at most `columns` characters.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(format!("  {word}"));
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    let text = text.chars().filter(|character| !character.is_control());
    text.fold(String::new(), |mut out, character| {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "  three"]);
        assert_eq!(escaped("a < b & \"c\"\n"), "a &lt; b &amp; &quot;c&quot;");
    }

    #[test]
    fn every_step_is_drawn_and_every_value_has_a_line() {
        for architecture in ggmill_arch::Architecture::builtins() {
            let Some(groups) = architecture.graph_outline() else { continue };
            let svg = graph_svg(architecture.title(), &groups);
            let steps = groups.iter().flat_map(|group| &group.steps);
            let values: usize = steps.clone().map(|step| step.takes.len()).sum();
            assert_eq!(svg.matches("class=\"step\"").count(), steps.count());
            assert_eq!(svg.matches("marker-end").count(), values);
        }
    }
}
