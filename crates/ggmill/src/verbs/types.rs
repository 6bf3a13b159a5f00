//! The options for the types of tensors, common to `quantize` and `convert`.

use std::path::{Path, PathBuf};

use ggmill_core::{FileType, GgmlType, RawStr, keys};
use ggmill_quantize::{
    Imatrix, Importance, ImportanceFilter, NearTargets, Override, QuantizeOptions, RoleRule,
    Target, TensorType, TypePlan, weight_type, weight_types,
};

use crate::open::refuse_interrupted;
use crate::progress::Call;
use crate::{Error, Hint, Model, Note, Result, read_text};

/// The maximum size of a file of rules, in bytes.
const MAX_RULES_LEN: u64 = 16 << 20;

/// The options for the types of tensors and the importance matrix.
#[derive(Debug, Default)]
pub(crate) struct Types {
    pub(crate) imatrix: Option<(PathBuf, Imatrix)>,
    pub(crate) filter: ImportanceFilter,
    pub(crate) pure: bool,
    pub(crate) leave_output_tensor: bool,
    pub(crate) output_tensor_type: Option<GgmlType>,
    pub(crate) token_embedding_type: Option<GgmlType>,
    /// Rules that must match a tensor.
    pub(crate) rules: Vec<TensorType>,
    /// Rules that may match no tensor: lists with the files from which they were read.
    pub(crate) listed: Vec<(Option<PathBuf>, Vec<TensorType>)>,
    pub(crate) roles: Vec<(PathBuf, Vec<RoleRule>)>,
    pub(crate) overrides: Vec<Override>,
}

impl Types {
    /// Returns `true` if any option was set.
    pub(crate) fn is_given(&self) -> bool {
        self.imatrix.is_some()
            || self.pure
            || self.leave_output_tensor
            || self.decide_types()
            || !self.roles.is_empty()
            || !self.overrides.is_empty()
    }

    /// Returns `true` if the types of some tensors were named.
    pub(crate) fn decide_types(&self) -> bool {
        !self.rules.is_empty()
            || !self.listed.is_empty()
            || self.output_tensor_type.is_some()
            || self.token_embedding_type.is_some()
    }

    /// Returns the files that were read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let imatrix = self.imatrix.iter().map(|(path, _)| path);
        let lists = self.listed.iter().filter_map(|(path, _)| path.as_ref());
        imatrix.chain(lists).chain(self.roles.iter().map(|(path, _)| path))
    }

    pub(crate) fn read_imatrix(&mut self, path: &Path) -> Result<()> {
        refuse_interrupted(&[path])?;
        self.imatrix = Some((path.to_owned(), Imatrix::open(path)?));
        Ok(())
    }

    pub(crate) fn read_list(&mut self, path: &Path) -> Result<()> {
        let text = read_text(path, MAX_RULES_LEN)?;
        let rules =
            TensorType::parse_list(&text).map_err(|error| Error::from(error).within(path))?;
        self.listed.push((Some(path.to_owned()), rules));
        Ok(())
    }

    pub(crate) fn read_roles(&mut self, path: &Path) -> Result<()> {
        let text = read_text(path, MAX_RULES_LEN)?;
        let roles = RoleRule::parse_list(&text).map_err(|error| Error::from(error).within(path))?;
        self.roles.push((path.to_owned(), roles));
        Ok(())
    }

    /// Sets the options for a model with tensors of these names.
    pub(crate) fn apply(
        self,
        options: &mut QuantizeOptions,
        names: &[String],
        call: &mut Call<'_>,
    ) -> Result<()> {
        self.refuse_unmatched(names)?;
        options.importance = self.importance(call);
        options.tensor_types = self.rules;
        for (path, listed) in self.listed {
            if let Some(path) = path.filter(|_| listed.is_empty()) {
                call.note(Note::NoTypeRules(path));
            }
            options.tensor_types.extend(listed);
        }
        options.leave_output_tensor = self.leave_output_tensor;
        options.pure = self.pure;
        options.output_tensor_type = self.output_tensor_type;
        options.token_embedding_type = self.token_embedding_type;
        options.overrides = self.overrides;
        for (path, roles) in self.roles {
            let is_used = |rule: &&RoleRule| names.iter().any(|name| rule.is_for(name));
            for rule in roles.iter().filter(|rule| !is_used(rule)) {
                let pattern = rule.pattern().to_owned();
                call.note(Note::UnusedRole { path: path.clone(), pattern });
            }
            options.roles.extend(roles);
        }
        Ok(())
    }

    fn refuse_unmatched(&self, names: &[String]) -> Result<()> {
        let is_unmatched = |rule: &&TensorType| !names.iter().any(|name| rule.is_for(name));
        let Some(rule) = self.rules.iter().find(is_unmatched) else { return Ok(()) };
        let (pattern, ggml_type) = (RawStr::from(rule.pattern()), rule.ggml_type());
        let meant = rule.meant(names.iter().map(String::as_str));
        let message = format_args!("{pattern}={ggml_type}: the pattern matches no tensor name");
        Err(Error::misuse(message).with_hint(Hint::TensorPattern { meant, ggml_type }))
    }

    fn importance(&self, call: &mut Call<'_>) -> Option<Importance> {
        let (path, imatrix) = self.imatrix.as_ref()?;
        if let ImportanceFilter::Include(parts) | ImportanceFilter::Exclude(parts) = &self.filter {
            for part in parts {
                let has = |name: RawStr<'_>| name.to_string_lossy().contains(part);
                if !imatrix.entries().any(|(name, _)| has(name)) {
                    call.note(Note::unused_filter(path, part));
                }
            }
        }
        let importance = Importance::new(imatrix, Some(&path.to_string_lossy()), &self.filter);
        if importance.is_none() {
            call.note(Note::UnusedImportance(path.clone()));
        }
        importance
    }
}

/// Parses a type to quantize to: a name or number, as in llama-quantize.
pub(crate) fn target(name: &str) -> Result<Target> {
    name.parse::<Target>().map_err(|_| {
        let hint = match NearTargets::of(name) {
            NearTargets::Names(names) => Hint::SimilarTypes(names),
            _ => Hint::RemovedType,
        };
        let name = RawStr::from(name);
        Error::misuse(format_args!("{name:?} is not a type to quantize to")).with_hint(hint)
    })
}

/// Returns the target that a model names as its type, or a copy.
pub(crate) fn target_of(model: &Model) -> Target {
    let stated = model.metadata().u32(keys::GENERAL_FILE_TYPE).ok().map(FileType);
    Target::all()
        .find(|target| !target.is_copy() && Some(target.file_type()) == stated)
        .unwrap_or_else(Target::copy)
}

/// Returns the types of the tensors of a model, by name.
pub(crate) fn types_like(model: &Model) -> TypePlan {
    let tensors = model.core().tensors();
    let types =
        tensors.iter().map(|tensor| (tensor.name().as_bytes().to_vec(), tensor.ggml_type()));
    types.collect::<TypePlan>().complete()
}

/// Parses the type of a tensor with weights.
pub(crate) fn tensor_type(name: &str) -> Result<GgmlType> {
    weight_type(name).ok_or_else(|| {
        let all: Vec<_> = weight_types().map(|ggml_type| ggml_type.to_string()).collect();
        let (name, all) = (RawStr::from(name), all.join(", "));
        Error::misuse(format_args!("{name:?}: expected a tensor type for weights: {all}"))
    })
}

/// Generates the methods for the options for types. The builder has a field `types` of type [`Types`].
macro_rules! type_options {
    () => {
        /// Weights errors by this importance matrix: a file of llama-imatrix, GGUF or `.dat`.
        pub fn imatrix(mut self, path: impl AsRef<std::path::Path>) -> crate::Result<Self> {
            self.types.read_imatrix(path.as_ref())?;
            Ok(self)
        }

        /// Uses only the entries of the importance matrix that the filter accepts.
        #[must_use]
        pub fn imatrix_filter(mut self, filter: ggmill_quantize::ImportanceFilter) -> Self {
            self.types.filter = filter;
            self
        }

        /// Gives every tensor the same type instead of a mixture.
        #[must_use]
        pub fn pure(mut self, pure: bool) -> Self {
            self.types.pure = pure;
            self
        }

        /// Keeps the type of `output.weight`.
        #[must_use]
        pub fn leave_output_tensor(mut self, leave: bool) -> Self {
            self.types.leave_output_tensor = leave;
            self
        }

        /// Sets the type of `output.weight`.
        pub fn output_tensor_type(mut self, name: &str) -> crate::Result<Self> {
            self.types.output_tensor_type = Some(super::types::tensor_type(name)?);
            Ok(self)
        }

        /// Sets the type of the token embeddings.
        pub fn token_embedding_type(mut self, name: &str) -> crate::Result<Self> {
            self.types.token_embedding_type = Some(super::types::tensor_type(name)?);
            Ok(self)
        }

        /// Sets the type of tensors whose names match a regular expression: `PATTERN=TYPE`. The first
        /// match wins. A pattern that matches no tensor is an error.
        pub fn tensor_type(mut self, rule: &str) -> crate::Result<Self> {
            self.types.rules.push(rule.parse()?);
            Ok(self)
        }

        /// Adds the rules of a file: `PATTERN=TYPE`, separated by spaces or newlines.
        pub fn tensor_types(mut self, path: impl AsRef<std::path::Path>) -> crate::Result<Self> {
            self.types.read_list(path.as_ref())?;
            Ok(self)
        }

        /// Adds rules that may match no tensor, such as rules for several models.
        #[must_use]
        pub fn tensor_rules(
            mut self,
            rules: impl IntoIterator<Item = ggmill_quantize::TensorType>,
        ) -> Self {
            let rules: Vec<_> = rules.into_iter().collect();
            if !rules.is_empty() {
                self.types.listed.push((None, rules));
            }
            self
        }

        /// Adds the roles of a file: `PATTERN=ROLE`, for tensors with unconventional names. Mixtures
        /// choose the type of a tensor by its role.
        pub fn roles(mut self, path: impl AsRef<std::path::Path>) -> crate::Result<Self> {
            self.types.read_roles(path.as_ref())?;
            Ok(self)
        }

        /// Sets metadata: `KEY=TYPE:VALUE`, where `TYPE` is `int`, `float`, `bool` or `str`.
        pub fn override_key(mut self, text: &str) -> crate::Result<Self> {
            self.types.overrides.push(text.parse()?);
            Ok(self)
        }
    };
}
pub(crate) use type_options;
