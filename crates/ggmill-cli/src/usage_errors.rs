//! Usage errors with advice: what to type instead of an option or command of another tool, and which
//! values a numeric option takes.

use std::error::Error as _;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ggmill_arch::near_part;

/// A command, an option of a similar tool that it lacks, and the advice.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("check", "--check-tensors", "--data reads the weights"),
    ("check", "--json", "--format json writes JSON"),
    ("convert", "--bigendian", "`ggmill repack FILE -o OUT --endian big` changes the byte order"),
    (
        "convert",
        "--disable-mistral-community-chat-template",
        "the chat template is the one in the checkpoint, and none is added; omit this option",
    ),
    ("convert", "--dspark", "the DSpark draft model in a DeepSeek V4 checkpoint is not converted"),
    ("convert", "--fp8-as-q8", "packed weights are decoded, and --type Q8_0 quantizes all of them"),
    ("convert", "--fuse-gate-up-exps", "tensors are stored as in the checkpoint; omit this option"),
    ("convert", "--fuse-qkv", "tensors are stored as in the checkpoint; omit this option"),
    (
        "convert",
        "--mistral-format",
        "the format is detected from the files of the checkpoint; omit this option",
    ),
    ("convert", "--model-name", "--name sets the name of the model"),
    (
        "convert",
        "--mtp",
        "multi-token prediction layers are written to the file of the model, not to a separate \
         file; omit this option",
    ),
    ("convert", "--no-lazy", "the tensors are never all in memory at once; omit this option"),
    (
        "convert",
        "--no-mtp",
        "multi-token prediction layers are always written; programs skip them by default",
    ),
    (
        "convert",
        "--no-nextn",
        "multi-token prediction layers are always written; programs skip them by default",
    ),
    ("convert", "--no-tensor-first-split", "`ggmill split` divides a file that way"),
    ("convert", "--print-supported-models", "`ggmill architectures` lists the supported models"),
    ("convert", "--remote", "`ggmill convert hf://OWNER/NAME` reads a repository of the Hub"),
    (
        "convert",
        "--sentence-transformers-dense-modules",
        "the dense modules of sentence-transformers are always converted for LFM2, and for no \
         other architecture",
    ),
    ("convert", "--use-temp-file", "the tensors are never all in memory at once; omit this option"),
    ("convert", "--verbose", "--dry-run prints every tensor"),
    ("dump", "--json-array", "--full prints arrays in full"),
    ("dump", "--no-tensors", "--metadata shows the metadata only"),
    ("edit", "--delete", "--unset KEY removes a key"),
    ("edit", "--name", "--set general.name=NAME sets the name"),
    ("estimate", "--cpu-moe", "--override-tensor 'ffn_.*_exps=CPU' places the experts on the CPU"),
    (
        "estimate",
        "--n-cpu-moe",
        "--override-tensor 'blk.[0-3].ffn_.*_exps=CPU' places the experts of four layers on the CPU",
    ),
    ("estimate", "--vram", "--fit SIZE, such as --fit 8G, finds what fits into a device"),
    ("estimate", "-f", "-fa of llama.cpp is --flash-attn"),
    ("estimate", "-m", "the model has no option: `ggmill estimate FILE`"),
    (
        "estimate",
        "-n",
        "-ngl of llama.cpp is --gpu-layers, -np is --parallel, -nkvo is --no-kv-offload",
    ),
    ("estimate", "-o", "-ot of llama.cpp is --override-tensor PATTERN=DEVICE"),
    ("estimate", "-t", "-ts of llama.cpp is --tensor-split SHARE,SHARE"),
    ("estimate", "-u", "-ub of llama.cpp is --ubatch"),
    ("graft", "--remove", "--drop GLOB removes tensors"),
    ("imatrix", "-m", "`ggmill imatrix make MODEL --text FILE -o OUT` computes one"),
    ("imatrix", "-f", "`ggmill imatrix make MODEL --text FILE -o OUT` computes one"),
    ("imatrix", "--in-file", "`ggmill imatrix merge FILE... -o OUT` merges importance matrices"),
    ("imatrix", "--show-statistics", "`ggmill imatrix show FILE` shows the weights of each tensor"),
    ("inspect", "--json-array", "--full prints arrays in full"),
    ("inspect", "--no-tensors", "--metadata shows the metadata only"),
    ("measure", "--base", "--against FILE compares with another model"),
    ("measure", "--kl-divergence", "--against FILE measures the KL divergence from another model"),
    (
        "measure",
        "--kl-divergence-base",
        "--against FILE takes the other model itself, not a file of its logits",
    ),
    ("measure", "-m", "the model has no option: `ggmill measure MODEL --text FILE`"),
    ("measure", "-f", "--text FILE takes the text"),
    ("quantize", "--check-tensors", "`ggmill check FILE --data` reads the weights"),
    ("quantize", "-o", "the output has no option: `ggmill quantize IN OUT TYPE`"),
    ("template", "--user", "-m user:TEXT gives a message of the user"),
    (
        "tokenize",
        "--log-disable",
        "messages go to standard error, and -q suppresses them; omit this option",
    ),
    ("tokenize", "--no-escape", "escapes are replaced only with --escape; omit this option"),
    ("tokenize", "--show-count", "--count prints the number of tokens"),
    ("tokenize", "--stdin", "- in place of TEXT reads standard input"),
];

/// A word that people type as a command, and the advice. Names of programs are without their prefix
/// (see [`program_word`]).
const COMMANDS: &[(&str, &str)] = &[
    ("chat", "ggmill does not generate text; `ggmill template render FILE` renders a conversation"),
    ("compare", "`ggmill diff A B` compares models"),
    ("convert-endian", "`ggmill repack FILE -o OUT --endian big` changes the byte order"),
    ("convert-hf-to-gguf", "`ggmill convert DIR -o OUT` converts a checkpoint"),
    ("convert-lora-to-gguf", "`ggmill convert DIR --base BASE` converts an adapter"),
    ("dequantize", "`ggmill quantize IN OUT F32` decodes a model"),
    ("dump", "`ggmill inspect FILE --all` shows everything"),
    ("export-lora", "`ggmill lora merge BASE ADAPTER -o OUT` merges an adapter"),
    ("fit", "`ggmill estimate FILE --fit 8G` finds what fits into a device"),
    ("fit-params", "`ggmill estimate FILE --fit 8G` finds what fits into a device"),
    ("graph", "`ggmill explain ARCHITECTURE --graph` shows a computation graph"),
    ("hash", "`ggmill hash FILE` hashes a model"),
    ("imatrix", "`ggmill imatrix make MODEL --text FILE -o OUT` computes one"),
    ("kld", "`ggmill measure FILE --against BASE --text TEXT` measures the KL divergence"),
    ("memory", "`ggmill estimate FILE` estimates the memory that a model needs"),
    (
        "new-metadata",
        "`ggmill edit IN -o OUT` writes a new file and takes the options of gguf-new-metadata",
    ),
    ("perplexity", "`ggmill measure MODEL --text FILE` computes it"),
    ("ppl", "`ggmill measure MODEL --text FILE` computes it"),
    ("quantize", "`ggmill quantize IN OUT Q4_K_M` quantizes a model"),
    ("render", "`ggmill template render FILE` renders a conversation"),
    ("serve", "`ggmill web FILE` serves the inspector page; ggmill serves no models"),
    ("set", "`ggmill edit FILE --set KEY=VALUE` sets a key"),
    ("set-metadata", "`ggmill edit FILE --set KEY=VALUE` sets a key"),
    ("show", "`ggmill inspect FILE` shows a model"),
    (
        "split",
        "`ggmill split IN PREFIX --max-size 2G` splits a model, `ggmill merge SHARD -o OUT` merges it",
    ),
    ("tokenize", "`ggmill tokenize FILE TEXT --ids` prints tokens"),
    ("unset", "`ggmill edit FILE --unset KEY` removes a key"),
    ("validate", "`ggmill check FILE` checks a model"),
    ("view", "`ggmill inspect FILE` shows a model, `ggmill web FILE` shows it in a browser"),
    ("verify", "`ggmill check FILE` checks a model, `ggmill hash FILE --check MANIFEST` its data"),
];

/// A command, a word that people type as its subcommand, and the advice.
const NESTED: &[(&str, &str, &str)] = &[(
    "template",
    "show",
    "`ggmill get FILE tokenizer.chat_template` prints a template, `ggmill template list FILE` lists \
     those there are",
)];

/// Returns the word for a program in [`COMMANDS`]: its name without `llama-`, `gguf-` and `.py`.
fn program_word(program: &str) -> String {
    let name = program.strip_suffix(".py").unwrap_or(program).replace('_', "-");
    let prefixes = ["llama-gguf-", "llama-", "gguf-"];
    let rest = prefixes.into_iter().find_map(|prefix| name.strip_prefix(prefix));
    rest.map_or_else(|| name.clone(), str::to_owned)
}

/// Adds advice to the error about an unknown option or command, if there is some; it replaces clap's
/// suggestion of a similar name. `commands` returns the names that `help` accepts, of which the most
/// similar one is suggested for an unknown one.
pub(crate) fn advise(
    mut error: clap::Error,
    command: Option<&str>,
    commands: impl FnOnce() -> Vec<String>,
) -> clap::Error {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let advice = match error.kind() {
        ErrorKind::UnknownArgument => context(ContextKind::InvalidArg).and_then(|option| {
            let known = |(of, name, _): &&(&str, &str, _)| Some(*of) == command && *name == option;
            OPTIONS.iter().find(known).map(|(.., advice)| *advice)
        }),
        ErrorKind::InvalidSubcommand => context(ContextKind::InvalidSubcommand).and_then(|name| {
            if command.is_some_and(|command| command != name && command != "help") {
                let known =
                    |(of, word, _): &&(&str, &str, &str)| Some(*of) == command && *word == name;
                return NESTED.iter().find(known).map(|(.., advice)| *advice);
            }
            let word = program_word(&name);
            COMMANDS.iter().find(|(known, _)| *known == word).map(|(_, advice)| *advice)
        }),
        _ => None,
    };
    if let Some(advice) = advice {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedValue);
        // The usage line names the similar option.
        error.remove(ContextKind::Usage);
        let advice = ContextValue::StyledStrs(vec![StyledStr::from(advice)]);
        error.insert(ContextKind::Suggested, advice);
    } else if command == Some("help")
        && let Some(name) = context(ContextKind::InvalidSubcommand)
    {
        // clap suggests a command for `quantise`, but not for `help quantise`.
        let commands = commands();
        if let Some(near) = near_part(&name, commands.iter().map(String::as_str)) {
            let near = ContextValue::Strings(vec![near]);
            error.insert(ContextKind::SuggestedSubcommand, near);
        }
    }
    error
}

/// Rewords the error about an option value that is not a valid number: clap prints the message of the
/// standard library's parser.
pub(crate) fn in_words(error: clap::Error, command: &clap::Command) -> clap::Error {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let (ErrorKind::ValueValidation, Some(source)) = (error.kind(), error.source()) else {
        return error;
    };
    let why = match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "the number is out of range",
        Some(_) => "expected an integer",
        None if source.is::<ParseFloatError>() => "expected a number",
        None => return error,
    };
    let (value, option) = (context(ContextKind::InvalidValue), context(ContextKind::InvalidArg));
    let message = format!(
        "invalid value '{value}' for '{option}': {why}\n\nFor more information, try '--help'.\n"
    );
    clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
}
