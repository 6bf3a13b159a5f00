//! Estimates as text.

use std::collections::BTreeSet;
use std::io::Write;

use ggmill_core::ByteSize;
use ggmill_estimate::{Device, Estimate, Options, Unknown, device_name};
use ggmill_inspect::text::{self, Column, Table, lines_of};

use crate::console::Console;
use crate::outcome::Failure;

/// A purpose of memory: the label in the table, and the size on a device in bytes.
type Purpose = (&'static str, fn(&Device) -> u64);

/// The purposes, in the order of the table.
const PURPOSES: [Purpose; 7] = [
    ("weights", |device| device.weights),
    ("keys", |device| device.keys),
    ("values", |device| device.values),
    ("states", |device| device.states),
    ("output", |device| device.output),
    ("compute", |device| device.compute),
    ("total", Device::total),
];

/// Writes one estimate by purpose and device, several as a table.
pub(super) fn write(cases: &[(Options, Estimate)], console: Console) -> Result<(), Failure> {
    let options =
        text::Options::default().with_width(console.width()).with_styled(console.is_styled());
    let mut out = console.text();
    match cases {
        [(run, estimate)] => write_one(&mut out, run, estimate, &options)?,
        _ => write_table(&mut out, cases, &options)?,
    }
    out.flush()?;
    Ok(())
}

fn write_one(
    out: &mut impl Write,
    run: &Options,
    estimate: &Estimate,
    options: &text::Options,
) -> Result<(), Failure> {
    if let (Some(cells), Some(context)) = (estimate.cells, estimate.context_length()) {
        let flash = match estimate.flash_attention {
            Some(true) => ", flash attention",
            Some(false) => ", no flash attention",
            None => "",
        };
        let line = format!(
            "context {context}, sequences {}, keys {}, values {}{flash}",
            cells.sequences, run.key_type, run.value_type,
        );
        write_line(out, &line, options)?;
    }
    if estimate.devices.len() > 1 {
        writeln!(out, "layers on devices: {}", layers(estimate))?;
    }
    let total = total_label(&[estimate]);
    let names: Vec<String> = (0..estimate.devices.len()).map(device_name).collect();
    let columns: Vec<Column<'_>> = names.iter().map(|name| Column::Number(name)).collect();
    let mut table = Table::new("", &columns);
    for (purpose, bytes) in PURPOSES {
        // Rows of zeros are omitted.
        if purpose == "total" || estimate.devices.iter().any(|device| bytes(device) > 0) {
            let label = if purpose == "total" { &*total } else { purpose };
            table.add(label, estimate.devices.iter().map(|device| size(bytes(device))));
        }
    }
    table.write(out, options)?;
    write_unknown(out, &[estimate], options)
}

/// Writes a line of text, wrapped for the terminal.
fn write_line(out: &mut impl Write, text: &str, options: &text::Options) -> Result<(), Failure> {
    let room = options.width.map_or(usize::MAX, |width| width.saturating_sub(2));
    writeln!(out, "{}", lines_of(text, room).join("\n  "))?;
    Ok(())
}

fn size(bytes: u64) -> String {
    ByteSize::from(bytes).to_string()
}

/// Returns the number of layers on devices, and of all layers.
fn layers(estimate: &Estimate) -> String {
    format!("{} of {}", estimate.layers_on_devices(), estimate.layer_count())
}

/// Returns the label of the totals, with the purposes that all of them lack: `total without compute`.
fn total_label(estimates: &[&Estimate]) -> String {
    let lacking = |estimate: &Estimate| -> BTreeSet<&'static str> {
        estimate.unknown.iter().filter_map(Unknown::lacking).collect()
    };
    let each = estimates.iter().map(|estimate| lacking(estimate));
    let common = each.reduce(|some, others| &some & &others).unwrap_or_default();
    let names: Vec<&str> = common.into_iter().collect();
    if names.is_empty() {
        "total".to_owned()
    } else {
        format!("total without {}", names.join(", "))
    }
}

/// Writes what the estimates do not include, each once.
fn write_unknown(
    out: &mut impl Write,
    estimates: &[&Estimate],
    options: &text::Options,
) -> Result<(), Failure> {
    let texts = |estimate: &&Estimate| -> BTreeSet<String> {
        estimate.unknown.iter().map(ToString::to_string).collect()
    };
    let each: Vec<BTreeSet<String>> = estimates.iter().map(texts).collect();
    for text in each.iter().flatten().collect::<BTreeSet<_>>() {
        let is_common = each.iter().all(|texts| texts.contains(text));
        let of_rows = if is_common { "" } else { " of some rows" };
        write_line(out, &format!("not included{of_rows}: {text}"), options)?;
    }
    Ok(())
}

/// Writes a row for each context and cache type. With GPUs it has the total of each device, which must
/// fit, instead of the sum.
fn write_table(
    out: &mut impl Write,
    cases: &[(Options, Estimate)],
    options: &text::Options,
) -> Result<(), Failure> {
    let estimates: Vec<&Estimate> = cases.iter().map(|(_, estimate)| estimate).collect();
    let total = total_label(&estimates);
    let devices = estimates.iter().map(|estimate| estimate.devices.len()).max().unwrap_or(0);
    let device_columns: Vec<String> = if devices > 1 {
        (0..devices).map(|device| format!("{} total", device_name(device))).collect()
    } else {
        Vec::new()
    };
    let mut columns = vec![Column::Text("keys"), Column::Text("values")];
    if devices > 1 {
        columns.push(Column::Number("layers"));
    }
    columns.extend([Column::Number("weights"), Column::Number("caches")]);
    if devices > 1 {
        columns.extend(device_columns.iter().map(|head| Column::Number(head)));
    } else {
        columns.push(Column::Number(&total));
    }
    let mut table = Table::new("context", &columns);
    for (run, estimate) in cases {
        let sum = |of: fn(&Device) -> u64| {
            size(estimate.devices.iter().map(of).fold(0, u64::saturating_add))
        };
        let mut cells = vec![run.key_type.to_string(), run.value_type.to_string()];
        if devices > 1 {
            cells.push(layers(estimate));
        }
        cells.extend([sum(|device| device.weights), sum(Device::context)]);
        if devices > 1 {
            let totals = estimate.devices.iter().map(|device| size(device.total()));
            cells.extend(totals.chain(std::iter::repeat(String::new())).take(devices));
        } else {
            cells.push(sum(Device::total));
        }
        let context = estimate.context_length();
        let context = context.map(|tokens| format!("{tokens} tokens")).unwrap_or_default();
        table.add(&context, cells);
    }
    table.write(out, options)?;
    // With several devices, the label does not fit into the column heads.
    if let Some(lack) = total.strip_prefix("total ").filter(|_| devices > 1) {
        write_line(out, &format!("totals are {lack}"), options)?;
    }
    write_unknown(out, &estimates, options)
}

#[cfg(test)]
mod tests {
    use ggmill_core::{Builder, MetadataBuf, Model};
    use ggmill_estimate::{Placement, estimate};

    use super::*;

    fn cases(devices: usize) -> Vec<(Options, Estimate)> {
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", "llama");
        for (key, value) in [
            ("block_count", 2u32),
            ("context_length", 131_072),
            ("embedding_length", 4096),
            ("attention.head_count", 32),
        ] {
            metadata.set(format!("llama.{key}"), value);
        }
        let model =
            Model::open(Builder::new().metadata(metadata).plan().unwrap().header().to_vec());
        let model = model.unwrap();
        let described = ggmill_arch::Architecture::builtin("llama");
        let run = |context| {
            let mut run = Options::default();
            run.context = Some(context);
            run.placement = Placement::of(&model, 3, &vec![1.0; devices], &[]);
            let estimated = estimate(&model, described, &run).unwrap();
            (run, estimated)
        };
        [8192, 131_072].map(run).into()
    }

    #[test]
    fn the_totals_of_devices_say_what_they_lack() {
        // A model without tensors.
        let cases = cases(1);
        let mut out = Vec::new();
        write_table(&mut out, &cases, &text::Options::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("totals are without "), "{text}");
    }

    #[test]
    fn no_line_is_longer_than_a_narrow_terminal() {
        for devices in [0, 1, 4] {
            let cases = cases(devices);
            for width in [40, 60, 80] {
                let options = text::Options::default().with_width(width);
                let mut out = Vec::new();
                write_table(&mut out, &cases, &options).unwrap();
                let (run, estimate) = &cases[0];
                write_one(&mut out, run, estimate, &options).unwrap();
                let text = String::from_utf8(out).unwrap();
                let too_long = text.lines().find(|line| line.len() > width);
                assert_eq!(too_long, None, "{width}:\n{text}");
            }
        }
    }
}
