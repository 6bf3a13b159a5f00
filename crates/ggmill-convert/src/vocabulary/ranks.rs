//! A byte-level BPE vocabulary in a file of ranks (`tiktoken`): each line has a byte sequence in
//! Base64 and its rank, which is its ID and its merge priority.
//!
//! The special tokens and the pre-tokenizer of such a checkpoint are in its Python code. The
//! description has them as data.

use std::collections::{BTreeSet, HashMap};

use ggmill_arch::RankRules;
use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};
use serde_json::Value;

use ggmill_tokenizer::tokenizer_json::{decode_base64, to_byte_level};

use super::files::{self, fault};
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::{BYTE_LEVEL, MAX_TOKENS, TokenType, Tokens, bounded};

/// Limit of the work to find merges, as the sum of the squared lengths of the tokens. Real
/// vocabularies take about 30 million.
const MAX_WORK: u64 = 1 << 33;

/// Byte sequences with their ranks, in the order of the file.
pub(crate) struct Ranks {
    sequences: Vec<(Vec<u8>, u32)>,
}

impl Ranks {
    /// Parses a file. Fails if a line is not a sequence and a rank, or if two lines have the same
    /// sequence or rank.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(bytes).map_err(|_| "is not valid UTF-8")?;
        let mut sequences = Vec::new();
        let mut work = 0u64;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let at = |message: &str| format!("line {}: {message}", number.saturating_add(1));
            let mut parts = line.split_ascii_whitespace();
            let (Some(sequence), Some(rank), None) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(at("expected a sequence in Base64 and its rank"));
            };
            let sequence = decode_base64(sequence).map_err(|message| at(&message))?;
            let rank = rank.parse().map_err(|_| at("the rank is not a number"))?;
            let len = sequence.len() as u64;
            work = work.saturating_add(len.saturating_mul(len));
            if sequence.is_empty() || sequences.len() >= MAX_TOKENS || work > MAX_WORK {
                return Err(at(
                    "the sequence is empty, or there are too many sequences, or they are too long \
                     in total",
                ));
            }
            sequences.push((sequence, rank));
        }
        let of_rank: BTreeSet<u32> = sequences.iter().map(|(_, rank)| *rank).collect();
        let distinct: BTreeSet<&[u8]> = sequences.iter().map(|(bytes, _)| &**bytes).collect();
        if of_rank.len() < sequences.len() || distinct.len() < sequences.len() {
            return Err("two lines have the same sequence or rank".to_owned());
        }
        Ok(Self { sequences })
    }

    /// Returns every pair of sequences whose concatenation is a sequence, ordered by its rank and
    /// then by theirs.
    fn all_merges(&self) -> Vec<String> {
        let ranks: HashMap<&[u8], u32> =
            self.sequences.iter().map(|(bytes, rank)| (&**bytes, *rank)).collect();
        let mut merges = Vec::new();
        for (bytes, rank) in &self.sequences {
            for place in 1..bytes.len() {
                let Some((left, right)) = bytes.split_at_checked(place) else { continue };
                if let (Some(of_left), Some(of_right)) = (ranks.get(left), ranks.get(right)) {
                    merges.push((*rank, *of_left, *of_right, left, right));
                }
            }
        }
        merges.sort_unstable();
        let joined = |(_, _, _, left, right): &(u32, u32, u32, &[u8], &[u8])| {
            format!("{} {}", to_byte_level(left), to_byte_level(right))
        };
        merges.iter().map(joined).collect()
    }

    /// Returns the last merge of each sequence, in order.
    fn merges(&self) -> Vec<String> {
        let ranks: HashMap<&[u8], u32> =
            self.sequences.iter().map(|(bytes, rank)| (&**bytes, *rank)).collect();
        let mut merges = Vec::with_capacity(self.sequences.len());
        for (bytes, rank) in self.sequences.iter().filter(|(bytes, _)| bytes.len() > 1) {
            let rank_of = |from: usize, to: usize| ranks.get(bytes.get(from..to)?).copied();
            // Sequences that no merge results in are skipped.
            if let Some(place) = last_merge(&rank_of, (1..=bytes.len()).collect(), *rank)
                && let Some((left, right)) = bytes.split_at_checked(place)
            {
                merges.push(format!("{} {}", to_byte_level(left), to_byte_level(right)));
            }
        }
        merges
    }
}

/// Returns the boundary of the two parts that remain of a token after all merges with a rank below
/// its own; `None` if another number of parts remains. `ends` are the ends of its smallest parts,
/// and `rank_of` returns the rank of the sequence between two positions.
pub(crate) fn last_merge(
    rank_of: &dyn Fn(usize, usize) -> Option<u32>,
    mut ends: Vec<usize>,
    rank: u32,
) -> Option<usize> {
    while ends.len() > 1 {
        let mut start = 0;
        let mut best: Option<(u32, usize)> = None;
        for (place, pair) in ends.windows(2).enumerate() {
            let [middle, end] = pair else { continue };
            if let Some(merged) = rank_of(start, *end)
                && best.is_none_or(|(least, _)| merged < least)
            {
                best = Some((merged, place));
            }
            start = *middle;
        }
        match best {
            Some((least, place)) if least < rank => {
                ends.remove(place);
            }
            _ => break,
        }
    }
    match ends.as_slice() {
        [place, _] => Some(*place),
        _ => None,
    }
}

/// Returns `true` if the first line of a file is a sequence and a rank.
pub(crate) fn are_ranks(head: &[u8]) -> bool {
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Ok(line) = str::from_utf8(first) else { return false };
    let mut parts = line.split_ascii_whitespace();
    let (Some(sequence), Some(rank), None) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    rank.parse::<u32>().is_ok() && decode_base64(sequence).is_ok_and(|bytes| !bytes.is_empty())
}

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has no such file.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(rules) = &request.spec.ranks else { return Ok(false) };
    let Some(bytes) = files::vocabulary(request.files, &rules.file)? else { return Ok(false) };
    let ranks = Ranks::parse(&bytes).map_err(|message| fault(&rules.file, message))?;
    let pre = request.pre.ok_or_else(|| {
        Error::new(
            ErrorKind::PreTokenizer,
            "a file of ranks does not specify its pre-tokenizer, and neither does the description \
             of the architecture",
        )
    })?;
    let mut tokens = tokens(request, rules, &ranks)?;
    metadata.set(keys::TOKENIZER_MODEL, BYTE_LEVEL);
    metadata.set(keys::TOKENIZER_PRE, pre);
    tokens.write_to(false, request.spec, metadata);
    let merges = if rules.all_merges { ranks.all_merges() } else { ranks.merges() };
    special::write_with_merges(request, &tokens, SpecialOptions::default(), merges, metadata)?;
    Ok(true)
}

/// Returns the tokens by ID, with placeholders for unused IDs, up to the size of the vocabulary.
fn tokens(request: &Request<'_>, rules: &RankRules, ranks: &Ranks) -> Result<Tokens> {
    // Real files have every rank up to the last.
    let last = ranks.sequences.iter().map(|(_, rank)| *rank).max();
    let first =
        last.map_or(0, |last| usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1));
    let special = rules.special.len();
    let reserved = usize::try_from(rules.reserved_count).unwrap_or(usize::MAX);
    let named = request.tokenizer_config.as_ref();
    let named = named.and_then(|config| config.get("added_tokens_decoder"));
    let mut all = first.saturating_add(special).saturating_add(reserved);
    if request.size().is_none() {
        let ids = named.and_then(Value::as_object).into_iter().flat_map(serde_json::Map::keys);
        let ends = ids.filter_map(|id| id.parse::<usize>().ok()?.checked_add(1));
        all = all.max(ends.max().unwrap_or_default());
    }
    let size = bounded(request.size().unwrap_or(all as u64))?;
    let mut tokens = Tokens::placeholders(size as u64, 0.0)?;
    for (bytes, rank) in &ranks.sequences {
        let id = usize::try_from(*rank).unwrap_or(usize::MAX);
        if !tokens.set(id, to_byte_level(bytes), 0.0, TokenType::Normal) {
            let message = format!("rank {rank} is out of range: vocab_size is {size}");
            return Err(fault(&rules.file, message));
        }
    }
    for (place, id) in (first..all.min(size)).enumerate() {
        let given = named.and_then(|named| named.get(id.to_string())?.get("content"));
        let filler = || rules.reserved.as_ref().map(|text| text.replace("{id}", &id.to_string()));
        let text = match rules.special.get(place) {
            Some(text) => Some(text.clone()),
            None => given.and_then(Value::as_str).map(str::to_owned).or_else(filler),
        };
        if let Some(text) = text {
            tokens.set(id, text, 0.0, TokenType::Control);
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_follow_from_ranks() {
        // a, b, c, then ab, bc, abc (from ab and c), and cccc, which is not the result of a merge.
        let file = "YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYmM= 4\n\nYWJj 5\nY2NjYw== 6\n";
        let ranks = Ranks::parse(file.as_bytes()).unwrap();
        assert_eq!(ranks.merges(), ["a b", "b c", "ab c"]);
        assert_eq!(ranks.all_merges(), ["a b", "b c", "a bc", "ab c"]);
        for (file, words) in [
            ("YQ==", "line 1: expected a sequence"),
            ("YQ== a", "line 1: the rank is not a number"),
            ("\nYQ 1", "line 2: is not valid Base64"),
            ("YQ== 1\nYQ== 2", "two lines have the same"),
            ("YQ== 1\nYg== 1", "two lines have the same"),
        ] {
            let fault = Ranks::parse(file.as_bytes()).map(drop).unwrap_err();
            assert!(fault.contains(words), "{fault}");
        }
    }
}
