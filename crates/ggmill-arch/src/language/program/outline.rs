//! Outlines of programs, for pages that draw them.

use std::collections::BTreeMap;

use super::{Expr, Kind, Program, Span, Statement, StatementKind};
use crate::language::steps::{StepOutline, StepsOutline};

impl Program {
    /// Returns the statements of each function, each with the statements whose values it uses.
    pub(crate) fn outline(&self) -> Vec<StepsOutline> {
        let mut outline = Outline { program: self, groups: Vec::new(), number: 0, source: 0 };
        for function in &self.functions {
            outline.source = function.source;
            outline.step(None, &[], function.span, Vec::new());
            let mut bound = BTreeMap::new();
            outline.body(&function.body, None, &mut Vec::new(), &mut bound);
        }
        outline.groups
    }
}

struct Outline<'p> {
    program: &'p Program,
    groups: Vec<StepsOutline>,
    /// The index of the next step.
    number: usize,
    /// The source index of the function.
    source: usize,
}

type Bound<'p> = BTreeMap<&'p str, usize>;

impl<'p> Outline<'p> {
    /// Returns the text of a span in one line.
    fn line(&self, span: Span) -> String {
        let text = self.program.within(span, self.source);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn step(
        &mut self,
        repeat: Option<&str>,
        when: &[String],
        span: Span,
        takes: Vec<(usize, String)>,
    ) {
        let when = (!when.is_empty()).then(|| when.join(" and "));
        let step = StepOutline { text: self.line(span), takes };
        self.number = self.number.saturating_add(1);
        match self.groups.last_mut() {
            Some(last)
                if last.repeat.as_deref() == repeat
                    && last.when == when
                    && last.because.is_none() =>
            {
                last.steps.push(step);
            }
            _ => self.groups.push(StepsOutline {
                repeat: repeat.map(str::to_owned),
                when,
                because: None,
                steps: vec![step],
            }),
        }
    }

    fn takes(value: &Expr, bound: &Bound<'p>) -> Vec<(usize, String)> {
        let mut takes = Vec::new();
        value.each(&mut |part| {
            let Kind::Local(name) = &part.kind else { return };
            let known = bound.get(&**name).map(|&from| (from, name.to_string()));
            takes.extend(known.filter(|known| !takes.contains(known)));
        });
        takes
    }

    fn body(
        &mut self,
        body: &'p [Statement],
        repeat: Option<&str>,
        when: &mut Vec<String>,
        bound: &mut Bound<'p>,
    ) {
        for statement in body {
            match &statement.kind {
                StatementKind::Assign(names, value) => {
                    let takes = Self::takes(value, bound);
                    let number = self.number;
                    self.step(repeat, when, statement.span, takes);
                    bound.extend(names.iter().map(|name| (&**name, number)));
                }
                StatementKind::Return(value) | StatementKind::Call(value) => {
                    let takes = Self::takes(value, bound);
                    self.step(repeat, when, statement.span, takes);
                }
                StatementKind::Assert(condition, because) => {
                    when.push(format!("not ({})", self.line(condition.span)));
                    self.groups.push(StepsOutline {
                        repeat: repeat.map(str::to_owned),
                        when: Some(when.join(" and ")),
                        because: Some(because.to_string()),
                        steps: Vec::new(),
                    });
                    when.pop();
                }
                StatementKind::If(branches, otherwise) => {
                    let mut not = Vec::new();
                    for (condition, body) in branches {
                        let text = self.line(condition.span);
                        when.extend(not.iter().cloned());
                        when.push(text.clone());
                        self.body(body, repeat, when, bound);
                        when.truncate(when.len().saturating_sub(not.len().saturating_add(1)));
                        not.push(format!("not ({text})"));
                    }
                    when.extend(not.iter().cloned());
                    self.body(otherwise, repeat, when, bound);
                    when.truncate(when.len().saturating_sub(not.len()));
                }
                StatementKind::For(_, _, body) => {
                    let text = self.line(statement.span);
                    let text = text.strip_prefix("for ").unwrap_or(&text).to_owned();
                    let text = repeat.map_or(text.clone(), |outer| format!("{outer}, {text}"));
                    self.body(body, Some(&text), when, bound);
                }
            }
        }
    }
}
