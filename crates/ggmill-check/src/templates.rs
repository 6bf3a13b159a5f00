//! Checking the templates of a file that is not a model.

use ggmill_core::{Builder, Error, Model};
use ggmill_template::{Json, TemplateFile};

use crate::{Input, Options, Report, check};

/// Holds the templates of a file that is not a model to the rules, as those of a model without a
/// vocabulary. The special tokens that the file names are variables, unless the options have them.
/// Findings have no offset. Rules about anything but templates find that it is missing, so the
/// options select those about templates.
///
/// ```
/// use ggmill_check::{Options, check_templates};
/// use ggmill_template::TemplateFile;
/// let file = TemplateFile::parse("{% if %}")?;
/// let options = Options::default().with_select(vec!["template".parse()?]);
/// let report = check_templates(&file, &options)?;
/// assert_eq!(report.diagnostics()[0].rule.code, "GG1701");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Fails where the templates do not fit into a header.
pub fn check_templates(file: &TemplateFile, options: &Options) -> Result<Report, Error> {
    let plan = Builder::new().metadata(file.to_metadata()).plan()?;
    let model = Model::open(plan.header().to_vec())?;
    let mut options = options.clone();
    for (name, text) in &file.tokens {
        if options.variables.iter().all(|(known, _)| known != name) {
            options = options.with_variable(name.as_str(), Json::from(text.as_str()));
        }
    }
    let report = model.parts().first().map(|part| check(&Input::new(part), &options));
    Ok(report.unwrap_or_default().without_offsets())
}
