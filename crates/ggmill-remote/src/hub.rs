//! The Hugging Face Hub: the URLs of its files, and advice about its error responses.

use crate::error::Advice;
use crate::location::HubPlace;
use crate::url::{Url, encode_path, encode_segment};

/// The default revision.
const DEFAULT_REVISION: &str = "main";

/// Returns the URL of a file, or `None` for a repository.
pub(crate) fn address(endpoint: &Url, place: &HubPlace) -> Option<Url> {
    let path = encode_path(place.path.as_deref()?);
    let revision = encode_segment(place.revision.as_deref().unwrap_or(DEFAULT_REVISION));
    let base = repository(endpoint, place);
    Some(endpoint.with_path(format!("{base}/resolve/{revision}/{path}"), None))
}

/// Returns the URL of the first page of a recursive listing.
pub(crate) fn listing(endpoint: &Url, place: &HubPlace) -> Url {
    let revision = encode_segment(place.revision.as_deref().unwrap_or(DEFAULT_REVISION));
    let path = place.path.as_deref().map(|path| format!("/{}", encode_path(path)));
    let path = format!("{}/tree/{revision}{}", api(endpoint, place), path.unwrap_or_default());
    endpoint.with_path(path, Some("recursive=true".to_owned()))
}

/// Returns the URL of the Hub's metadata of GGUF files, or `None` for a dataset.
pub(crate) fn facts(endpoint: &Url, place: &HubPlace) -> Option<Url> {
    let query = Some("expand%5B%5D=gguf".to_owned());
    (!place.dataset).then(|| endpoint.with_path(api(endpoint, place), query))
}

fn api(endpoint: &Url, place: &HubPlace) -> String {
    let kind = if place.dataset { "datasets" } else { "models" };
    format!("{}/api/{kind}/{}", endpoint.path().trim_end_matches('/'), place.repository)
}

/// Returns the path of the web page of a repository.
fn repository(endpoint: &Url, place: &HubPlace) -> String {
    let kind = if place.dataset { "/datasets" } else { "" };
    format!("{}{kind}/{}", endpoint.path().trim_end_matches('/'), place.repository)
}

/// Returns advice about an error response.
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
