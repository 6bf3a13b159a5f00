//! `adapter_config.json` of PEFT: the settings that decide what an adapter computes.

use ggmill_core::RawStr;
use ggmill_pipeline::{Error, ErrorKind, Result};
use regex_lite::{Regex, RegexBuilder};
use serde_json::Value;

/// Values of `init_lora_weights` for which training starts from the unchanged base. Others, such as
/// `pissa`, `corda`, `olora`, `loftq` and `lora_ga`, subtract the first product from its weights.
const INITIALIZATIONS: [&str; 4] = ["gaussian", "eva", "orthogonal", "mica"];

/// Settings that change what an adapter computes in a way that a GGUF adapter cannot contain, with the
/// reason.
const UNSUPPORTED: [(&str, &str); 10] = [
    ("use_dora", "magnitudes (DoRA)"),
    ("use_qalora", "factors of pooled inputs (QALoRA)"),
    ("use_bdlora", "block-diagonal factors"),
    ("layer_replication", "repeated blocks of the base"),
    ("target_parameters", "factors for parameters that are not the weight of a module"),
    ("arrow_config", "a router between adapters"),
    ("kasa_config", "singular values beside the factors (KaSA)"),
    ("monteclora_config", "sampled factors"),
    ("velora_config", "factors of compressed inputs"),
    ("lora_bias", "biases of factors"),
];

/// Maximum number of patterns. Real configurations have one for each module of a large model.
const MAX_PATTERNS: usize = 4096;
/// Maximum number of patterns that are more than the components of a name, and their size when
/// compiled: each is matched with every module.
const MAX_EXPRESSIONS: usize = 16;
const MAX_EXPRESSION_SIZE: usize = 16 << 10;

/// The settings of `adapter_config.json` that are used.
pub(super) struct Config {
    pub(super) alpha: f32,
    /// `fan_in_fan_out`: factors of layers that store their weights transposed are those of the
    /// weights as applied.
    pub(super) is_transposed: bool,
    /// The tokens after which the adapter is active; empty if it is always active.
    pub(super) invocation_tokens: Vec<u32>,
    /// `use_rslora`: the scale of a product is alpha divided by the square root of its rank.
    has_root_scale: bool,
    /// `alpha_pattern`: patterns of modules and their alphas.
    alphas: Vec<(ModulePattern, f64)>,
}

/// A regular expression for the last components of a module's name, like PEFT's `get_pattern_key`.
enum ModulePattern {
    /// Components separated by dots. A dot matches any character.
    Components(Box<str>),
    Expression(Regex),
}

impl ModulePattern {
    /// Returns `None` for an expression that is not supported.
    fn parse(pattern: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if pattern.bytes().all(is_plain) {
            return Some(Self::Components(pattern.into()));
        }
        let expression = format!(r"^(?:.*\.)?(?:{pattern})$");
        let compiled = RegexBuilder::new(&expression).size_limit(MAX_EXPRESSION_SIZE).build();
        compiled.ok().map(Self::Expression)
    }

    fn matches(&self, module: &str) -> bool {
        let pattern = match self {
            Self::Components(pattern) => pattern,
            Self::Expression(expression) => return expression.is_match(module),
        };
        let mut rest = module.chars().rev();
        pattern.chars().rev().all(|wanted| {
            rest.next().is_some_and(|found| wanted == '.' && found != '\n' || found == wanted)
        }) && rest.next().is_none_or(|found| found == '.')
    }

    fn text(&self) -> &str {
        match self {
            Self::Components(pattern) => pattern,
            Self::Expression(expression) => expression.as_str(),
        }
    }
}

impl Config {
    /// Reads the configuration. Fails for settings that a GGUF adapter cannot contain.
    pub(super) fn of(config: &Value) -> Result<Self> {
        let flag = |name: &str| config.get(name) == Some(&Value::Bool(true));
        if let Some(kind) = config.get("peft_type").filter(|kind| **kind != "LORA") {
            return Err(fault(format!("peft_type is {}, expected \"LORA\"", shown(kind))));
        }
        for (name, what) in UNSUPPORTED {
            if is_set(&config[name]) {
                let message = format!(
                    "{name} is {}: a GGUF adapter cannot contain {what}; merge the adapter into its \
                     base",
                    shown(&config[name])
                );
                return Err(fault(message));
            }
        }
        refuse_changed_base(&config["init_lora_weights"])?;
        let alpha = &config["lora_alpha"];
        #[expect(clippy::cast_possible_truncation, reason = "the key is F32")]
        let number = alpha.as_f64().map(|alpha| alpha as f32).filter(|alpha| alpha.is_finite());
        let number = number
            .ok_or_else(|| fault(format!("lora_alpha is {}, expected a number", shown(alpha))))?;
        if number == 0.0 {
            let message = "lora_alpha is 0, which disables the adapter; programs read an alpha of 0 \
                           in a GGUF adapter as a scale of 1";
            return Err(fault(message.to_owned()));
        }
        Ok(Self {
            alpha: number,
            is_transposed: flag("fan_in_fan_out"),
            invocation_tokens: invocation_tokens(config)?,
            has_root_scale: flag("use_rslora"),
            alphas: alphas(&config["alpha_pattern"])?,
        })
    }

    /// Returns the factor by which the product for a module is multiplied, so that a program that
    /// scales it by alpha / rank computes what PEFT computes. PEFT's scale is the alpha of the module,
    /// divided by its rank or, with `use_rslora`, by the square root of its rank. `None` if both are the
    /// same.
    ///
    /// Fails if several patterns with different alphas match the module, as PEFT uses the first in the
    /// order of the file.
    pub(super) fn correction(&self, module: &str, rank: u64) -> Result<Option<f64>> {
        let mut matching = self.alphas.iter().filter(|(pattern, _)| pattern.matches(module));
        let own = matching.next().map(|(_, alpha)| *alpha);
        if let Some((pattern, other)) = matching.find(|(_, alpha)| Some(*alpha) != own) {
            let message = format!(
                "alpha_pattern has different alphas for {}, for example {other} for {}",
                RawStr::from(module),
                RawStr::from(pattern.text())
            );
            return Err(fault(message));
        }
        if own.is_none() && !self.has_root_scale {
            return Ok(None);
        }
        let alpha = f64::from(self.alpha);
        #[expect(clippy::cast_precision_loss, reason = "ranks are below 2^32")]
        let root = if self.has_root_scale { (rank as f64).sqrt() } else { 1.0 };
        Ok(Some(own.unwrap_or(alpha) / alpha * root))
    }
}

/// Fails if training changed the weights of the base, so that the adapter fits only the changed ones.
fn refuse_changed_base(initialization: &Value) -> Result<()> {
    let is_plain = match initialization {
        Value::String(name) => INITIALIZATIONS.contains(&&*name.to_lowercase()),
        Value::Null | Value::Bool(_) => true,
        _ => false,
    };
    if is_plain {
        return Ok(());
    }
    let message = format!(
        "init_lora_weights is {}: this initialization changes the weights of the base, and the \
         adapter fits only the changed (residual) base; save the adapter with \
         path_initial_model_for_weight_conversion, or, if the base is the residual base, \
         set init_lora_weights to true",
        shown(initialization)
    );
    Err(fault(message))
}

fn invocation_tokens(config: &Value) -> Result<Vec<u32>> {
    let tokens = &config["alora_invocation_tokens"];
    let ids = |tokens: &Vec<Value>| {
        let id = |token: &Value| token.as_u64().and_then(|id| u32::try_from(id).ok());
        tokens.iter().map(id).collect::<Option<Vec<u32>>>()
    };
    let invocation_tokens = match tokens {
        Value::Null => Some(Vec::new()),
        Value::Array(tokens) => ids(tokens),
        _ => None,
    };
    let invocation_tokens = invocation_tokens.ok_or_else(|| {
        let found = shown(tokens);
        fault(format!("alora_invocation_tokens is {found}, expected an array of token IDs"))
    })?;
    let has_text = config["invocation_string"].as_str().is_some_and(|text| !text.is_empty());
    if has_text && invocation_tokens.is_empty() {
        let message = "has invocation_string, but not alora_invocation_tokens, which specify where \
                       the adapter becomes active";
        return Err(fault(message.to_owned()));
    }
    Ok(invocation_tokens)
}

/// Reads `alpha_pattern`.
fn alphas(patterns: &Value) -> Result<Vec<(ModulePattern, f64)>> {
    let Some(patterns) = patterns.as_object() else { return Ok(Vec::new()) };
    if patterns.len() > MAX_PATTERNS {
        return Err(fault(format!("alpha_pattern has more than {MAX_PATTERNS} patterns")));
    }
    let mut alphas = Vec::with_capacity(patterns.len());
    for (pattern, alpha) in patterns {
        let number = alpha.as_f64().filter(|number| number.is_finite()).ok_or_else(|| {
            let (name, found) = (RawStr::from(&**pattern), shown(alpha));
            fault(format!("alpha_pattern has {found} for {name}, expected a number"))
        })?;
        let compiled = ModulePattern::parse(pattern).ok_or_else(|| {
            let name = RawStr::from(&**pattern);
            fault(format!("alpha_pattern has an unsupported regular expression: {name}"))
        })?;
        alphas.push((compiled, number));
    }
    let is_expression =
        |(pattern, _): &&(ModulePattern, f64)| matches!(pattern, ModulePattern::Expression(_));
    if alphas.iter().filter(is_expression).count() > MAX_EXPRESSIONS {
        let message = format!("alpha_pattern has more than {MAX_EXPRESSIONS} regular expressions");
        return Err(fault(message));
    }
    Ok(alphas)
}

/// Returns `false` for the values with which PEFT does not use a setting.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

fn fault(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message).about("adapter_config.json")
}

/// Formats a value of the configuration for a message; arrays and objects only by their type.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "absent".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => RawStr::from(&*other.to_string()).to_string(),
    }
}
