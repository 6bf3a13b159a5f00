//! The GGUF models among the files of a repository.

use std::collections::BTreeMap;

use ggmill_core::{FileName, FileType, ShardName, is_digits};

use crate::list::Repository;

/// Words in the names of files that are not models, or no whole ones.
const BESIDE: [&str; 3] = ["mmproj", "mtp", "imatrix"];

/// A model of a repository: a GGUF file, or the shards of a set.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RepositoryModel {
    /// The path of the file within the repository, of a set that of its first shard.
    pub path: String,
    /// Shards that exist; 1 for a file.
    pub shards: u32,
    /// Shards that there should be; 1 for a file.
    pub shard_count: u32,
    /// The length in bytes of all existing files.
    pub bytes: u64,
    /// The type that the name states.
    pub file_type: Option<FileType>,
    /// Bits per parameter of the whole model, where the number of parameters is known to be that of
    /// this model.
    pub bits_per_weight: Option<f64>,
}

impl Repository {
    /// The GGUF models among the files, in the order of their paths, the shards of a set as one.
    ///
    /// The number of parameters that the Hub gives is of one model. It is used for another only
    /// where the names of all models with a type in them are of one model in several types, and
    /// where the bits that result are not below those that the type's name states.
    pub fn models(&self) -> Vec<RepositoryModel> {
        let mut found: BTreeMap<String, RepositoryModel> = BTreeMap::new();
        for file in &self.files {
            let (directory, name) = split(&file.path);
            if !name.to_ascii_lowercase().ends_with(".gguf") {
                continue;
            }
            let (path, shard_count) = match ShardName::parse(name) {
                Some(shard) => (format!("{directory}{}", shard.sibling(1)), shard.count()),
                None => (file.path.clone(), 1),
            };
            let file_type = Name::parse(name).file_type;
            let model = found.entry(path).or_insert_with_key(|path| RepositoryModel {
                path: path.clone(),
                shards: 0,
                shard_count,
                bytes: 0,
                file_type,
                bits_per_weight: None,
            });
            model.shards = model.shards.saturating_add(1);
            model.bytes = model.bytes.saturating_add(file.bytes);
        }
        let mut models: Vec<_> = found.into_values().collect();
        if let Some(parameters) = self.parameters.filter(|&count| count > 0)
            && is_one_model(&models)
        {
            for model in &mut models {
                model.bits_per_weight = model.bits(parameters);
            }
        }
        models
    }
}

impl RepositoryModel {
    /// Bits per weight of a model with so many; none of files that are not all of one.
    fn bits(&self, parameters: u64) -> Option<f64> {
        let file_type = self.file_type?;
        let is_whole =
            self.shards == self.shard_count && Name::parse(split(&self.path).1).model.is_some();
        #[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
        let bits = self.bytes as f64 * 8.0 / parameters as f64;
        (is_whole && bits >= stated_bits(file_type)).then_some(bits)
    }
}

/// Whether the names of all models with a type in them are of one model.
fn is_one_model(models: &[RepositoryModel]) -> bool {
    let mut names = models
        .iter()
        .filter(|model| model.file_type.is_some())
        .filter_map(|model| Name::parse(split(&model.path).1).model);
    let Some(first) = names.next() else { return true };
    names.all(|name| name == first)
}

/// The name of a file, as far as it tells of a model.
struct Name {
    file_type: Option<FileType>,
    /// What tells the model from others, in lower case: its base name and its size label, or all
    /// before its type where there is no such label. `None` for files beside models.
    model: Option<String>,
}

impl Name {
    fn parse(name: &str) -> Self {
        let stem = name.get(..name.len().saturating_sub(".gguf".len())).unwrap_or_default();
        let stem = ShardName::parse(name).map_or(stem, |shard| shard.prefix());
        let mut words = stem.split(['-', '_', '.']);
        let is_part = FileName::parse(name).is_some_and(|name| name.kind.is_some());
        let is_beside = is_part
            || words.any(|word| BESIDE.iter().any(|beside| word.eq_ignore_ascii_case(beside)));
        let mut file_type = None;
        let mut before = stem;
        for (at, _) in stem.rmatch_indices(['-', '.']) {
            let word = before.get(at.saturating_add(1)..).unwrap_or_default();
            before = stem.get(..at).unwrap_or_default();
            file_type = word.parse::<FileType>().ok();
            if file_type.is_some() {
                break;
            }
        }
        if file_type.is_none() {
            // A name that is nothing but a type, or has none.
            (file_type, before) = match before.parse::<FileType>() {
                Ok(found) => (Some(found), ""),
                Err(_) => (None, stem),
            };
        }
        let mut end = 0usize;
        for word in before.split('-') {
            end = end.saturating_add(word.len());
            if is_size(word) {
                before = before.get(..end).unwrap_or(before);
                break;
            }
            end = end.saturating_add(1);
        }
        Self { file_type, model: (!is_beside).then(|| before.to_ascii_lowercase()) }
    }
}

/// The directory of a path with its slash, and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |slash| slash.saturating_add(1)))
}

/// Whether a word is a size label, such as `8x7B`, `0.6B` or `270m`.
fn is_size(word: &str) -> bool {
    let Some(number) = word.strip_suffix(|last: char| "KMBTQkmbtq".contains(last)) else {
        return false;
    };
    let (experts, number) = number.split_once('x').unwrap_or(("1", number));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    is_digits(experts) && is_digits(whole) && is_digits(fraction)
}

/// The bits that the name of a type states: no file of the type has fewer for each weight.
fn stated_bits(file_type: FileType) -> f64 {
    let name = file_type.name().unwrap_or_default();
    let digits = name.trim_start_matches(|first: char| !first.is_ascii_digit());
    let end = digits.find(|next: char| !next.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end).and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::RepositoryFile;

    fn models(parameters: u64, files: &[(&str, u64)]) -> Vec<RepositoryModel> {
        let files = files.iter().map(|&(path, bytes)| RepositoryFile { path: path.into(), bytes });
        Repository { files: files.collect(), parameters: Some(parameters) }.models()
    }

    fn bits(parameters: u64, files: &[(&str, u64)]) -> Vec<Option<f64>> {
        models(parameters, files).iter().map(|model| model.bits_per_weight).collect()
    }

    #[test]
    fn a_set_is_one_model() {
        let found = models(
            8000,
            &[
                ("README.md", 10),
                ("big/m-bf16-00001-of-00002.gguf", 10_000),
                ("big/m-bf16-00002-of-00002.gguf", 6000),
                ("m-Q4_K_M.gguf", 5000),
                ("m.Q8_0-00002-of-00003.GGUF", 7),
                ("m.Q8_0-00002-of-00003.gguf", 8001),
            ],
        );
        let seen: Vec<_> = found
            .iter()
            .map(|model| (&*model.path, model.shards, model.shard_count, model.bytes))
            .collect();
        assert_eq!(
            seen,
            [
                ("big/m-bf16-00001-of-00002.gguf", 2, 2, 16_000),
                ("m-Q4_K_M.gguf", 1, 1, 5000),
                ("m.Q8_0-00001-of-00003.gguf", 1, 3, 8001),
                // Not the name of a shard, which ends in lower case.
                ("m.Q8_0-00002-of-00003.GGUF", 1, 1, 7),
            ]
        );
        assert_eq!(found[0].bits_per_weight, Some(16.0));
        assert_eq!(found[2].bits_per_weight, None);
        assert_eq!(found[1].file_type, Some(FileType::Q4_K_M));
    }

    #[test]
    fn bits_are_of_the_model_that_the_number_of_parameters_is_of() {
        let (small, large) = (("Qwen3-0.6B-Q8_0.gguf", 640), ("Qwen3-32B-Q8_0.gguf", 34_000));
        assert_eq!(bits(32_000, &[large]), [Some(8.5)]);
        assert_eq!(bits(32_000, &[small, large]), [None, None]);
        // Without the other beside it, by the type: 0.16 bits are none of Q8_0.
        assert_eq!(bits(32_000, &[small]), [None]);
        assert_eq!(
            bits(32_000, &[("Qwen3-32B-Q8_0.gguf", 34_000), ("Qwen3-32B-UD-IQ1_M.gguf", 8000)]),
            [Some(8.5), Some(2.0)]
        );
        assert_eq!(bits(8000, &[("a-Q8_0.gguf", 9000), ("b-Q8_0.gguf", 9000)]), [None, None]);
        assert_eq!(bits(0, &[large]), [None]);
    }

    #[test]
    fn files_beside_a_model_are_told_by_whole_words() {
        let beside = [
            ("mmproj-m-F16.gguf", 20_000),
            ("m.mmproj-Q8_0.gguf", 20_000),
            ("mtp-m-Q8_0.gguf", 20_000),
            ("m-imatrix-Q8_0.gguf", 20_000),
            ("m-7B-v1.0-F16-LoRA.gguf", 20_000),
        ];
        for file in beside {
            assert_eq!(bits(8000, &[file]), [None], "{file:?}");
            let model = ("m-Q8_0.gguf", 9000);
            assert!(bits(8000, &[file, model]).contains(&Some(9.0)), "{file:?}");
        }
        assert_eq!(bits(8000, &[("smtpd-Q8_0.gguf", 9000)]), [Some(9.0)]);
    }

    #[test]
    fn names_are_taken_apart() {
        for (name, file_type, model) in [
            ("Qwen3-0.6B-Q8_0.gguf", Some(FileType::Q8_0), Some("qwen3-0.6b")),
            (
                "Mixtral-8x7B-Instruct-v0.1.Q4_K_M.gguf",
                Some(FileType::Q4_K_M),
                Some("mixtral-8x7b"),
            ),
            ("m-Q4_K_M-old.gguf", Some(FileType::Q4_K_M), Some("m")),
            ("Q8_0.gguf", Some(FileType::Q8_0), Some("")),
            ("m.gguf", None, Some("m")),
            (".gguf", None, Some("")),
            ("gemma-3-270m-F16.gguf", Some(FileType::F16), Some("gemma-3-270m")),
        ] {
            let found = Name::parse(name);
            assert_eq!((found.file_type, found.model.as_deref()), (file_type, model), "{name}");
        }
        for (file_type, bits) in
            [(FileType::Q4_K_M, 4.0), (FileType::BF16, 16.0), (FileType::IQ2_XXS, 2.0)]
        {
            assert_eq!(stated_bits(file_type).total_cmp(&bits), std::cmp::Ordering::Equal);
        }
    }
}
