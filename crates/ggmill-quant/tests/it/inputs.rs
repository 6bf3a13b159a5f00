//! The inputs of the golden vectors, bit for bit those of `xtask/peers/quant_vectors.py`.
//!
//! Every step is exact or a single IEEE operation, so nothing depends on a math library.

pub(crate) const PATTERNS: [&str; 22] = [
    "gaussian",
    "heavy",
    "heavier",
    "constant",
    "zero",
    "tiny",
    "minute",
    "huge",
    "large",
    "limit",
    "subnormal",
    "signed-zero",
    "one-hot",
    "sorted",
    "positive",
    "negative",
    "halves",
    "ternary",
    "outlier",
    "patchy",
    "brink",
    "wild",
];

pub(crate) const WEIGHTS: [&str; 5] = ["none", "random", "spiky", "sparse", "zero"];

/// Returns output number `index`, from 0, of SplitMix64 with the state `seed`.
pub(crate) fn hash(seed: u64, index: usize) -> u64 {
    let mut z = seed.wrapping_add((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns an approximately normal number with standard deviation 1/2.
fn bell(seed: u64, index: usize) -> f32 {
    let h = hash(seed, index);
    let total = (h & 0xf_ffff) + (h >> 20 & 0xf_ffff) + (h >> 40 & 0xf_ffff);
    (total as i64 - 3 * (1 << 19)) as f32 * power_of_two(-20)
}

/// Returns a uniform number in 0..1.
fn uniform(seed: u64, index: usize) -> f32 {
    (hash(seed, index) >> 40) as f32 * power_of_two(-24)
}

fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent + 127).cast_unsigned() << 23)
}

/// Returns one row.
pub(crate) fn values(pattern: &str, seed: u64, n: usize) -> Vec<f32> {
    (0..n).map(|i| value(pattern, seed, n, i)).collect()
}

fn value(pattern: &str, seed: u64, n: usize, i: usize) -> f32 {
    let h = hash(seed ^ 0x5eed, i);
    let g = bell(seed, i);
    match pattern {
        "gaussian" => g * power_of_two(-4),
        "heavy" => g * g * g * 4.0,
        "heavier" => {
            let cube = g * g * g;
            cube * cube * cube
        }
        "constant" => 0.710_937_5,
        "zero" => 0.0,
        "tiny" => g * power_of_two(-24),
        "minute" => g * power_of_two(-60),
        "huge" => g * power_of_two(100),
        "large" => g * power_of_two(14),
        "limit" => f32::from_bits((h & 0x8000_0000) as u32 | 0x7f7f_ffff),
        "subnormal" => f32::from_bits((h & 0x807f_ffff) as u32),
        "signed-zero" => f32::from_bits((h & 0x8000_0000) as u32),
        "one-hot" => {
            if i % 64 == 37 {
                -1.25
            } else {
                0.0
            }
        }
        "sorted" => (i as i64 - (n / 3) as i64) as f32 * power_of_two(-9),
        "positive" => g.abs() + 0.5,
        "negative" => -0.5 - g.abs(),
        "halves" => ((h >> 40) % 33) as f32 * 0.5 - 8.0,
        "ternary" => (h % 3) as f32 * 0.75 - 0.75,
        "outlier" => g * power_of_two(if i % 97 == 5 { 6 } else { -5 }),
        "patchy" => {
            let exponent = (hash(seed ^ 0xface, i / 16) % 24) as u32;
            g * if exponent == 0 { 0.0 } else { f32::from_bits((115 + exponent) << 23) }
        }
        "brink" => {
            let exponent = (hash(seed ^ 0xb11c, i / 32) % 254) as u32;
            let top = f32::from_bits(exponent << 23 | (0x7f_ffff - (h % 96) as u32));
            if i % 32 == 11 { top } else { top * g * 0.25 }
        }
        "wild" => f32::from_bits((h & 0x807f_ffff) as u32 | (((h >> 32) % 255) as u32) << 23),
        _ => unreachable!("pattern {pattern}"),
    }
}

/// Returns the importance of each column.
pub(crate) fn weights(kind: &str, seed: u64, n: usize) -> Option<Vec<f32>> {
    let weight = |i: usize| {
        let u = uniform(seed ^ 0x1337, i);
        match kind {
            "random" => u + power_of_two(-6),
            "spiky" => {
                let fourth = (u * u) * (u * u);
                fourth * fourth * 4096.0
            }
            "sparse" if hash(seed ^ 0x51ab, i).is_multiple_of(4) => u,
            _ => 0.0,
        }
    };
    (kind != "none").then(|| (0..n).map(weight).collect())
}

/// Returns the rows and the importance of one case.
pub(crate) fn case(
    pattern: &str,
    kind: &str,
    seed: u64,
    rows: usize,
    row_len: usize,
) -> (Vec<f32>, Option<Vec<f32>>) {
    let place = |names: &[&str], name| {
        names.iter().position(|&known| known == name).expect("a known name") as u64
    };
    let start = (seed.wrapping_mul(1_000_003)).wrapping_add(
        place(&PATTERNS, pattern) * 10_007
            + place(&WEIGHTS, kind) * 101
            + rows as u64 * 13
            + row_len as u64,
    );
    let table = (0..rows as u64)
        .flat_map(|row| values(pattern, start.wrapping_add(row << 32), row_len))
        .collect();
    (table, weights(kind, start, row_len))
}

/// Returns random bytes.
pub(crate) fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..length.div_ceil(8)).flat_map(|i| hash(seed, i).to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

/// Returns FNV-1a over 8-byte little-endian words, the last one padded with zeros, then the length.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let state = bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325_u64, |state, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (state ^ u64::from_le_bytes(word)).wrapping_mul(PRIME)
    });
    (state ^ bytes.len() as u64).wrapping_mul(PRIME)
}
