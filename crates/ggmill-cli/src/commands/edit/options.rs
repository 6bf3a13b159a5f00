//! The options that specify edits. They are parsed from one table, so that edits keep their order
//! across options.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, FromArgMatches};
use ggmill::read_text;
use ggmill_core::{RawStr, keys};
use ggmill_edit::{Edit, EditValue};

use crate::files::shown;
use crate::outcome::Failure;

/// The maximum size of a file that becomes a value, in bytes.
const MAX_INPUT: u64 = 1 << 30;

/// The options that specify edits, with their values, in the order of the command line.
#[derive(Debug, Default)]
pub(super) struct EditOptions(Vec<(&'static EditOption, String)>);

/// An option that specifies edits.
#[derive(Debug)]
struct EditOption {
    name: &'static str,
    /// The names of the option in other tools.
    aliases: &'static [&'static str],
    value_name: &'static str,
    /// `None` for a hidden option, which exists for users of another tool.
    help: Option<&'static str>,
    edits: fn(&str) -> Result<Vec<Edit>, Failure>,
}

/// The option for a value, which can be read from a file.
const SET: &str = "set";
/// The option for a chat template, which takes a file or the text.
const CHAT_TEMPLATE: &str = "chat-template";

static OPTIONS: [EditOption; 11] = [
    EditOption {
        name: SET,
        aliases: &[],
        value_name: "KEY[:TYPE]=VALUE",
        help: Some("Set a key, or one array element KEY[N] (repeatable)"),
        edits: set,
    },
    EditOption {
        name: "unset",
        aliases: &["remove", "remove-metadata"],
        value_name: "GLOB",
        help: Some("Remove matching keys (repeatable)"),
        edits: unset,
    },
    EditOption {
        name: "rename",
        aliases: &[],
        value_name: "OLD=NEW",
        help: Some("Rename a key (repeatable)"),
        edits: rename,
    },
    EditOption {
        name: CHAT_TEMPLATE,
        aliases: &["chat-template-file", "chat-template-config"],
        value_name: "FILE",
        help: Some("Set the chat template: a Jinja file, tokenizer_config.json or Jinja text"),
        edits: chat_template,
    },
    EditOption {
        name: "special-token",
        aliases: &[],
        value_name: "ROLE=TEXT",
        help: Some("Use the token with this text as bos, eos, eot, pad, … (repeatable)"),
        edits: special_token,
    },
    EditOption {
        name: "special-token-by-id",
        aliases: &[],
        value_name: "ROLE=ID",
        help: Some("Use the token with this ID as bos, eos, eot, pad, … (repeatable)"),
        edits: special_token_by_id,
    },
    EditOption {
        name: "set-from",
        aliases: &["patch"],
        value_name: "FILE",
        help: Some(
            "Set the keys in a JSON or TOML file; null removes a key (repeatable) [alias: --patch]",
        ),
        edits: |file| Ok(ggmill::read_patch(file)?),
    },
    EditOption {
        name: "tokens-from",
        aliases: &[],
        value_name: "FILE",
        help: Some(
            "Replace the vocabulary with the tokens in a JSON array, or in a file with one token per line",
        ),
        edits: tokens_from,
    },
    EditOption {
        name: "pre-tokenizer",
        aliases: &[],
        value_name: "NAME",
        help: None,
        edits: |name| Ok(vec![Edit::set(keys::TOKENIZER_PRE, &name)]),
    },
    EditOption {
        name: "general-name",
        aliases: &[],
        value_name: "TEXT",
        help: None,
        edits: |text| Ok(vec![Edit::set(keys::GENERAL_NAME, &text)]),
    },
    EditOption {
        name: "general-description",
        aliases: &[],
        value_name: "TEXT",
        help: None,
        edits: |text| Ok(vec![Edit::set(keys::GENERAL_DESCRIPTION, &text)]),
    },
];

impl clap::Args for EditOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        OPTIONS.iter().fold(command, |command, option| {
            let arg = Arg::new(option.name)
                .long(option.name)
                .aliases(option.aliases)
                .value_name(option.value_name)
                .hide(option.help.is_none())
                .allow_hyphen_values(true)
                .action(ArgAction::Append);
            command.arg(option.help.map_or_else(|| arg.clone(), |help| arg.clone().help(help)))
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EditOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for option in &OPTIONS {
            let values = matches.get_many::<String>(option.name).into_iter().flatten();
            found.extend(
                matches
                    .indices_of(option.name)
                    .into_iter()
                    .flatten()
                    .zip(values)
                    .map(|(index, value)| (index, option, value.clone())),
            );
        }
        found.sort_by_key(|(index, ..)| *index);
        Ok(Self(found.into_iter().map(|(_, option, value)| (option, value)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl EditOptions {
    /// Returns the option `--set KEY=VALUE`.
    pub(super) fn one(key: &str, value: &str) -> Self {
        Self(vec![(&OPTIONS[0], format!("{key}={value}"))])
    }

    /// Returns the files that values are read from; `-` is standard input.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().filter_map(|(option, value)| match option.value_name {
            "FILE" if option.name == CHAT_TEMPLATE && is_template_text(value) => None,
            "FILE" => Some(PathBuf::from(value)),
            _ if option.name == SET => {
                let (_, value) = value.split_once('=')?;
                file_of_value(value).map(PathBuf::from)
            }
            _ => None,
        })
    }

    /// Returns the edits. Files with values are read once, even if several files are edited.
    pub(super) fn edits(&self) -> Result<Vec<Edit>, Failure> {
        if self.files().filter(|file| file.as_os_str() == "-").count() > 1 {
            return Err(Failure::new("-: standard input can be used for only one value"));
        }
        let mut edits = Vec::new();
        for (option, value) in &self.0 {
            edits.append(&mut (option.edits)(value)?);
        }
        Ok(edits)
    }
}

/// Returns the file that a value is read from: `@FILE`. A doubled `@` begins a text.
fn file_of_value(value: &str) -> Option<&str> {
    value.strip_prefix('@').filter(|file| !file.starts_with('@'))
}

fn misuse(option: &str, value: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(format_args!("--{option} {}: {why}", RawStr::from(value)))
}

fn set(text: &str) -> Result<Vec<Edit>, Failure> {
    let mut edit = Edit::parse_set(text).map_err(|why| {
        // gguf-set-metadata takes the key and the value as two arguments.
        let hint = (!text.contains('=')).then(|| format!("--set {}=VALUE", RawStr::from(text)));
        misuse("set", text, why).with_hint(hint)
    })?;
    if let Edit::Set { value, .. } | Edit::SetElement { value, .. } = &mut edit
        && let EditValue::Text(text) = &value
        && let Some(rest) = text.strip_prefix('@')
    {
        *value = match file_of_value(text) {
            Some(file) => EditValue::Content(read_text(file, MAX_INPUT)?),
            None => EditValue::Text(rest.to_owned()),
        };
    }
    Ok(vec![edit])
}

fn unset(glob: &str) -> Result<Vec<Edit>, Failure> {
    Ok(vec![Edit::parse_unset(glob).map_err(Failure::new)?])
}

fn rename(text: &str) -> Result<Vec<Edit>, Failure> {
    let (from, to) =
        text.split_once('=').ok_or_else(|| misuse("rename", text, "expected OLD=NEW"))?;
    Ok(vec![Edit::Rename { from: from.to_owned(), to: to.to_owned() }])
}

/// Returns `true` if an argument is the text of a template, not the name of an existing file.
fn is_template_text(arg: &str) -> bool {
    let is_text = ["{{", "{%", "{#", "[{"].iter().any(|mark| arg.contains(mark));
    is_text && !Path::new(arg).exists()
}

/// Sets the template in a file, or in the argument itself, as other tools accept it.
fn chat_template(arg: &str) -> Result<Vec<Edit>, Failure> {
    let (name, text) = if is_template_text(arg) {
        ("--chat-template".to_owned(), arg.to_owned())
    } else {
        (shown(Path::new(arg)).to_string(), read_text(arg, MAX_INPUT)?)
    };
    Edit::chat_template(&text).map_err(|error| Failure::new(format_args!("{name}: {error}")))
}

/// Splits ROLE=VALUE.
fn role_and<'a>(option: &str, text: &'a str, example: &str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=').ok_or_else(|| {
        let role = RawStr::from(text);
        misuse(option, text, "expected ROLE=VALUE in one argument")
            .with_hint(Some(format!("--{option} {role}={example}")))
    })
}

fn special_token(text: &str) -> Result<Vec<Edit>, Failure> {
    let (role, token) = role_and("special-token", text, "'</s>'")?;
    Ok(vec![Edit::SpecialToken { role: role.to_owned(), token: token.to_owned() }])
}

fn special_token_by_id(text: &str) -> Result<Vec<Edit>, Failure> {
    let (role, id) = role_and("special-token-by-id", text, "2")?;
    let id = id.parse().map_err(|_| misuse("special-token-by-id", text, "expected a number"))?;
    Ok(vec![Edit::SpecialTokenId { role: role.to_owned(), id }])
}

fn tokens_from(file: &str) -> Result<Vec<Edit>, Failure> {
    let text = read_text(file, MAX_INPUT)?;
    Ok(vec![Edit::tokens_from(&text)])
}
