//! Roles of tensors according to their standard names.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::data::compiled::{self, table};
use crate::data::tables::Roles;
use crate::reference::role::Role;

/// Roles by whole name, by suffix, and by substring.
#[derive(Debug)]
struct StandardRoles {
    names: BTreeMap<String, Role>,
    endings: Vec<(String, Role)>,
    parts: Vec<(String, Role)>,
}

impl StandardRoles {
    /// Decodes the table. A test checks that all its roles exist.
    fn read() -> Self {
        fn roles<T: FromIterator<(String, Role)>>(
            rows: impl IntoIterator<Item = (String, String)>,
        ) -> T {
            let role = |(name, role): (String, String)| {
                (name, role.parse().expect("a test parses every role"))
            };
            rows.into_iter().map(role).collect()
        }
        let file: Roles = table(compiled::ROLES);
        Self { names: roles(file.names), endings: roles(file.endings), parts: roles(file.parts) }
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

static ROLES: LazyLock<StandardRoles> = LazyLock::new(StandardRoles::read);

impl Role {
    /// Returns the role of a tensor according to the naming convention of GGUF files, for any
    /// architecture; [`Role::OTHER`] if the name does not imply a role.
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
