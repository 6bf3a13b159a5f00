//! Constant folding: the possible values of expressions that do not depend on the conversation.
//!
//! Names can be hidden by composing them from pieces. Folding composes them; the template is not
//! run.

use std::cell::Cell;
use std::collections::BTreeMap;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Macro, Stmt, UnaryOpKind};

use super::Node;

/// Maximum number of values of one expression; more are ignored.
const MAX_VALUES: usize = 16;
/// Maximum bytes of a text or elements of a list; longer ones are ignored.
const MAX_LEN: usize = 1024;
/// Maximum [weight](Constant::weight) of a value; larger ones are ignored.
const MAX_WEIGHT: u64 = 1 << 14;
/// Limit of the folding steps and the weight of their results for one template: some megabytes. The
/// chat templates of llama.cpp need up to six thousand.
const FUEL: u64 = 1 << 18;
/// Maximum nesting depth of folded expressions.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Constant {
    Text(String),
    Number(i64),
    List(Vec<Constant>),
}

impl Constant {
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn number(&self) -> Option<i64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    /// Returns the value as text.
    fn as_text_value(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string()),
            Self::List(_) => None,
        }
    }

    /// Returns the characters of a text or the elements of a list.
    fn elements(&self) -> Option<Vec<Self>> {
        match self {
            Self::Text(text) => Some(text.chars().map(|c| Self::Text(c.into())).collect()),
            Self::List(elements) => Some(elements.clone()),
            Self::Number(_) => None,
        }
    }

    /// Joins elements to a value of the same type as `self`.
    fn rebuild(&self, elements: Vec<Self>) -> Self {
        match self {
            Self::Text(_) => Self::Text(elements.iter().filter_map(Self::text).collect()),
            _ => Self::List(elements),
        }
    }

    /// Returns the size of the value including its elements, in units of one element.
    fn weight(&self) -> u64 {
        let within = match self {
            Self::Text(text) => text.len() as u64 / 32,
            Self::List(elements) => weight(elements),
            Self::Number(_) => 0,
        };
        within.saturating_add(1)
    }

    fn is_short(&self) -> bool {
        let len = match self {
            Self::Text(text) => text.len(),
            Self::List(elements) => elements.len(),
            Self::Number(_) => return true,
        };
        len <= MAX_LEN && self.weight() <= MAX_WEIGHT
    }
}

/// Returns the total weight of several values.
fn weight(values: &[Constant]) -> u64 {
    values.iter().map(Constant::weight).fold(0, u64::saturating_add)
}

/// The possible values of the variables of a template.
#[derive(Debug)]
pub(super) struct Constants {
    variables: BTreeMap<String, Vec<Constant>>,
    /// The rest of [`FUEL`]; when it is used up, no values are returned.
    fuel: Cell<u64>,
}

impl Default for Constants {
    fn default() -> Self {
        Self { variables: BTreeMap::new(), fuel: Cell::new(FUEL) }
    }
}

impl Constants {
    /// Adds values of a variable; returns `true` if any is new.
    pub(super) fn assign(&mut self, variable: String, values: Vec<Constant>) -> bool {
        let known = self.variables.entry(variable).or_default();
        let before = known.len();
        for value in values {
            if known.len() < MAX_VALUES && value.is_short() && !known.contains(&value) {
                known.push(value);
            }
        }
        known.len() > before
    }

    /// Returns `true` if the fuel was used up, so values can be missing.
    pub(super) fn is_exhausted(&self) -> bool {
        self.fuel.get() == 0
    }

    /// Consumes fuel; returns `false` when it is used up.
    fn spend(&self, fuel: u64) -> bool {
        let left = self.fuel.get().saturating_sub(fuel);
        self.fuel.set(left);
        left > 0
    }

    /// Returns the possible values of an expression; empty if they are unknown.
    pub(super) fn values(&self, expression: &Expr<'_>) -> Vec<Constant> {
        self.fold(expression, 0)
    }

    fn fold(&self, expression: &Expr<'_>, depth: usize) -> Vec<Constant> {
        if depth > MAX_DEPTH || !self.spend(1) {
            return Vec::new();
        }
        let mut values = self.unlimited_values(expression, depth);
        if !self.spend(weight(&values)) {
            return Vec::new();
        }
        values.truncate(MAX_VALUES);
        values.retain(Constant::is_short);
        values
    }

    /// Returns the values of a variable.
    fn variable_values(&self, name: &str) -> Vec<Constant> {
        // `assign` limits their number and size.
        self.variables.get(name).cloned().unwrap_or_default()
    }

    /// Returns the values of an expression before the limits of number and size are applied.
    fn unlimited_values(&self, expression: &Expr<'_>, depth: usize) -> Vec<Constant> {
        let fold = |expression: &Expr<'_>| self.fold(expression, depth + 1);
        match expression {
            Expr::Const(constant) => {
                let text = constant.value.as_str().filter(|text| text.len() <= MAX_LEN);
                let text = text.map(|text| Constant::Text(text.to_owned()));
                text.or_else(|| constant.value.as_i64().map(Constant::Number)).into_iter().collect()
            }
            Expr::Var(variable) => self.variable_values(variable.id),
            Expr::GetAttr(access) => match &access.expr {
                Expr::Var(variable) => {
                    self.variable_values(&format!("{}.{}", variable.id, access.name))
                }
                _ => Vec::new(),
            },
            Expr::List(list) => {
                // Only the first value of each element is used: elements with several values are
                // rare, and are also visited on their own.
                let mut weight = 0u64;
                let element = |item| {
                    let value = fold(item).into_iter().next()?;
                    weight = weight.saturating_add(value.weight());
                    (weight <= MAX_WEIGHT).then_some(value)
                };
                let elements: Vec<Constant> =
                    list.items.iter().take(MAX_LEN).map_while(element).collect();
                if elements.len() == list.items.len() {
                    vec![Constant::List(elements)]
                } else {
                    Vec::new()
                }
            }
            Expr::IfExpr(choice) => {
                let other = choice.false_expr.as_ref().map(fold).unwrap_or_default();
                fold(&choice.true_expr).into_iter().chain(other).collect()
            }
            Expr::UnaryOp(operation) if matches!(operation.op, UnaryOpKind::Neg) => {
                fold(&operation.expr)
                    .iter()
                    .filter_map(|value| value.number()?.checked_neg().map(Constant::Number))
                    .collect()
            }
            Expr::BinOp(operation) => {
                let (left, right) = (fold(&operation.left), fold(&operation.right));
                if matches!(operation.op, BinOpKind::ScAnd | BinOpKind::ScOr) {
                    return left.into_iter().chain(right).collect();
                }
                pairs(&left, &right, |left, right| binary_operation(operation.op, left, right))
            }
            Expr::Slice(slice) => {
                // An unknown bound makes the result unknown.
                let bound = |bound: &Option<Expr<'_>>| match bound {
                    Some(bound) => fold(bound).first().and_then(Constant::number).map(Some),
                    None => Some(None),
                };
                let (Some(first), Some(end), Some(stride)) =
                    (bound(&slice.start), bound(&slice.stop), bound(&slice.step))
                else {
                    return Vec::new();
                };
                fold(&slice.expr)
                    .iter()
                    .filter_map(|value| slice_constant(value, first, end, stride.unwrap_or(1)))
                    .collect()
            }
            Expr::GetItem(access) => {
                pairs(&fold(&access.expr), &fold(&access.subscript_expr), |value, place| {
                    let elements = value.elements()?;
                    let place = place.number()?;
                    let place = if place < 0 {
                        place.checked_add(i64::try_from(elements.len()).ok()?)?
                    } else {
                        place
                    };
                    elements.get(usize::try_from(place).ok()?).cloned()
                })
            }
            Expr::Filter(filter) => {
                let values = filter.expr.as_ref().map(fold).unwrap_or_default();
                let arguments = self.arguments(&filter.args, depth);
                values
                    .iter()
                    .filter_map(|value| apply_filter(filter.name, value, &arguments))
                    .collect()
            }
            Expr::Call(call) => match &call.expr {
                Expr::GetAttr(method) => {
                    let arguments = self.arguments(&call.args, depth);
                    let apply = |value: &Constant| match method.name {
                        // The separator is the object of the method, but an argument of the filter.
                        "join" => {
                            apply_filter("join", arguments.first()?, std::slice::from_ref(value))
                        }
                        "strip" => apply_filter("trim", value, &arguments),
                        "format" => format_braces(value.text()?, &arguments),
                        name => apply_filter(name, value, &arguments),
                    };
                    fold(&method.expr).iter().filter_map(apply).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the first value of each argument, up to the first unknown argument.
    fn arguments(&self, arguments: &[CallArg<'_>], depth: usize) -> Vec<Constant> {
        let value = |argument: &CallArg<'_>| match argument {
            CallArg::Pos(value) | CallArg::Kwarg(_, value) => {
                self.fold(value, depth + 1).into_iter().next()
            }
            _ => None,
        };
        arguments.iter().map_while(value).collect()
    }
}

fn pairs(
    left: &[Constant],
    right: &[Constant],
    combine: impl Fn(&Constant, &Constant) -> Option<Constant>,
) -> Vec<Constant> {
    left.iter()
        .flat_map(|left| right.iter().filter_map(|right| combine(left, right)).collect::<Vec<_>>())
        .take(MAX_VALUES)
        .collect()
}

fn binary_operation(operation: BinOpKind, left: &Constant, right: &Constant) -> Option<Constant> {
    use Constant::{List, Number, Text};
    let numbers = || Some((left.number()?, right.number()?));
    Some(match (operation, left, right) {
        (BinOpKind::Concat, ..) => Text(left.as_text_value()? + &right.as_text_value()?),
        (BinOpKind::Add, Text(left), Text(right)) => Text(left.clone() + right),
        (BinOpKind::Add, List(left), List(right)) => {
            List(left.iter().chain(right).cloned().collect())
        }
        (BinOpKind::Mul, Text(text), Number(times))
        | (BinOpKind::Mul, Number(times), Text(text)) => {
            let times = usize::try_from(*times)
                .ok()
                .filter(|times| times.saturating_mul(text.len()) <= MAX_LEN)?;
            Text(text.repeat(times))
        }
        (BinOpKind::Rem, Text(text), List(values)) => Text(format_percent(text, values)?),
        (BinOpKind::Rem, Text(text), value) => {
            Text(format_percent(text, std::slice::from_ref(value))?)
        }
        _ => {
            let (left, right) = numbers()?;
            Number(match operation {
                BinOpKind::Add => left.checked_add(right)?,
                BinOpKind::Sub => left.checked_sub(right)?,
                BinOpKind::Mul => left.checked_mul(right)?,
                BinOpKind::Pow => left.checked_pow(u32::try_from(right).ok()?)?,
                BinOpKind::FloorDiv => left.checked_div(right)?,
                BinOpKind::Rem => left.checked_rem(right)?,
                _ => return None,
            })
        }
    })
}

/// Evaluates Python's slice `[first:end:stride]`.
fn slice_constant(
    value: &Constant,
    first: Option<i64>,
    end: Option<i64>,
    stride: i64,
) -> Option<Constant> {
    let elements = value.elements()?;
    let len = i64::try_from(elements.len()).ok()?;
    let place = |bound: i64, least: i64, most: i64| {
        if bound < 0 { bound.saturating_add(len) } else { bound }.clamp(least, most)
    };
    // A backward slice ends before the first element.
    let (least, most) = if stride > 0 { (0, len) } else { (-1, len - 1) };
    let (from, to) = if stride > 0 { (least, most) } else { (most, least) };
    let mut at = first.map_or(from, |first| place(first, least, most));
    let to = end.map_or(to, |end| place(end, least, most));
    let mut taken = Vec::new();
    while (stride > 0 && at < to) || (stride < 0 && at > to) {
        taken.push(elements.get(usize::try_from(at).ok()?)?.clone());
        at = at.saturating_add(stride);
    }
    Some(value.rebuild(taken))
}

/// Evaluates a filter, or the method of the same name.
fn apply_filter(name: &str, value: &Constant, arguments: &[Constant]) -> Option<Constant> {
    let text = |text: String| Some(Constant::Text(text));
    match name {
        "join" => {
            let separator = arguments.first().and_then(Constant::text).unwrap_or_default();
            let parts: Option<Vec<String>> =
                value.elements()?.iter().map(Constant::as_text_value).collect();
            text(parts?.join(separator))
        }
        "reverse" => Some(value.rebuild(value.elements()?.into_iter().rev().collect())),
        "list" => value.elements().map(Constant::List),
        "first" => value.elements()?.first().cloned(),
        "last" => value.elements()?.last().cloned(),
        "lower" => text(value.text()?.to_lowercase()),
        "upper" => text(value.text()?.to_uppercase()),
        "trim" => text(match arguments.first().and_then(Constant::text) {
            Some(around) => value.text()?.trim_matches(|c| around.contains(c)).to_owned(),
            None => value.text()?.trim().to_owned(),
        }),
        "replace" => {
            let (from, to) = (arguments.first()?.text()?, arguments.get(1)?.text()?);
            (!from.is_empty())
                .then(|| Constant::Text(value.text().unwrap_or_default().replace(from, to)))
        }
        "format" => format_percent(value.text()?, arguments).map(Constant::Text),
        "string" => value.as_text_value().map(Constant::Text),
        "safe" | "e" | "escape" | "default" | "d" => Some(value.clone()),
        _ => None,
    }
}

/// Evaluates `'__%s__' % 'class'`.
fn format_percent(text: &str, values: &[Constant]) -> Option<String> {
    let mut values = values.iter();
    let mut parts = text.split('%');
    let mut out = parts.next()?.to_owned();
    while let Some(part) = parts.next() {
        if let Some(rest) = part.strip_prefix(['s', 'd']) {
            out.push_str(&values.next()?.as_text_value()?);
            out.push_str(rest);
        } else if let Some(rest) = part.strip_prefix('c') {
            match values.next()? {
                Constant::Number(number) => out.push(char::from_u32(u32::try_from(*number).ok()?)?),
                value => out.push_str(value.text()?),
            }
            out.push_str(rest);
        } else if part.is_empty() {
            out.push('%');
            out.push_str(parts.next()?);
        } else {
            return None;
        }
    }
    Some(out)
}

/// Evaluates `'__{}__'.format('class')`.
fn format_braces(text: &str, values: &[Constant]) -> Option<Constant> {
    let mut next = 0;
    let mut parts = text.split('{');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (field, rest) = part.split_once('}')?;
        let place = if field.is_empty() {
            next += 1;
            next - 1
        } else {
            field.parse().ok()?
        };
        out.push_str(&values.get(place)?.as_text_value()?);
        out.push_str(rest);
    }
    Some(Constant::Text(out))
}

pub(super) type Macros<'t> = BTreeMap<&'t str, Vec<&'t str>>;

/// Collects macros with the names of their parameters.
pub(super) fn gather_macros<'t>(node: Node<'t, '_>, macros: &mut Macros<'t>) {
    if let Node::Statement(Stmt::Macro(declared)) = node {
        macros.insert(declared.name, parameters(declared));
    }
}

fn parameters<'t>(declared: &'t Macro<'_>) -> Vec<&'t str> {
    declared
        .args
        .iter()
        .filter_map(
            |argument| if let Expr::Var(variable) = argument { Some(variable.id) } else { None },
        )
        .collect()
}

/// Collects the known values that a node assigns to variables: by `set`, `with`, `for`, and
/// arguments of macros.
pub(super) fn assignments(
    node: Node<'_, '_>,
    constants: &Constants,
    macros: &Macros<'_>,
    out: &mut Vec<(String, Vec<Constant>)>,
) {
    let mut assign = |target: &Expr<'_>, value: &Expr<'_>| {
        let variable = match target {
            Expr::Var(variable) => variable.id.to_owned(),
            Expr::GetAttr(access) => match &access.expr {
                Expr::Var(variable) => format!("{}.{}", variable.id, access.name),
                _ => return,
            },
            Expr::List(targets) => {
                if let Expr::List(values) = value {
                    let names = targets.items.iter().zip(&values.items);
                    out.extend(names.filter_map(|(target, value)| {
                        if let Expr::Var(variable) = target {
                            Some((variable.id.to_owned(), constants.values(value)))
                        } else {
                            None
                        }
                    }));
                }
                return;
            }
            _ => return,
        };
        match value {
            // Its entries are later read as attributes.
            Expr::Call(call) if matches!(&call.expr, Expr::Var(function) if matches!(function.id, "namespace" | "dict")) =>
            {
                out.extend(call.args.iter().filter_map(|argument| match argument {
                    CallArg::Kwarg(name, value) => {
                        Some((format!("{variable}.{name}"), constants.values(value)))
                    }
                    _ => None,
                }));
            }
            Expr::Map(map) => {
                let pairs = map.keys.iter().zip(&map.values);
                out.extend(pairs.filter_map(|(key, value)| {
                    Some((
                        format!("{variable}.{}", constants.values(key).first()?.text()?),
                        constants.values(value),
                    ))
                }));
            }
            value => out.push((variable, constants.values(value))),
        }
    };
    match node {
        Node::Statement(Stmt::Set(set)) => assign(&set.target, &set.expr),
        Node::Statement(Stmt::WithBlock(with)) => {
            with.assignments.iter().for_each(|(target, value)| assign(target, value));
        }
        Node::Statement(Stmt::SetBlock(set)) => {
            if let (Expr::Var(variable), Some(text)) =
                (&set.target, body_text(&set.body, constants))
            {
                out.push((variable.id.to_owned(), vec![Constant::Text(text)]));
            }
        }
        Node::Statement(Stmt::ForLoop(each)) => {
            if let Expr::Var(variable) = &each.target {
                let lists = constants.values(&each.iter);
                let elements = lists.iter().filter_map(|list| {
                    if let Constant::List(elements) = list { Some(elements.clone()) } else { None }
                });
                out.push((variable.id.to_owned(), elements.flatten().collect()));
            }
        }
        Node::Statement(Stmt::Macro(declared)) => {
            let parameters = parameters(declared);
            let defaulted = parameters.iter().rev().zip(declared.defaults.iter().rev());
            out.extend(
                defaulted.map(|(name, value)| ((*name).to_owned(), constants.values(value))),
            );
        }
        Node::Expression(Expr::Call(call)) => {
            if let Expr::Var(function) = &call.expr
                && let Some(parameters) = macros.get(function.id)
            {
                out.extend(call.args.iter().enumerate().filter_map(|(place, argument)| {
                    match argument {
                        CallArg::Pos(value) => {
                            Some(((*parameters.get(place)?).to_owned(), constants.values(value)))
                        }
                        CallArg::Kwarg(name, value) => {
                            Some(((*name).to_owned(), constants.values(value)))
                        }
                        _ => None,
                    }
                }));
            }
        }
        _ => {}
    }
}

/// Returns the text of a block, if it is known completely.
fn body_text(body: &[Stmt<'_>], constants: &Constants) -> Option<String> {
    body.iter().try_fold(String::new(), |text, statement| match statement {
        Stmt::EmitRaw(raw) => Some(text + raw.raw),
        Stmt::EmitExpr(emit) => Some(text + constants.values(&emit.expr).first()?.text()?),
        _ => None,
    })
}
