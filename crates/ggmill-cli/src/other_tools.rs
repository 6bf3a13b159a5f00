//! Options of other tools that a command does not have: what to type instead.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A command, an option that a tool like it has, and what to do instead.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("convert", "--bigendian", "`ggmill repack FILE -o OUT --endian big` changes the byte order"),
    ("convert", "--model-name", "--name sets the name of the model"),
    ("convert", "--no-lazy", "tensors are never all in memory; leave it out"),
    ("convert", "--print-supported-models", "`ggmill architectures` lists the supported models"),
    ("convert", "--remote", "download the checkpoint first: `hf download OWNER/NAME`"),
    ("convert", "--use-temp-file", "tensors are never all in memory; leave it out"),
    ("convert", "--verbose", "--dry-run prints every tensor"),
    ("dump", "--json-array", "--full prints arrays in full"),
    ("dump", "--no-tensors", "--metadata shows the metadata only"),
    ("imatrix", "--in-file", "`ggmill imatrix merge FILE... -o OUT` merges importance matrices"),
    ("imatrix", "--show-statistics", "`ggmill imatrix show FILE` shows the weights of each tensor"),
    ("inspect", "--json-array", "--full prints arrays in full"),
    ("inspect", "--no-tensors", "--metadata shows the metadata only"),
    ("tokenize", "--log-disable", "messages go to standard error, and -q drops them; leave it out"),
    ("tokenize", "--no-escape", "escapes are replaced only with --escape; leave it out"),
    ("tokenize", "--show-count", "--count prints the number of tokens"),
    ("tokenize", "--stdin", "- in place of TEXT reads standard input"),
];

/// The error about an option that is not known, with what to do instead where that is known: a
/// similar name is of little use then.
pub(crate) fn advise(mut error: clap::Error, command: Option<&str>) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let known = OPTIONS.iter().find(|(of, name, _)| Some(*of) == command && name == option);
    if let Some((_, _, advice)) = known {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedValue);
        // It shows the option that is similar.
        error.remove(ContextKind::Usage);
        let advice = ContextValue::StyledStrs(vec![StyledStr::from(*advice)]);
        error.insert(ContextKind::Suggested, advice);
    }
    error
}
