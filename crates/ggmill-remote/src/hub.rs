//! The Hugging Face Hub: where its files are, and what its refusals mean.

use crate::error::Advice;
use crate::location::HubPlace;
use crate::url::{Url, encode_path, encode_segment};

/// The revision that is meant where none is named.
const REVISION: &str = "main";

/// The address of a file; `None` for a repository.
pub(crate) fn address(endpoint: &Url, place: &HubPlace) -> Option<Url> {
    let path = encode_path(place.path.as_deref()?);
    let revision = encode_segment(place.revision.as_deref().unwrap_or(REVISION));
    let base = repository(endpoint, place);
    Some(endpoint.with_path(format!("{base}/resolve/{revision}/{path}"), None))
}

/// The address of the first page of a listing, with what is in directories.
pub(crate) fn listing(endpoint: &Url, place: &HubPlace) -> Url {
    let revision = encode_segment(place.revision.as_deref().unwrap_or(REVISION));
    let path = place.path.as_deref().map(|path| format!("/{}", encode_path(path)));
    let path = format!("{}/tree/{revision}{}", api(endpoint, place), path.unwrap_or_default());
    endpoint.with_path(path, Some("recursive=true".to_owned()))
}

/// The address of what the Hub knows of the GGUF files of a model.
pub(crate) fn facts(endpoint: &Url, place: &HubPlace) -> Option<Url> {
    let query = Some("expand%5B%5D=gguf".to_owned());
    (!place.dataset).then(|| endpoint.with_path(api(endpoint, place), query))
}

fn api(endpoint: &Url, place: &HubPlace) -> String {
    let kind = if place.dataset { "datasets" } else { "models" };
    format!("{}/api/{kind}/{}", endpoint.path().trim_end_matches('/'), place.repository)
}

/// The path of the page of a repository.
fn repository(endpoint: &Url, place: &HubPlace) -> String {
    let kind = if place.dataset { "/datasets" } else { "" };
    format!("{}{kind}/{}", endpoint.path().trim_end_matches('/'), place.repository)
}

/// What to do about a refusal.
pub(crate) fn advice(
    status: u16,
    code: Option<&str>,
    has_token: bool,
    endpoint: &Url,
    place: &HubPlace,
) -> Option<Advice> {
    match (status, code, has_token) {
        (401 | 403, Some("GatedRepo"), true) => {
            let page = endpoint.with_path(repository(endpoint, place), None).to_text();
            Some(Advice::Gated { page })
        }
        (401 | 403, _, false) => Some(Advice::HubToken),
        (401 | 403, _, true) => Some(Advice::OtherHubToken),
        _ => None,
    }
}
