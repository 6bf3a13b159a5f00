//! A WordPiece vocabulary: `tokenizer.json`, or `vocab.txt` with one token per line.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{ErrorKind, Result};
use ggmill_tokenizer::tokenizer_json::{Model, ModelKind, TokenizerJson, Vocab};
use serde_json::{Value, json};

use super::bpe;
use super::class::Class;
use super::fast::Fast;
use super::files::{self, fault};
use super::llama_hf::has_type;
use super::pretokenizer;
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::{MAX_TOKENS, TokenType, Tokens, WORD_PIECE};

const FILE: &str = "vocab.txt";
/// Prefix of tokens that continue a word.
const CONTINUING: &str = "##";

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has no such file, or one of
/// another kind.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let file = if request.tokenizer()?.is_some() {
        request.tokenizer_of(ModelKind::WordPiece)?
    } else {
        of_lines(request)?
    };
    let Some(file) = file else { return Ok(false) };
    let tokenizer = Fast::of(&file, request)?;
    let mut tokens = bpe::tokens(request, &tokenizer)?;
    let pre = pretokenizer::name(request, &tokenizer);
    let is_bert = || has_type(tokenizer.pre_tokenizer(), "BertPreTokenizer");
    let pre = match pre {
        // Programs split words by the model alone.
        Err(error) if error.kind() == ErrorKind::PreTokenizer && is_bert() => "bert-bge".to_owned(),
        pre => pre?,
    };
    mark_words(&mut tokens);
    metadata.set(keys::TOKENIZER_MODEL, WORD_PIECE);
    metadata.set(keys::TOKENIZER_PRE, &*pre);
    tokens.write_to(false, request.spec, metadata);
    let options = SpecialOptions { merges: false, limit: Some(tokens.len()) };
    special::write(request, &tokens, options, metadata)?;
    Ok(true)
}

/// Marks tokens that begin a word, like SentencePiece, instead of those that continue one. Programs
/// search for user-defined tokens in the original text, so these are not marked, unless another token
/// has the same text.
fn mark_words(tokens: &mut Tokens) {
    let is = |kind: i32, wanted: TokenType| kind == wanted as i32;
    let continuing: BTreeSet<String> = tokens
        .texts
        .iter()
        .filter_map(|text| Some(text.strip_prefix(CONTINUING)?.to_owned()))
        .collect();
    for (text, &kind) in tokens.texts.iter_mut().zip(&tokens.types) {
        let is_plain = is(kind, TokenType::UserDefined) && !continuing.contains(text);
        if is(kind, TokenType::Control) || is_plain {
            continue;
        }
        *text = match text.strip_prefix(CONTINUING) {
            Some(rest) => rest.to_owned(),
            None => format!("\u{2581}{text}"),
        };
    }
}

/// Converts `vocab.txt` like the `transformers` library; `None` if it is absent.
fn of_lines(request: &mut Request<'_>) -> Result<Option<Rc<TokenizerJson>>> {
    let Some(bytes) = files::vocabulary(request.files, FILE)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| fault(FILE, "is not valid UTF-8"))?;
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines = text.strip_suffix('\n').unwrap_or(&text);
    let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
    for (id, token) in (0u32..).zip(lines.split('\n')) {
        if ids.len() >= MAX_TOKENS {
            return Err(fault(FILE, format!("more than {MAX_TOKENS} tokens")));
        }
        ids.insert(token, id);
    }
    let map = files::json(request.files, "special_tokens_map.json")?;
    let class = Class::of(request, map.as_ref());
    let token = |kind: &'static str| class.token(kind).map(|token| token.content);
    let around = |kind: &'static str| {
        let content = token(kind)?;
        let id = *ids.get(&*content)?;
        Some((content, id))
    };
    let part = |name: &str| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
    let post_processor = match (around("cls_token"), around("sep_token")) {
        (Some((cls, cls_id)), Some((sep, sep_id))) => json!({
            "type": "TemplateProcessing",
            "single": [part(&cls), { "Sequence": { "id": "A", "type_id": 0 } }, part(&sep)],
            "special_tokens": { cls: { "ids": [cls_id] }, sep: { "ids": [sep_id] } },
        }),
        _ => Value::Null,
    };
    let mut tokens: Vec<(String, u32)> =
        ids.iter().map(|(token, id)| ((*token).to_owned(), *id)).collect();
    tokens.sort_unstable_by_key(|(_, id)| *id);
    Ok(Some(Rc::new(TokenizerJson {
        model: Model {
            r#type: Some("WordPiece".into()),
            vocab: Vocab { tokens, scores: Vec::new() },
            unk_token: token("unk_token"),
            continuing_subword_prefix: Some(CONTINUING.to_owned()),
            ..Model::default()
        },
        added_tokens: Vec::new(),
        normalizer: json!({
            "type": "BertNormalizer", "clean_text": true,
            "handle_chinese_chars": class.flag("tokenize_chinese_chars"),
            "strip_accents": class.value("strip_accents"),
            "lowercase": class.flag("do_lower_case"),
        }),
        pre_tokenizer: json!({ "type": "BertPreTokenizer" }),
        post_processor,
        decoder: json!({ "type": "WordPiece", "prefix": CONTINUING, "cleanup": true }),
    })))
}
