//! The options that decide types, shared by `quantize` and `convert`.

use std::path::PathBuf;

use ggmill_core::{GgmlType, RawStr};
use ggmill_quantize::{
    Imatrix, Importance, ImportanceFilter, Override, QuantizeOptions, RoleRule, TensorType,
    weight_type, weight_types,
};

use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::text_file::read_text;

/// Bytes of a file of rules.
const MAX_RULES_LEN: u64 = 16 << 20;

/// Which tensor gets which type, and how much each column matters.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TypeArgs {
    /// An importance matrix from llama-imatrix, GGUF or .dat
    #[arg(long, value_name = "FILE", help_heading = "Importance matrix")]
    pub(crate) imatrix: Option<PathBuf>,
    /// Use the imatrix only for tensors with this text in their names
    #[arg(
        long,
        value_name = "PART",
        requires = "imatrix",
        conflicts_with = "exclude_weights",
        help_heading = "Importance matrix"
    )]
    include_weights: Vec<String>,
    /// Do not use the imatrix for tensors with this text in their names
    #[arg(long, value_name = "PART", requires = "imatrix", help_heading = "Importance matrix")]
    exclude_weights: Vec<String>,
    /// Give every tensor the same type instead of a mixture
    #[arg(long, help_heading = "Types of individual tensors")]
    pub(crate) pure: bool,
    /// Do not quantize output.weight
    #[arg(long, help_heading = "Types of individual tensors")]
    leave_output_tensor: bool,
    /// Type of output.weight
    #[arg(long, value_name = "TYPE", value_parser = tensor_type, help_heading = "Types of individual tensors")]
    pub(crate) output_tensor_type: Option<GgmlType>,
    /// Type of the token embeddings
    #[arg(long, value_name = "TYPE", value_parser = tensor_type, help_heading = "Types of individual tensors")]
    pub(crate) token_embedding_type: Option<GgmlType>,
    /// Type for tensors whose names match a regular expression; the first match wins
    #[arg(long, value_name = "PATTERN=TYPE", help_heading = "Types of individual tensors")]
    tensor_type: Vec<TensorType>,
    /// A file of PATTERN=TYPE entries, separated by spaces or newlines
    #[arg(long, value_name = "FILE", help_heading = "Types of individual tensors")]
    tensor_type_file: Option<PathBuf>,
    /// A file of PATTERN=ROLE entries, such as w2=ffn.down, for tensors with unconventional names;
    /// mixtures choose the type of a tensor by its role
    #[arg(long, value_name = "FILE", help_heading = "Types of individual tensors")]
    role_file: Option<PathBuf>,
    /// Set metadata; TYPE is int, float, bool or str
    #[arg(long, value_name = "KEY=TYPE:VALUE")]
    override_kv: Vec<Override>,
}

fn tensor_type(name: &str) -> Result<GgmlType, String> {
    let all =
        || weight_types().map(|ggml_type| ggml_type.to_string()).collect::<Vec<_>>().join(", ");
    weight_type(name).ok_or_else(|| format!("expected a tensor type for weights: {}", all()))
}

impl TypeArgs {
    /// Whether any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        self.imatrix.is_some()
            || self.pure
            || self.leave_output_tensor
            || self.output_tensor_type.is_some()
            || self.token_embedding_type.is_some()
            || self.has_patterns()
            || self.role_file.is_some()
            || !self.override_kv.is_empty()
    }

    /// Whether types are given by patterns.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.tensor_type.is_empty() || self.tensor_type_file.is_some()
    }

    /// The files that are read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.imatrix, &self.tensor_type_file, &self.role_file].into_iter().flatten()
    }

    /// Sets the options for a model with tensors of these names.
    pub(crate) fn apply<'n>(
        self,
        options: &mut QuantizeOptions,
        names: &(impl Iterator<Item = RawStr<'n>> + Clone),
        console: Console,
    ) -> Result<(), Failure> {
        self.refuse_unmet(names)?;
        options.importance = self.importance(console)?;
        options.tensor_types = self.tensor_type;
        if let Some(path) = &self.tensor_type_file {
            let text = read_text(path, MAX_RULES_LEN)?;
            let listed = TensorType::parse_list(&text)
                .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?;
            if listed.is_empty() {
                console.note(format_args!("{}: contains no PATTERN=TYPE", shown(path)));
            }
            options.tensor_types.extend(listed);
        }
        options.leave_output_tensor = self.leave_output_tensor;
        options.pure = self.pure;
        options.output_tensor_type = self.output_tensor_type;
        options.token_embedding_type = self.token_embedding_type;
        options.overrides = self.override_kv;
        let Some(path) = &self.role_file else { return Ok(()) };
        let text = read_text(path, MAX_RULES_LEN)?;
        options.roles = RoleRule::parse_list(&text)
            .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?;
        let is_used =
            |rule: &&RoleRule| names.clone().any(|name| rule.is_for(&name.to_string_lossy()));
        for rule in options.roles.iter().filter(|rule| !is_used(rule)) {
            console.note(format_args!(
                "{}: the pattern {:?} matches no tensor name; patterns are case-sensitive",
                shown(path),
                RawStr::from(rule.pattern())
            ));
        }
        Ok(())
    }

    /// Refuses a pattern that was typed and is found in no tensor's name; a file of patterns may be
    /// for several models.
    fn refuse_unmet<'n>(
        &self,
        names: &(impl Iterator<Item = RawStr<'n>> + Clone),
    ) -> Result<(), Failure> {
        if self.tensor_type.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = names.clone().map(|name| name.to_string_lossy().into_owned()).collect();
        let is_unmet = |rule: &&TensorType| !names.iter().any(|name| rule.is_for(name));
        let Some(rule) = self.tensor_type.iter().find(is_unmet) else { return Ok(()) };
        let pattern = RawStr::from(rule.pattern());
        let meant = rule.meant(names.iter().map(String::as_str));
        let hint = meant.map_or_else(
            || "a pattern is a case-sensitive regular expression".to_owned(),
            |meant| format!("did you mean --tensor-type {meant}={}?", rule.ggml_type()),
        );
        Err(Failure::new(format_args!(
            "--tensor-type {pattern}={}: the pattern matches no tensor name",
            rule.ggml_type()
        ))
        .with_hint(Some(hint)))
    }

    fn importance(&self, console: Console) -> Result<Option<Importance>, Failure> {
        let Some(path) = &self.imatrix else { return Ok(None) };
        let imatrix = Imatrix::open(path).map_err(Failure::new)?;
        for part in self.include_weights.iter().chain(&self.exclude_weights) {
            if !imatrix.entries().any(|(name, _)| name.to_string_lossy().contains(part)) {
                console.note(format_args!(
                    "{}: no entry has {:?} in its name",
                    shown(path),
                    RawStr::from(&**part)
                ));
            }
        }
        let filter = match (&*self.include_weights, &*self.exclude_weights) {
            ([], []) => ImportanceFilter::All,
            ([], parts) => ImportanceFilter::Exclude(parts.to_vec()),
            (parts, _) => ImportanceFilter::Include(parts.to_vec()),
        };
        let importance = Importance::new(&imatrix, Some(&path.to_string_lossy()), &filter);
        if importance.is_none() {
            console.note(format_args!(
                "{}: no entry remains, so the importance matrix has no effect",
                shown(path)
            ));
        }
        Ok(importance)
    }
}
