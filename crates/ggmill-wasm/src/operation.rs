//! The operations, by number. `npm/src/module.js` has the same numbers.

use crate::failure::Failure;
use crate::header;
use crate::record::Record;
use crate::state::State;

/// Runs an operation. Returns 0 for success, otherwise 1.
pub(crate) fn run(state: &mut State, operation: u32, file: u32, argument: u64) -> u32 {
    let input = state.take_input();
    match perform(state, operation, file, argument, &input) {
        Ok(output) => {
            state.set_output(output);
            0
        }
        Err(failure) => {
            state.set_output(failure.into_record());
            1
        }
    }
}

fn perform(
    state: &mut State,
    operation: u32,
    file: u32,
    argument: u64,
    input: &[u8],
) -> Result<Record, Failure> {
    let files = &mut state.files;
    match operation {
        0 => Ok(files.begin(argument)),
        1 => files.feed(file, input),
        2 => files.finish(file, argument != 0),
        3 => files.join(input),
        4 => Ok(files.close(file)),
        5 => Ok(header::facts(files.part(file, argument)?)),
        6 => Ok(header::entries(files.part(file, argument)?)),
        7 => header::value(files.part(file, argument >> 32)?, argument & u64::from(u32::MAX)),
        8 => Ok(header::tensors(files.model(file)?)),
        9 => Ok(header::faults(files.part(file, argument)?)),
        10 => Ok(header::types()),
        #[cfg(feature = "decode")]
        20 => crate::decode::decode(argument, input),
        #[cfg(any(feature = "check", feature = "check-text"))]
        21 => crate::check::check(files.model(file)?, input),
        #[cfg(feature = "estimate")]
        22 => crate::estimate::estimate(files.model(file)?, input),
        #[cfg(feature = "inspect")]
        23 => crate::inspect::inspect(files.model(file)?),
        #[cfg(feature = "name")]
        24 => crate::name::name(files.model(file)?, files.part(file, argument)?),
        #[cfg(feature = "edit")]
        25 => crate::edit::edit(files.part(file, 0)?, input, argument != 0),
        #[cfg(feature = "tokenize")]
        26 => crate::tokenize::tokenize(files.tokenizer(file)?, argument, input),
        #[cfg(feature = "template")]
        27 => crate::template::render(files.model(file)?, files.tokenizer(file).ok(), input),
        #[cfg(feature = "tokenize")]
        28 => crate::tokenize::detokenize(files.tokenizer(file)?, argument, input),
        #[cfg(feature = "check")]
        29 => Ok(crate::check::meant_key(files.model(file)?, input)),
        #[cfg(feature = "check")]
        30 => crate::check::concerns_text(files.model(file)?, input),
        #[cfg(any(feature = "check", feature = "check-text"))]
        31 => crate::check::vet(files, input),
        _ => Err(Failure::misuse("no such operation")),
    }
}
