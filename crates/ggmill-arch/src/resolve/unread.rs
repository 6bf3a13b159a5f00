//! Members of a configuration that a description does not read.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::description::architecture::Architecture;
use crate::parameters::config::Config;

/// Members that no description needs: names of classes and files, training options, and tokens, which the
/// vocabulary has.
const IRRELEVANT: [&str; 14] = [
    "architectures",
    "auto_map",
    "dtype",
    "initializer_range",
    "model_type",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "_name_or_path",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "quantization_config",
];
/// The maximum number of characters of a value.
const MAX_CHARS: usize = 60;

impl Architecture {
    /// Returns the members of a `config.json`, and of the section of the language model in it, that the
    /// description does not read, with the beginnings of their values: `NAME = VALUE`. Objects are not
    /// listed, and neither are names of classes and files, training options and tokens.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let llama = Architecture::builtin("llama").ok_or("known")?;
    /// let config = serde_json::json!({ "hidden_size": 64, "mtp_depth": 2, "use_cache": true });
    /// assert_eq!(llama.unread_members(&config), ["mtp_depth = 2"]);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn unread_members(&self, config: &Json) -> Vec<String> {
        let read = Config::new(config);
        let places = self.parameters.iter().flat_map(|parameter| &parameter.from);
        let settings = self.assume.iter().map(|assumption| &assumption.setting);
        let first = |place: &str| {
            let place = place.rsplit(['(', '#']).next().unwrap_or(place).to_owned();
            place.split(['.', ')']).next().unwrap_or_default().to_owned()
        };
        let mut known: BTreeSet<String> =
            places.chain(settings).map(|place| first(place)).collect();
        let aliases: Vec<&str> = known.iter().flat_map(|name| read.aliases(name)).collect();
        known.extend(aliases.into_iter().map(str::to_owned));
        let mut unread = Vec::new();
        for (prefix, part) in read.parts() {
            for (name, value) in part.as_object().into_iter().flatten() {
                let is_known = known.contains(name)
                    || IRRELEVANT.contains(&name.as_str())
                    || name.contains("dropout");
                if is_known || value.is_null() || value.is_object() {
                    continue;
                }
                let value = value.to_string();
                let end = value.char_indices().nth(MAX_CHARS).map_or(value.len(), |(at, _)| at);
                let value = value.get(..end).unwrap_or_default();
                unread.push(format!("{prefix}{name} = {value}"));
            }
        }
        unread
    }
}
