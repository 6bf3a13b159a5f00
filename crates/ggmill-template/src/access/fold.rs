//! The constants of a template: what expressions come to when nothing from outside is in them.
//!
//! A hidden name is put together from pieces. Putting the pieces together again is all that is done
//! here; nothing of the template is run.

use std::cell::Cell;
use std::collections::BTreeMap;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, UnaryOpKind};

/// Values that one expression can have; more are not followed.
const MAX_VALUES: usize = 16;
/// Bytes of a text, elements of a list; longer ones are not followed.
const MAX_LEN: usize = 1024;
/// The weight of a value with all within it; larger ones are not followed.
const MAX_WEIGHT: u64 = 1 << 14;
/// Steps of folding and the weight of what they make, for one template: some megabytes. The chat
/// templates of llama.cpp take up to six thousand.
const FUEL: u64 = 1 << 18;
/// Expressions within expressions that are followed.
const DEEPEST: usize = 64;

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

    /// As it is written out.
    fn written(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string()),
            Self::List(_) => None,
        }
    }

    /// The characters of a text, the elements of a list.
    fn elements(&self) -> Option<Vec<Self>> {
        match self {
            Self::Text(text) => Some(text.chars().map(|c| Self::Text(c.into())).collect()),
            Self::List(elements) => Some(elements.clone()),
            Self::Number(_) => None,
        }
    }

    /// Elements put together as what they are taken from.
    fn like(&self, elements: Vec<Self>) -> Self {
        match self {
            Self::Text(_) => Self::Text(elements.iter().filter_map(Self::text).collect()),
            _ => Self::List(elements),
        }
    }

    /// The room that it and all within it take, in units of an element.
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

/// The weight of several.
fn weight(values: &[Constant]) -> u64 {
    values.iter().map(Constant::weight).fold(0, u64::saturating_add)
}

/// The possible values of the variables of a template, wherever they are set.
#[derive(Debug)]
pub(super) struct Constants {
    variables: BTreeMap<String, Vec<Constant>>,
    /// What is left of [`FUEL`]: nothing is known any more when it is used up.
    fuel: Cell<u64>,
}

impl Default for Constants {
    fn default() -> Self {
        Self { variables: BTreeMap::new(), fuel: Cell::new(FUEL) }
    }
}

impl Constants {
    /// Adds values of a variable, and says whether any is new.
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

    /// Whether there were expressions whose values were not followed because all together took
    /// too much.
    pub(super) fn is_exhausted(&self) -> bool {
        self.fuel.get() == 0
    }

    /// Takes from the fuel; false when it is used up.
    fn spend(&self, fuel: u64) -> bool {
        let left = self.fuel.get().saturating_sub(fuel);
        self.fuel.set(left);
        left > 0
    }

    /// The possible values of an expression; none when they are not known.
    pub(super) fn values(&self, expression: &Expr<'_>) -> Vec<Constant> {
        self.fold(expression, 0)
    }

    fn fold(&self, expression: &Expr<'_>, depth: usize) -> Vec<Constant> {
        if depth > DEEPEST || !self.spend(1) {
            return Vec::new();
        }
        let mut values = self.unbounded(expression, depth);
        if !self.spend(weight(&values)) {
            return Vec::new();
        }
        values.truncate(MAX_VALUES);
        values.retain(Constant::is_short);
        values
    }

    /// The values of a variable.
    fn of_variable(&self, name: &str) -> Vec<Constant> {
        // They are short and few: `assign` sees to that.
        self.variables.get(name).cloned().unwrap_or_default()
    }

    /// The same, longer ones and more of them too.
    fn unbounded(&self, expression: &Expr<'_>, depth: usize) -> Vec<Constant> {
        let fold = |expression: &Expr<'_>| self.fold(expression, depth + 1);
        match expression {
            Expr::Const(constant) => {
                let text = constant.value.as_str().filter(|text| text.len() <= MAX_LEN);
                let text = text.map(|text| Constant::Text(text.to_owned()));
                text.or_else(|| constant.value.as_i64().map(Constant::Number)).into_iter().collect()
            }
            Expr::Var(variable) => self.of_variable(variable.id),
            Expr::GetAttr(access) => match &access.expr {
                Expr::Var(variable) => {
                    self.of_variable(&format!("{}.{}", variable.id, access.name))
                }
                _ => Vec::new(),
            },
            Expr::List(list) => {
                // One list of the first value of each element: lists of several are rare, and their
                // elements are looked at by themselves.
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
                pairs(&left, &right, |left, right| combined(operation.op, left, right))
            }
            Expr::Slice(slice) => {
                // A bound that is there and not known leaves the whole unknown.
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
                    .filter_map(|value| sliced(value, first, end, stride.unwrap_or(1)))
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
                values.iter().filter_map(|value| changed(filter.name, value, &arguments)).collect()
            }
            Expr::Call(call) => match &call.expr {
                Expr::GetAttr(method) => {
                    let arguments = self.arguments(&call.args, depth);
                    let changed = |value: &Constant| match method.name {
                        // A method puts its own text between the elements, a filter the one it is
                        // given.
                        "join" => changed("join", arguments.first()?, std::slice::from_ref(value)),
                        "strip" => changed("trim", value, &arguments),
                        "format" => braced(value.text()?, &arguments),
                        name => changed(name, value, &arguments),
                    };
                    fold(&method.expr).iter().filter_map(changed).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The first value of each argument, as far as they are known.
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

fn combined(operation: BinOpKind, left: &Constant, right: &Constant) -> Option<Constant> {
    use Constant::{List, Number, Text};
    let numbers = || Some((left.number()?, right.number()?));
    Some(match (operation, left, right) {
        (BinOpKind::Concat, ..) => Text(left.written()? + &right.written()?),
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
        (BinOpKind::Rem, Text(text), List(values)) => Text(percented(text, values)?),
        (BinOpKind::Rem, Text(text), value) => Text(percented(text, std::slice::from_ref(value))?),
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

/// `[first:end:stride]`, as Python takes it.
fn sliced(value: &Constant, first: Option<i64>, end: Option<i64>, stride: i64) -> Option<Constant> {
    let elements = value.elements()?;
    let len = i64::try_from(elements.len()).ok()?;
    let place = |bound: i64, least: i64, most: i64| {
        if bound < 0 { bound.saturating_add(len) } else { bound }.clamp(least, most)
    };
    // Backwards a slice ends before the first element.
    let (least, most) = if stride > 0 { (0, len) } else { (-1, len - 1) };
    let (from, to) = if stride > 0 { (least, most) } else { (most, least) };
    let mut at = first.map_or(from, |first| place(first, least, most));
    let to = end.map_or(to, |end| place(end, least, most));
    let mut taken = Vec::new();
    while (stride > 0 && at < to) || (stride < 0 && at > to) {
        taken.push(elements.get(usize::try_from(at).ok()?)?.clone());
        at = at.saturating_add(stride);
    }
    Some(value.like(taken))
}

/// The result of a filter, or of the method of its name.
fn changed(name: &str, value: &Constant, arguments: &[Constant]) -> Option<Constant> {
    let text = |text: String| Some(Constant::Text(text));
    match name {
        "join" => {
            let separator = arguments.first().and_then(Constant::text).unwrap_or_default();
            let parts: Option<Vec<String>> =
                value.elements()?.iter().map(Constant::written).collect();
            text(parts?.join(separator))
        }
        "reverse" => Some(value.like(value.elements()?.into_iter().rev().collect())),
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
        "format" => percented(value.text()?, arguments).map(Constant::Text),
        "string" => value.written().map(Constant::Text),
        "safe" | "e" | "escape" | "default" | "d" => Some(value.clone()),
        _ => None,
    }
}

/// `'__%s__' % 'class'`.
fn percented(text: &str, values: &[Constant]) -> Option<String> {
    let mut values = values.iter();
    let mut parts = text.split('%');
    let mut out = parts.next()?.to_owned();
    while let Some(part) = parts.next() {
        if let Some(rest) = part.strip_prefix(['s', 'd']) {
            out.push_str(&values.next()?.written()?);
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

/// `'__{}__'.format('class')`.
fn braced(text: &str, values: &[Constant]) -> Option<Constant> {
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
        out.push_str(&values.get(place)?.written()?);
        out.push_str(rest);
    }
    Some(Constant::Text(out))
}
