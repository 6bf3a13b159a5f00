use core::cell::Cell;

use super::*;
use ParameterValue::{Bool, Float, Int, List, Str};

fn parameters() -> Vec<(Box<str>, ParameterValue)> {
    vec![
        ("n".into(), Int(64)),
        ("heads".into(), Int(7)),
        ("zero".into(), Int(0)),
        ("nothing".into(), ParameterValue::None),
        ("kind".into(), Str("LLama3".into())),
        ("layers".into(), List(vec![Int(3), Int(5)].into())),
    ]
}

fn evaluate(text: &str) -> Result<ParameterValue> {
    let parameters = parameters();
    let fuel = Cell::new(Scope::FUEL);
    let outer = Scope::new(&parameters, &fuel);
    let scope = outer.with(&[("bid", 1)]);
    Expression::parse(text)?.evaluate(&scope)
}

#[test]
fn arithmetic_is_exact_and_ordered() {
    for (text, expected) in [
        ("1 + 2 * 3", Int(7)),
        ("(1 + 2) * 3", Int(9)),
        ("10 - 2 - 3", Int(5)),
        ("-n / 8", Int(-8)),
        ("7 % 4", Int(3)),
        ("2 * 0.5", Float(1.0)),
        ("1e-5", Float(1e-5)),
        ("div_floor(-7, 2)", Int(-4)),
        ("div_ceil(-7, 2)", Int(-3)),
        ("div_ceil(7, 2)", Int(4)),
        ("div_floor(7, 2)", Int(3)),
        ("min(3, 1, 2)", Int(1)),
        ("max(1, 2.5)", Float(2.5)),
        ("int(3.99)", Int(3)),
        ("layers[bid]", Int(5)),
        ("n[bid]", Int(64)),
        ("len(layers)", Int(2)),
        ("first(nothing, n)", Int(64)),
        ("if(has(nothing), 1 / 0, 2)", Int(2)),
        ("1 < 2 and not 2 < 1", Bool(true)),
        ("false and 1 / 0 == 1", Bool(false)),
        ("1 == 1.0", Bool(true)),
        ("lower(kind) == 'llama3'", Bool(true)),
        ("lower(kind) in ['linear', \"llama3\"]", Bool(true)),
        ("nothing == none", Bool(true)),
        ("lower(nothing) == 'llama3'", Bool(false)),
        ("places(layers + [3], 3)", List(vec![Int(0), Int(2)].into())),
        ("places(layers, 4)", List(vec![].into())),
        ("join(layers + ['x'], ', ')", Str("3, 5, x".into())),
        ("join([], ',')", Str("".into())),
    ] {
        assert_eq!(evaluate(text).map_err(|error| error.to_string()), Ok(expected), "{text}");
    }
}

#[test]
fn what_has_no_value_says_why() {
    for (text, message) in [
        ("n / heads", "n / heads divides 64 by 7, which leaves a remainder"),
        ("n / zero", "n / zero divides by zero"),
        ("n % zero", "n % zero divides by zero"),
        ("div_floor(n, zero)", "div_floor(n, zero) divides by zero"),
        ("9223372036854775807 + 1", "9223372036854775807 + 1 exceeds 64 bits"),
        ("n * 9223372036854775807", "n * 9223372036854775807 exceeds 64 bits"),
        (
            "(0 - 9223372036854775807 - 1) / -1",
            "(0 - 9223372036854775807 - 1) / -1 exceeds 64 bits",
        ),
        (
            "div_floor(0 - 9223372036854775807 - 1, -1)",
            "div_floor(0 - 9223372036854775807 - 1, -1) exceeds 64 bits",
        ),
        ("-(0 - 9223372036854775807 - 1)", "-(0 - 9223372036854775807 - 1) exceeds 64 bits"),
        ("1.5 / 0", "1.5 / 0 is inf, expected a finite number"),
        ("nothing + 1", "nothing + 1 needs a number, found nothing"),
        ("layers[2]", "layers[2] needs element 2, but there are 2"),
        ("layers[-1]", "layers[-1] needs element -1, but there are 2"),
        ("n and true", "n and true needs true or false, found an integer"),
        ("kind < 1", "kind < 1 needs a number, found a string"),
    ] {
        assert_eq!(evaluate(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn what_is_no_expression_is_refused() {
    for text in [
        "",
        "1 +",
        "(1",
        "1)",
        "1 2",
        "a b",
        "min()",
        "min(1",
        "nosuch(1)",
        "has(1, 2)",
        "'open",
        "1x",
        "1e",
        "99999999999999999999",
        "1e999",
        "a.b",
        "a[",
        "&",
        "not",
        "é",
    ] {
        assert!(Expression::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn names_of_tensors_in_graphs_are_taken_as_they_are_written() {
    let names = |text: &str| {
        let binding = Binding::parse(&format!("x = {text}"), |name| name == "has").unwrap();
        binding.value.names().join(" ")
    };
    for name in ["a.b", "mlp.0.weight", "a.0.1", "a.01", "a.1e5", "a.0x1", "a.not", "a.none.x"] {
        assert_eq!(names(&format!("{name} + has({name})")), format!("{name} {name}"));
    }
    for text in ["a.", "a..b", ".a", "a. b", "a.b.", "1.b", "not.a", "a.é", "none.a"] {
        assert!(Binding::parse(&format!("x = {text}"), |_| false).is_err(), "{text:?}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}1{}", open.repeat(depth), close.repeat(depth))
    };
    assert!(Expression::parse(&nested("(", ")", 20)).is_ok());
    for text in [
        nested("(", ")", 400),
        nested("-", "", 1000),
        nested("not ", "", 250),
        nested("min(", ")", 200),
        nested("[", "]", 500),
        "1+".repeat(600),
    ] {
        assert!(Expression::parse(&text).is_err());
    }
    // As long a chain as fits, evaluated.
    assert_eq!(evaluate(&format!("1{}", "+1".repeat(511))).unwrap(), Int(512));
}

#[test]
fn loops_are_bounded() {
    let fuel = Cell::new(Scope::FUEL);
    let scope = Scope::new(&[], &fuel);
    assert_eq!(Loop::parse("bid in 1..3 + 1").unwrap().range(&scope, 10).unwrap(), 1..4);
    assert!(Loop::parse("bid in 5..3").unwrap().range(&scope, 10).unwrap().is_empty());
    let error =
        Loop::parse("bid in 0..9223372036854775807").unwrap().range(&scope, 10).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Limit);
    for text in ["", "bid", "bid in", "bid in 3", "in in 0..3", "1 in 0..3", "bid in ..3"] {
        assert!(Loop::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn unknown_names_are_found() {
    let known = |name: &str| name == "a";
    assert!(Expression::parse("a + min(a, 1)").unwrap().check_names(&known).is_ok());
    let error = Expression::parse("a + if(true, b, [c])").unwrap().check_names(&known).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"expression "a + if(true, b, [c])": "b" is not a hyperparameter"#
    );
}

#[test]
fn work_is_bounded() {
    let parameters = [("many".into(), List(vec![Int(1); 60_000].into()))];
    let fuel = Cell::new(Scope::FUEL);
    let scope = Scope::new(&parameters, &fuel);
    let expression = Expression::parse("2 in many").unwrap();
    let done = (0..10_000).take_while(|_| expression.evaluate(&scope).is_ok()).count();
    assert!((500..2000).contains(&done), "{done}");
    assert_eq!(
        expression.evaluate(&scope).unwrap_err().to_string(),
        "2 in many takes too many steps"
    );
}
