//! The codes and scales of a block, for encoders that choose them by what a matrix computes.
//!
//! The value of a weight is *scale · unit + minimum*: the code of the weight selects the unit, and its group
//! has a scale and a minimum. What each code and each level of a scale stands for is read from decoded blocks.

mod fields;
mod points;
mod search;

use ggmill_core::{BlockLayout, GgmlType};

use crate::codec::{BlockCodec, codec};
use crate::error::Result;
use crate::float16::{f16_to_f32, f32_to_f16};
use fields::{Part, SIGNS, fields};
use points::Points;

pub use search::{GroupChoice, GroupSearch, PerRow, subtract_products};

/// The number 1 in half precision.
const ONE: u32 = 0x3c00;

/// The codes and scales of the blocks of a type.
///
/// ```
/// use ggmill_core::GgmlType;
/// use ggmill_quant::{BlockParts, Codes, dequantize};
/// let codes = Codes::of(GgmlType::Q4_0)?.ok_or("has codes")?;
/// let mut units = [3.0; 32];
/// units[31] = -8.0;
/// let mut block = [0; 18];
/// codes.write(&BlockParts { supers: [0.5, 0.0], scales: &[0], mins: &[0], units: &units }, &mut block)?;
/// let mut values = [0.0; 32];
/// dequantize(GgmlType::Q4_0, &block, &mut values)?;
/// assert_eq!((values[0], values[31]), (1.5, -4.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Codes {
    codec: &'static dyn BlockCodec,
    layout: BlockLayout,
    group: usize,
    scales: Levels,
    mins: Levels,
    alphabet: Alphabet,
}

/// The levels of scales or of minima.
#[derive(Debug, Default)]
struct Levels {
    /// The factor of the super-scale at each level, ascending.
    factors: Vec<f32>,
    /// The stored number of each level.
    stored: Vec<u32>,
}

/// The units that a weight, or eight weights together, can have.
#[derive(Debug)]
enum Alphabet {
    Units(Units),
    Points(Points),
}

/// The units of types in which each weight has its own code.
#[derive(Debug)]
struct Units {
    /// The units, ascending.
    units: Vec<f32>,
    /// The code of each.
    codes: Vec<u8>,
    /// The values halfway between units.
    borders: Vec<f32>,
    /// `true` if the units are successive integers.
    are_integers: bool,
}

/// The numbers that determine the values of a block.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers make it")]
pub struct BlockParts<'a> {
    /// The scale and the minimum of the block.
    pub supers: [f32; 2],
    /// The levels of the scales of the groups.
    pub scales: &'a [u16],
    /// The levels of their minima.
    pub mins: &'a [u16],
    /// The unit of each weight.
    pub units: &'a [f32],
}

impl Codes {
    /// Returns `true` if the blocks of a type have codes and scales that can be chosen.
    pub fn exist_for(ggml_type: GgmlType) -> bool {
        group_len(ggml_type).is_some()
    }

    /// Returns the codes of a type; `None` for a type whose blocks have no codes with scales.
    ///
    /// # Errors
    ///
    /// Those of [`codec`].
    pub fn of(ggml_type: GgmlType) -> Result<Option<Self>> {
        use GgmlType as T;
        let (Some(group), Some(layout)) = (group_len(ggml_type), ggml_type.layout()) else {
            return Ok(None);
        };
        let codec = codec(ggml_type)?;
        let cells = layout.elements as usize / points::cell_len(ggml_type);
        let values = |parts: &[(Part, u32)], codes: &dyn Fn(usize) -> u32| -> Result<Vec<f32>> {
            let mut block = vec![0; layout.bytes as usize];
            for cell in 0..cells {
                fields::write(fields(ggml_type, Part::Code(cell)), &mut block, codes(cell));
            }
            for &(part, number) in parts {
                fields::write(fields(ggml_type, part), &mut block, number);
            }
            let mut values = vec![0.0; layout.elements as usize];
            codec.dequantize(&block, &mut values)?;
            Ok(values)
        };
        // A level of the scale that stands for 1, or for a factor that units can have.
        let unit_level = match ggml_type {
            T::Q2_K | T::Q4_K | T::Q5_K | T::Q6_K => 1,
            T::Q3_K | T::IQ4_XS => 33,
            T::MXFP4 => 128,
            T::NVFP4 => 64,
            _ => 0,
        };
        let groups = layout.elements as usize / group;
        let mut unit_scale = vec![(Part::Super, ONE)];
        unit_scale.extend((0..groups).map(|group| (Part::Scale(group), unit_level)));
        let cell_bits = fields::width(fields(ggml_type, Part::Code(0)));
        let alphabet = match Points::of(ggml_type, &|parts, codes| {
            let parts: Vec<_> = unit_scale.iter().chain(parts).copied().collect();
            values(&parts, codes)
        })? {
            Some(points) => Alphabet::Points(points),
            // Five weights share a byte, see `write`.
            None if ggml_type == T::TQ1_0 => {
                Alphabet::Units(Units::new(&[-1.0, 0.0, 1.0], ggml_type))
            }
            None => {
                let unit = |code| Ok(values(&unit_scale, &|_| code)?[0]);
                let units = (0..1 << cell_bits).map(unit).collect::<Result<Vec<f32>>>()?;
                Alphabet::Units(Units::new(&units, ggml_type))
            }
        };
        // A code whose unit is not 0.
        let code = u32::from(values(&unit_scale, &|_| 0)?[0] == 0.0);
        let unit = values(&unit_scale, &|_| code)?[0];
        let levels = |part: Part, value: &dyn Fn(u32) -> Result<f32>| {
            (0..1 << fields::width(fields(ggml_type, part)))
                .map(value)
                .collect::<Result<Vec<f32>>>()
                .map(|factors| Levels::new(&factors))
        };
        let scales = levels(Part::Scale(0), &|level| {
            let parts = [(Part::Super, ONE), (Part::Scale(0), level)];
            Ok(values(&parts, &|_| code)?[0] / unit)
        })?;
        let mins = if fields::width(fields(ggml_type, Part::SuperMin)) == 0 {
            Levels::default()
        } else {
            levels(Part::Min(0), &|level| {
                Ok(values(&[(Part::SuperMin, ONE), (Part::Min(0), level)], &|_| 0)?[0])
            })?
        };
        Ok(Some(Self { codec, layout, group, scales, mins, alphabet }))
    }

    /// Returns the number of weights in a block.
    pub fn elements(&self) -> usize {
        self.layout.elements as usize
    }

    /// Returns the size of a block, in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.bytes as usize
    }

    /// Returns the number of weights under one scale.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Returns `true` if the scale of a group is any number of half precision, not a level of that of the
    /// block.
    pub fn has_free_scales(&self) -> bool {
        self.scales.factors.len() == 1
    }

    /// Returns `true` if the block has a scale of half precision, of which the scales of its groups are
    /// levels.
    pub fn has_super_scale(&self) -> bool {
        !self.has_free_scales() && fields::width(fields(self.codec.ggml_type(), Part::Super)) > 0
    }

    /// Reads the scale and the minimum of a block.
    pub fn supers(&self, block: &[u8]) -> [f32; 2] {
        [Part::Super, Part::SuperMin].map(|part| {
            let fields = fields(self.codec.ggml_type(), part);
            match (fields::width(fields), part) {
                // The levels of the scales are factors of 1.
                (0, Part::Super) => 1.0,
                _ => f16_to_f32(fields::read(fields, block) as u16),
            }
        })
    }

    /// Reads the levels of the scale and the minimum of a group.
    pub fn levels(&self, block: &[u8], group: usize) -> [u16; 2] {
        let read = |part| fields::read(fields(self.codec.ggml_type(), part), block);
        [self.scales.level(read(Part::Scale(group))), self.mins.level(read(Part::Min(group)))]
    }

    /// Multiplies the scales of the block by `factor`, and changes the levels of the group so that its scales
    /// stay about the same.
    pub fn scale(&self, choice: &mut GroupChoice, factor: f32) {
        let factors = &self.scales.factors;
        for (super_scale, level) in choice.supers[0].iter_mut().zip(&mut choice.scales) {
            let after = f16_to_f32(f32_to_f16(*super_scale * factor));
            let wanted = factors[usize::from(*level)] / factor;
            let place = factors.partition_point(|&factor| factor < wanted);
            let below = place.saturating_sub(1);
            let place = place.min(factors.len() - 1);
            let is_below = wanted - factors[below] < factors[place] - wanted;
            (*super_scale, *level) = (after, if is_below { below } else { place } as u16);
        }
    }

    /// Replaces a block. Units and levels must be those of the type.
    ///
    /// # Errors
    ///
    /// If `block` is not one block, or the scale is not finite.
    pub fn write(&self, parts: &BlockParts<'_>, block: &mut [u8]) -> Result<()> {
        let ggml_type = self.codec.ggml_type();
        if ggml_type == GgmlType::TQ1_0 {
            // The codec finds the same scale and units again: the scale is the greatest magnitude.
            let values: Vec<f32> = parts.units.iter().map(|unit| unit * parts.supers[0]).collect();
            return self.codec.quantize(&values, values.len(), None, block);
        }
        let mut set = |part, number| fields::write(fields(ggml_type, part), block, number);
        set(Part::Super, u32::from(f32_to_f16(parts.supers[0])));
        set(Part::SuperMin, u32::from(f32_to_f16(parts.supers[1])));
        for (group, (&scale, &min)) in parts.scales.iter().zip(parts.mins).enumerate() {
            set(Part::Scale(group), self.scales.stored[usize::from(scale)]);
            if let Some(&stored) = self.mins.stored.get(usize::from(min)) {
                set(Part::Min(group), stored);
            }
        }
        match &self.alphabet {
            Alphabet::Units(units) => {
                for (cell, &unit) in parts.units.iter().enumerate() {
                    set(Part::Code(cell), units.code(unit));
                }
            }
            Alphabet::Points(points) => {
                for (cell, units) in parts.units.as_chunks::<8>().0.iter().enumerate() {
                    let (code, is_down) = points.code(units);
                    set(Part::Code(cell), code | u32::from(is_down) << SIGNS);
                    set(Part::Min(8 * cell / self.group), u32::from(is_down));
                }
            }
        }
        Ok(())
    }
}

/// Returns the number of weights under one scale.
fn group_len(ggml_type: GgmlType) -> Option<usize> {
    use GgmlType as T;
    Some(match ggml_type {
        T::Q4_0 | T::Q4_1 | T::Q5_0 | T::Q5_1 | T::Q8_0 | T::IQ4_NL | T::MXFP4 => 32,
        T::Q4_K | T::Q5_K | T::IQ4_XS | T::IQ2_XXS | T::IQ3_XXS | T::IQ3_S | T::IQ1_S => 32,
        T::Q2_K | T::Q3_K | T::Q6_K | T::NVFP4 | T::IQ2_XS | T::IQ2_S | T::IQ1_M => 16,
        T::TQ1_0 | T::TQ2_0 => 256,
        T::Q1_0 => 128,
        T::Q2_0 => 64,
        _ => return None,
    })
}

impl Levels {
    /// Sorts the levels by what they stand for.
    fn new(factors: &[f32]) -> Self {
        let mut stored: Vec<u32> = (0..).zip(factors).map(|(level, _)| level).collect();
        let factor = |level: &u32| factors[*level as usize];
        stored.retain(|level| factor(level).is_finite());
        stored.sort_by(|a, b| factor(a).total_cmp(&factor(b)));
        stored.dedup_by_key(|level| factor(level).to_bits());
        Self { factors: stored.iter().map(factor).collect(), stored }
    }

    /// Returns the level that is stored so.
    fn level(&self, stored: u32) -> u16 {
        self.stored.iter().position(|&other| other == stored).unwrap_or(0) as u16
    }
}

impl Units {
    /// Sorts the units of all codes.
    fn new(of_codes: &[f32], ggml_type: GgmlType) -> Self {
        let mut codes: Vec<u8> = (0..=u8::MAX).take(of_codes.len()).collect();
        let unit = |code: &u8| of_codes[usize::from(*code)];
        // Codes that encoders never write.
        match ggml_type {
            GgmlType::Q8_0 => codes.retain(|code| unit(code) > -128.0),
            GgmlType::TQ2_0 => codes.retain(|code| unit(code) < 2.0),
            _ => {}
        }
        codes.sort_by(|a, b| unit(a).total_cmp(&unit(b)));
        codes.dedup_by_key(|code| unit(code).to_bits());
        let units: Vec<f32> = codes.iter().map(unit).collect();
        let borders: Vec<f32> = units.windows(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect();
        let are_integers =
            units.windows(2).all(|pair| (pair[1] - pair[0]).to_bits() == 1.0_f32.to_bits());
        Self { units, codes, borders, are_integers }
    }

    /// Returns the code of a unit.
    fn code(&self, unit: f32) -> u32 {
        let place = self.units.partition_point(|&other| other < unit);
        u32::from(self.codes[place.min(self.codes.len() - 1)])
    }
}
