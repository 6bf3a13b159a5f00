//! The roles of tensors by their names in files of any architecture.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::coded::coded;
use crate::data::Table;
use crate::error::{Error, Result, quoted};
use crate::role::Role;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    schema: String,
    endings: Vec<(String, String)>,
    parts: Vec<(String, String)>,
    names: BTreeMap<String, String>,
}

coded! { File { schema, endings, parts, names } }

impl Table for File {
    const TEXT: &'static str = include_str!("../data/roles.toml");
    const SCHEMA: &'static str = "ggmill.roles/1";
    const CODED: &'static [u8] = crate::tables::ROLES;

    fn schema(&self) -> &str {
        &self.schema
    }
}

/// The roles of names.
#[derive(Debug)]
pub(crate) struct StandardRoles {
    names: BTreeMap<String, Role>,
    endings: Vec<(String, Role)>,
    parts: Vec<(String, Role)>,
}

impl StandardRoles {
    /// Reads the table.
    pub(crate) fn read() -> Result<Self> {
        fn roles<T: FromIterator<(String, Role)>>(
            rows: impl IntoIterator<Item = (String, String)>,
        ) -> Result<T> {
            let role = |(name, role): (String, String)| match role.parse::<Role>().ok() {
                Some(role) => Ok((name, role)),
                None => Err(Error::description(format!("there is no role {}", quoted(&role)))),
            };
            rows.into_iter().map(role).collect()
        }
        let file = File::read()?;
        Ok(Self {
            names: roles(file.names)?,
            endings: roles(file.endings)?,
            parts: roles(file.parts)?,
        })
    }

    fn of(&self, name: &str) -> Option<Role> {
        let whole = self.names.get(name).copied();
        let ending = || {
            self.endings
                .iter()
                .find(|(ending, _)| name.ends_with(ending.as_str()))
                .map(|&(_, role)| role)
        };
        let part = || {
            self.parts.iter().find(|(part, _)| name.contains(part.as_str())).map(|&(_, role)| role)
        };
        whole.or_else(ending).or_else(part)
    }
}

// The build script has read the text, and written what is read here.
static ROLES: LazyLock<StandardRoles> =
    LazyLock::new(|| StandardRoles::read().expect("read when it was built"));

impl Role {
    /// The role of a tensor with this name, in any architecture, by the names that GGUF files have;
    /// [`Role::OTHER`] where the name does not tell.
    ///
    /// ```
    /// use ggmill_arch::Role;
    /// assert_eq!(Role::of_standard_name("blk.7.ffn_down_exps.weight"), Role::FFN_DOWN_EXPERTS);
    /// assert_eq!(Role::of_standard_name("blk.7.attn_norm.weight"), Role::NORM);
    /// assert_eq!(Role::of_standard_name("model.layers.7.mlp.down_proj.weight"), Role::OTHER);
    /// ```
    pub fn of_standard_name(name: &str) -> Self {
        ROLES.of(name).unwrap_or(Self::OTHER)
    }
}
