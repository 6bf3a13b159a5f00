//! `check --diff`: what `--fix` would change.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use ggmill::Proposal;
use ggmill_check::{Fix, ProposedFix};
use ggmill_core::RawStr;

use crate::paths::shown;

/// The rule about duplicate keys.
const DUPLICATE: &str = "GG1201";

/// Writes the changes as removed and added lines.
pub(super) fn write(proposal: &Proposal, out: &mut dyn Write, styled: bool) -> io::Result<()> {
    let style = |color: AnsiColor| if styled { color.on_default() } else { Style::new() };
    let (gone, come, title) = (
        style(AnsiColor::Red),
        style(AnsiColor::Green),
        if styled { Style::new().bold() } else { Style::new() },
    );
    writeln!(out, "{title}{}{title:#}", shown(proposal.path()))?;
    for (ProposedFix { codes, fix, .. }, before) in proposal.fixes().iter().zip(proposal.before()) {
        let rules = distinct(codes.iter().copied()).join(", ");
        let mut minus = |key: &str| match before {
            Some(before) => {
                writeln!(out, "  {rules} {gone}- {} = {before}{gone:#}", RawStr::from(key))
            }
            None => Ok(()),
        };
        match fix {
            // Of entries that say the same one stays.
            Fix::Set { key, .. } if codes.iter().all(|code| *code == DUPLICATE) => {
                let before = before.as_deref().unwrap_or_default();
                writeln!(
                    out,
                    "  {rules} {gone}- {} = {before}, all but one{gone:#}",
                    RawStr::from(key.as_str())
                )?;
            }
            Fix::Set { key, value_type, value } => {
                minus(key)?;
                let value = value.to_string();
                writeln!(
                    out,
                    "  {rules} {come}+ {} = {} ({value_type}){come:#}",
                    RawStr::from(key.as_str()),
                    RawStr::from(value.as_str())
                )?;
            }
            Fix::Rename { from, to } => {
                minus(from)?;
                writeln!(
                    out,
                    "  {rules} {come}+ {} = {}{come:#}",
                    RawStr::from(to.as_str()),
                    before.as_deref().unwrap_or_default()
                )?;
            }
            Fix::Unset { key } => minus(key)?,
            other => writeln!(out, "  {rules} {come}~ {other}{come:#}")?,
        }
    }
    Ok(())
}

/// Each code once, in order.
pub(super) fn distinct(codes: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    let mut codes: Vec<_> = codes.into_iter().collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}
