//! Renders conversations for the comparison with jinja2: one line of JSON per line of input.

use std::io::{self, BufRead as _, Write as _};

use ggmill_template::{Conversation, Json, Moment, RenderOptions, Template};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let result = render(&line?);
        let (name, text) = match &result {
            Ok(text) => ("text", text),
            Err(error) => ("error", error),
        };
        writeln!(out, "{}", serde_json::json!({ name: text }))?;
    }
    out.flush()
}

/// Renders `template` with `context`, whose entries are Jinja's variables, at the time `now`.
fn render(line: &str) -> Result<String, String> {
    let failed = |error: ggmill_template::Error| error.to_string();
    let request = Json::parse(line).map_err(failed)?;
    let text = request.get("template").and_then(Json::as_str).ok_or("no template")?;
    let template = Template::parse(text).map_err(failed)?;
    let mut conversation = Conversation::new(Json::Array(Vec::new()));
    if let Some(Json::Object(entries)) = request.get("context") {
        for (name, value) in entries {
            conversation = conversation.with_variable(name.as_str(), value.clone());
        }
    }
    let mut options = RenderOptions::new();
    if let Some(Json::Int(now)) = request.get("now") {
        options = options.with_now(Moment::from_unix(i64::try_from(*now).unwrap_or(0)));
    }
    Ok(template.render(&conversation, &options).map_err(failed)?.text().to_owned())
}
