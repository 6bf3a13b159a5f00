//! The verdict on files: whether a published flaw of a program needs a property that they have.

use serde_json::{Value, json};

use crate::render::Checked;
use crate::{Advisory, Diagnostic, Rule};

/// A reason not to hand a file to a loader.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reason {
    /// The path of the file as given.
    pub path: String,
    /// The finding.
    pub finding: Diagnostic,
}

impl Reason {
    /// Returns the violated rule.
    pub fn rule(&self) -> &'static Rule {
        self.finding.rule
    }

    /// Returns the published flaws that the file can trigger. A flaw that is fixed in the program used is
    /// harmless there.
    pub fn advisories(&self) -> impl Iterator<Item = Advisory> + use<> {
        self.rule().advisories()
    }
}

/// The verdict on files: safe to hand to a loader, or the reasons why not, from a check with
/// [`Profile::Threat`](crate::Profile::Threat).
///
/// ```
/// use ggmill_check::render::Checked;
/// use ggmill_check::{Input, Options, Profile, Verdict, check};
/// # use ggmill_core::{Builder, MetadataBuf, Model};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("tokenizer.chat_template", "{{ ().__class__ }}");
/// # let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
/// let model = Model::open_damaged(file)?;
/// let options = Options::default().with_profile(Profile::Threat);
/// let report = check(&Input::new(&model.parts()[0]), &options);
/// let verdict = Verdict::of(&[Checked::new("model.gguf", &report)]);
/// assert!(!verdict.is_safe() && verdict.reasons()[0].rule().code == "GG1702");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    reasons: Vec<Reason>,
    errors: Vec<String>,
}

impl Verdict {
    /// Returns the verdict on files with these reports. Every finding of a rule with advisories is a
    /// reason.
    pub fn of(files: &[Checked<'_>]) -> Self {
        let mut reasons = Vec::new();
        for file in files {
            let findings = file.report.diagnostics().iter();
            for finding in findings.filter(|finding| finding.rule.is_threat()) {
                reasons.push(Reason { path: file.path.to_owned(), finding: finding.clone() });
            }
        }
        Self { reasons, errors: Vec::new() }
    }

    /// Adds the messages about files that could not be read. Such files are not safe.
    #[must_use]
    pub fn with_errors(mut self, messages: impl IntoIterator<Item = String>) -> Self {
        self.errors.extend(messages);
        self
    }

    /// Returns `true` if all files were read, and there is no reason not to hand them to a loader.
    pub fn is_safe(&self) -> bool {
        self.reasons.is_empty() && self.errors.is_empty()
    }

    /// Returns the reasons, ordered by file, severity and rule.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// Returns the verdict as JSON, `ggmill.verdict/1` (`docs/formats/check.md`).
    pub fn json(&self) -> Value {
        let reasons: Vec<Value> = self.reasons.iter().map(reason).collect();
        let schema = "ggmill.verdict/1";
        let mut json = json!({ "schema": schema, "safe": self.is_safe(), "reasons": reasons });
        if !self.errors.is_empty() {
            json["errors"] = json!(self.errors);
        }
        json
    }
}

fn reason(reason: &Reason) -> Value {
    let Diagnostic { rule, severity, offset, subject, message, .. } = &reason.finding;
    let advisories: Vec<Value> =
        reason.advisories().map(|advisory| advisory_json(&advisory)).collect();
    json!({
        "path": reason.path,
        "rule": rule.code,
        "severity": severity,
        "offset": offset,
        "subject": subject,
        "summary": rule.summary,
        "message": message,
        "advisories": advisories,
    })
}

fn advisory_json(advisory: &Advisory) -> Value {
    let Advisory { id, product, affected, effect, address, .. } = advisory;
    json!({
        "id": id, "product": product, "affected": affected, "effect": effect, "address": address,
    })
}
