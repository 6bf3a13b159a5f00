use crate::secret::Secret;

/// Who asks S3 for an object.
///
/// ```
/// use ggmill_remote::{S3Credentials, Secret};
/// let credentials = S3Credentials::new("AKIA…", Secret::new("wJalr…"), None);
/// assert!(!format!("{credentials:?}").contains("wJalr"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct S3Credentials {
    /// The access key.
    pub key_id: String,
    /// The secret key.
    pub secret: Secret,
    /// The token of a session, with credentials that expire.
    pub session: Option<Secret>,
}

impl S3Credentials {
    /// An access key, its secret, and the token of a session.
    pub fn new(key_id: impl Into<String>, secret: Secret, session: Option<Secret>) -> Self {
        Self { key_id: key_id.into(), secret, session }
    }
}
