//! Every recorded case by architecture, and how much of it compute buffers explain.

use std::collections::BTreeMap;

use ggmill_arch::Architecture;
use ggmill_core::Endian;
use ggmill_estimate::{Estimate, Options, estimate};

use crate::devices::{cases, overridden, placed};
use crate::models::Listed;
use crate::reference::{lines, models, options};

/// The architectures whose description lists what is computed; it says what lowering lacks.
const LISTED: [&str; 17] = [
    "arwkv7",
    "deci",
    "deepseek32",
    "dots3note",
    "falcon-h1",
    "gemma3n",
    "gemma4",
    "glm-dsa",
    "graniteswitch",
    "hy_v4",
    "minimax-m3",
    "plamo2",
    "rwkv6",
    "rwkv6qwen2",
    "rwkv7",
    "smallthinker",
    "wavtokenizer-dec",
];

/// How far the total of a case may be from the reference.
const LEAST: f64 = -0.01;
const MOST: f64 = 0.05;

/// The cases of an architecture.
struct Row {
    cases: usize,
    known: usize,
    lowered: bool,
    equal: usize,
    within: usize,
    least: f64,
    most: f64,
    first: Option<String>,
}

#[test]
fn totals_are_within_bounds() {
    let models = models();
    let mut table: BTreeMap<String, Row> = BTreeMap::new();
    let mut add = |listed: &Listed, case: &str, options: &Options, expected: [u64; 3]| {
        let model = listed.open(Endian::Little);
        let found = estimate(&model, listed.description(), options).unwrap();
        let row = table.entry(listed.architecture().to_owned()).or_insert(Row {
            cases: 0,
            known: 0,
            lowered: false,
            equal: 0,
            within: 0,
            least: 0.0,
            most: 0.0,
            first: None,
        });
        row.cases += 1;
        let of = |found: &Estimate| -> u64 {
            found.devices.iter().map(|device| device.total() - device.output).sum()
        };
        if let Some(why) = found.unknown.iter().find(|it| it.part() == "compute") {
            row.first.get_or_insert_with(|| format!("{}, {case}: {why}", listed.name));
            return;
        }
        let [.., compute] = expected;
        let total: u64 = expected.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a quotient is wanted")]
        let part = of(&found) as f64 / total as f64 - 1.0;
        let ours: u64 = found.devices.iter().map(|device| device.compute).sum();
        row.known += 1;
        row.lowered = found.lowered == Some(true);
        row.equal += usize::from(ours == compute);
        let is_within = (LEAST..=MOST).contains(&part);
        row.within += usize::from(is_within);
        (row.least, row.most) = (row.least.min(part), row.most.max(part));
        if !is_within {
            let line =
                format!("{}, {case}: {ours} for {compute}, {:+.1} %", listed.name, part * 100.0);
            row.first.get_or_insert(line);
        }
    };
    for line in &lines("bytes.tsv") {
        let words: Vec<_> = line.split('\t').collect();
        let [name, option, numbers @ ..] = &words[..] else { continue };
        let Ok(numbers) = numbers.iter().map(|word| word.parse()).collect::<Result<Vec<u64>, _>>()
        else {
            continue;
        };
        add(&models[*name], option, &options(option), numbers.try_into().unwrap());
    }
    for record in ["devices.tsv", "overrides.tsv"] {
        for case in cases(record) {
            let listed = &models[&case.model];
            let options = match record {
                "devices.tsv" => placed(&case.placement),
                _ => overridden(&listed.open(Endian::Little), &case.placement),
            };
            let sums = [0, 1, 2].map(|part| case.expected.iter().map(|it| it[part]).sum());
            add(listed, &case.placement, &options, sums);
        }
    }
    println!("| architecture | cases | known | equal | within | least | most | |");
    println!("|---|---:|---:|---:|---:|---:|---:|---|");
    for (architecture, row) in &table {
        println!(
            "| {architecture} | {} | {} | {} | {} | {:+.2} % | {:+.2} % | {} |",
            row.cases,
            row.known,
            row.equal,
            row.within,
            row.least * 100.0,
            row.most * 100.0,
            row.first.as_deref().unwrap_or_default()
        );
    }
    let outside: Vec<&str> = table
        .iter()
        .filter(|(_, row)| row.within < row.known)
        .map(|(name, _)| name.as_str())
        .collect();
    let sum = |of: fn(&Row) -> usize| table.values().map(of).sum::<usize>();
    let known: Vec<_> = table.iter().filter(|(_, row)| row.known > 0).collect();
    let listed: Vec<&str> =
        known.iter().filter(|(_, row)| !row.lowered).map(|(name, _)| name.as_str()).collect();
    println!(
        "{} architectures known, {} lowered, {} cases known, {} equal, {} within",
        known.len(),
        known.len() - listed.len(),
        sum(|row| row.known),
        sum(|row| row.equal),
        sum(|row| row.within)
    );
    assert!(outside.is_empty(), "{outside:?}");
    assert_eq!(listed, LISTED);
    // What is known must not shrink by accident.
    assert!(
        known.len() >= 135 && sum(|row| row.known) >= 7935 && sum(|row| row.equal) >= 7703,
        "{}",
        known.len()
    );
}

/// A description of one's own has estimates by its computation graph.
#[test]
fn a_description_of_ones_own_is_lowered() {
    let models = models();
    let listed = models.values().find(|model| model.architecture() == "llama").unwrap();
    let model = listed.open(Endian::Little);
    let text = Architecture::builtin_text("llama").unwrap();
    let found = |text: &str| {
        let description = Architecture::parse(text).unwrap();
        estimate(&model, Some(&description), &options("plain")).unwrap()
    };
    let expected = estimate(&model, listed.description(), &options("plain")).unwrap();
    let same = found(text);
    assert_eq!((same.lowered, &same.devices), (Some(true), &expected.devices));
    // Products that are all needed at once take more memory than the scores of tokens.
    let line = "        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])\n";
    assert!(text.contains(line));
    let product = "linear(ffn_up[i], h)";
    let nested = (0..12).fold(product.to_owned(), |inner, _| format!("{product} * ({inner})"));
    let more = &format!("        return x + linear(ffn_down[i], {nested})\n");
    let more = found(&text.replace(line, more));
    assert!(more.devices[0].compute > expected.devices[0].compute);
    // Without a program nothing is known.
    let start = text.find("computation = ").unwrap();
    let length = text[start..].match_indices("'''").nth(1).unwrap().0 + 3;
    let without = found(&format!("{}{}", &text[..start], &text[start + length..]));
    assert_eq!((without.lowered, without.devices[0].compute), (None, 0));
    assert!(without.unknown.iter().any(|it| it.to_string().contains("no computation graph")));
}
