//! The pattern that was meant where one matches nothing.

use ggmill_arch::near_part;
use ggmill_core::RawStr;
use ggmill_text::Glob;

/// A pattern like this one that matches one of the names, where this one matches none: with a `*`
/// where one was left out, or with a name that is nearly spelt so.
///
/// ```
/// use ggmill_core::RawStr;
/// use ggmill_edit::meant_pattern;
/// let names = || ["blk.0.attn_q.weight", "blk.1.attn_q.weight"].map(RawStr::from).into_iter();
/// let meant = |typed: &str| meant_pattern(&typed.parse().unwrap(), names);
/// assert_eq!(meant("blk.0").as_deref(), Some("blk.0.*"));
/// assert_eq!(meant("attn_q").as_deref(), Some("*.attn_q.*"));
/// assert_eq!(meant("blk.*.atn_q.weight").as_deref(), Some("blk.*.attn_q.weight"));
/// assert_eq!(meant("vision.*"), None);
/// ```
pub fn meant_pattern<'n, I: Iterator<Item = RawStr<'n>>>(
    typed: &Glob,
    names: impl Fn() -> I,
) -> Option<String> {
    let typed = typed.as_str();
    let matches = |pattern: &String| {
        pattern.parse().is_ok_and(|glob: Glob| names().any(|name| glob.matches(name)))
    };
    let stem = typed.trim_end_matches('.');
    let with_stars = [
        format!("{stem}.*"),
        format!("{stem}*"),
        format!("*.{stem}"),
        format!("*.{stem}.*"),
        format!("*{stem}*"),
    ];
    if let Some(pattern) =
        with_stars.into_iter().find(|pattern| !stem.is_empty() && matches(pattern))
    {
        return Some(pattern);
    }
    // Component by component: those with a wildcard stay.
    let texts: Vec<&str> = names().filter_map(|name| name.to_str().ok()).collect();
    let is_wild = |part: &str| part.contains(['*', '?', '[']);
    let corrected: Vec<String> = typed
        .split('.')
        .map(|part| {
            let is_there = || texts.iter().any(|name| name.split('.').any(|other| other == part));
            if is_wild(part) || is_there() {
                return part.to_owned();
            }
            near_part(part, texts.iter().copied()).unwrap_or_else(|| part.to_owned())
        })
        .collect();
    Some(corrected.join(".")).filter(|pattern| pattern != typed && matches(pattern)).or_else(|| {
        near_part(typed, texts.iter().copied()).filter(|part| texts.iter().any(|name| name == part))
    })
}
