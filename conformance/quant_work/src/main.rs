//! One side of `python3 conformance/run.py quant-count --target`: quantizes or dequantizes standard input a
//! number of times and writes the result to standard output. Whatever runs it counts instructions;
//! the difference between two numbers of times is that of the work alone.
//!
//! usage: `quantize|importance|dequantize TYPE ISA ROW_LENGTH TIMES`, or `isas`. The input is values
//! or blocks, little-endian; for `importance` a row of weights is in front of the values.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};

use ggmill_core::GgmlType;
use ggmill_quant::{Isa, codec_with};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = io::stdout().lock();
    if arguments == ["isas"] {
        for isa in Isa::available() {
            writeln!(out, "{isa}")?;
        }
        return Ok(());
    }
    let [work, name, isa, row_len, times] = &arguments[..] else {
        return Err("expected five arguments".into());
    };
    let ggml_type: GgmlType = name.parse().map_err(|_| "no such type")?;
    let isa = Isa::available().find(|known| known.to_string() == *isa).ok_or("no such lanes")?;
    let codec = codec_with(ggml_type, isa)?;
    let layout = ggml_type.layout().ok_or("a type without a layout")?;
    let (elements, size) = (layout.elements as usize, layout.bytes as usize);
    let (row_len, times): (usize, usize) = (row_len.parse()?, times.parse()?);
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    if work == "dequantize" {
        let mut values = vec![0.0_f32; input.len() / size * elements];
        for _ in 0..times {
            codec.dequantize(black_box(&input), &mut values)?;
        }
        for value in values {
            out.write_all(&value.to_le_bytes())?;
        }
        return Ok(());
    }
    let values: Vec<f32> =
        input.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let (weights, values) = values.split_at(if work == "importance" { row_len } else { 0 });
    let weights = (work == "importance").then_some(weights);
    let mut blocks = vec![0; values.len() / elements * size];
    for _ in 0..times {
        codec.quantize(black_box(values), row_len, weights, &mut blocks)?;
    }
    out.write_all(&blocks)?;
    Ok(())
}
