//! Writing YAML.

use anyhow::Result;
use serde::Serialize;

/// One document without a marker. Strings that YAML 1.1 readers such as kubectl would take for something else are quoted.
pub(crate) fn document(value: &impl Serialize) -> Result<String> {
    // Long lines stay whole: patterns, rules and scripts must not be folded.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    Ok(serde_saphyr::to_string_with_options(value, options)?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn text_stays_text() {
        let value = json!({"a": ["yes", "on", "1e3", "0755", "2024-01-01", "~", "", "{{ x }}", "a: b", "#x", "line\nline", "\u{e9}"]});
        let back: Value = serde_saphyr::from_str(&document(&value).unwrap()).unwrap();
        assert_eq!(back, value);
    }
}
