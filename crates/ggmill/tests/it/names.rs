//! The names of error kinds, which programs in other languages rely on: none may change.

use ggmill::{arch, check::Profile, io, pipeline, quant, template, tokenizer};

#[test]
fn kinds_of_errors_have_names_that_do_not_change() {
    use ggmill::core::ErrorKind as Core;
    let core = [
        (Core::NotGguf, "not_gguf"),
        (Core::Version, "version"),
        (Core::Truncated, "truncated"),
        (Core::Malformed, "malformed"),
        (Core::Limit, "limit"),
        (Core::Unsupported, "unsupported"),
        (Core::Missing, "missing"),
        (Core::WrongType, "wrong_type"),
        (Core::Misuse, "misuse"),
        (Core::Io, "io"),
        (Core::Changed, "changed"),
        (Core::Shards, "shards"),
    ];
    for (kind, name) in core {
        assert_eq!(kind.name(), name);
        // An error that wraps another has the name of the inner kind.
        assert_eq!(io::ErrorKind::Format(kind).name(), name);
        assert_eq!(quant::ErrorKind::Read(kind).name(), name);
    }
    let io = [
        (io::ErrorKind::Io, "io"),
        (io::ErrorKind::Changed, "changed"),
        (io::ErrorKind::Exists, "exists"),
        (io::ErrorKind::NotEditable, "not_editable"),
        (io::ErrorKind::Journal, "journal"),
        (io::ErrorKind::Shards, "shards"),
        (io::ErrorKind::Misuse, "misuse"),
    ];
    assert!(io.into_iter().all(|(kind, name)| kind.name() == name));
    let (row, column) = (3, 4);
    let quant = [
        (quant::ErrorKind::Unsupported, "unsupported"),
        (quant::ErrorKind::Misuse, "misuse"),
        (quant::ErrorKind::NonFinite { row, column }, "non_finite"),
        (quant::ErrorKind::OutOfRange { row, column }, "out_of_range"),
        (quant::ErrorKind::NeedsWeights, "needs_weights"),
        (quant::ErrorKind::NonFiniteWeight { column }, "non_finite_weight"),
    ];
    assert!(quant.into_iter().all(|(kind, name)| kind.name() == name));
    let pipeline = [
        (pipeline::ErrorKind::Io, "io"),
        (pipeline::ErrorKind::Truncated, "truncated"),
        (pipeline::ErrorKind::Changed, "changed"),
        (pipeline::ErrorKind::Checkpoint, "checkpoint"),
        (pipeline::ErrorKind::Architecture, "architecture"),
        (pipeline::ErrorKind::Unsupported, "unsupported"),
        (pipeline::ErrorKind::NonFinite, "non_finite"),
        (pipeline::ErrorKind::Importance, "importance"),
        (pipeline::ErrorKind::Quantized, "quantized"),
        (pipeline::ErrorKind::Budget, "budget"),
        (pipeline::ErrorKind::Types, "types"),
        (pipeline::ErrorKind::Memory, "memory"),
        (pipeline::ErrorKind::Setting, "setting"),
        (pipeline::ErrorKind::PreTokenizer, "pre_tokenizer"),
        (pipeline::ErrorKind::Vocabulary, "vocabulary"),
        (pipeline::ErrorKind::Cancelled, "cancelled"),
        (pipeline::ErrorKind::Edit, "edit"),
        (pipeline::ErrorKind::Misuse, "misuse"),
    ];
    assert!(pipeline.into_iter().all(|(kind, name)| kind.name() == name));
    let tokenizer = [
        (tokenizer::ErrorKind::Missing, "missing"),
        (tokenizer::ErrorKind::WrongType, "wrong_type"),
        (tokenizer::ErrorKind::UnknownModel, "unknown_model"),
        (tokenizer::ErrorKind::UnknownPreTokenizer, "unknown_pre_tokenizer"),
        (tokenizer::ErrorKind::WrongLength, "wrong_length"),
        (tokenizer::ErrorKind::DuplicateToken, "duplicate_token"),
        (tokenizer::ErrorKind::Malformed, "malformed"),
        (tokenizer::ErrorKind::Limit, "limit"),
        (tokenizer::ErrorKind::NoTokenizer, "no_tokenizer"),
        (tokenizer::ErrorKind::NoSuchToken, "no_such_token"),
    ];
    assert!(tokenizer.into_iter().all(|(kind, name)| kind.name() == name));
    let template = [
        (template::ErrorKind::Syntax, "syntax"),
        (template::ErrorKind::Refused, "refused"),
        (template::ErrorKind::Undefined, "undefined"),
        (template::ErrorKind::Value, "value"),
        (template::ErrorKind::Security, "security"),
        (template::ErrorKind::Limit, "limit"),
        (template::ErrorKind::Unsupported, "unsupported"),
        (template::ErrorKind::Conversation, "conversation"),
        (template::ErrorKind::Missing, "missing"),
    ];
    assert!(template.into_iter().all(|(kind, name)| kind.name() == name));
    let arch = [
        (arch::ErrorKind::Description, "description"),
        (arch::ErrorKind::Configuration, "configuration"),
        (arch::ErrorKind::Unknown, "unknown"),
        (arch::ErrorKind::Unsupported, "unsupported"),
        (arch::ErrorKind::Limit, "limit"),
    ];
    assert!(arch.into_iter().all(|(kind, name)| kind.name() == name));
}

#[test]
fn tokenizers_and_profiles_have_names_that_do_not_change() {
    use tokenizer::Kind;
    let kinds = [
        (Kind::Spm, "spm"),
        (Kind::Bpe, "bpe"),
        (Kind::Wpm, "wpm"),
        (Kind::Ugm, "ugm"),
        (Kind::Rwkv, "rwkv"),
        (Kind::Plamo2, "plamo2"),
        (Kind::Test, "test"),
        (Kind::None, "none"),
    ];
    assert!(kinds.into_iter().all(|(kind, name)| kind.name() == name));
    assert_eq!(Profile::ALL.map(Profile::name), ["spec", "ggml", "all", "run", "threat"]);
    let unknown = "All".parse::<Profile>().unwrap_err();
    assert_eq!(unknown.to_string(), "expected a profile: spec, ggml, all, run, threat");
}
