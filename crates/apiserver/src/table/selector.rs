//! Labels and label selectors on one line.

use serde_json::Value;

use super::read::{join, list, text};

/// `a=1,b=2`, or `<none>`.
pub(super) fn labels(labels: &Value) -> String {
    let pairs: Vec<_> = labels.as_object().into_iter().flatten().map(|(k, v)| format!("{k}={}", text(v))).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// `a=1,b in (x,y),!c` in the order of the keys, or `<none>`.
pub(super) fn selector(selector: &Value) -> String {
    let terms = terms(selector);
    if terms.is_empty() { "<none>".to_owned() } else { terms.join(",") }
}

/// Like [`selector`], with an empty text for one that selects everything.
pub(super) fn plain(selector: &Value) -> String {
    terms(selector).join(",")
}

fn terms(selector: &Value) -> Vec<String> {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms: Vec<_> = labels.map(|(key, value)| (key.as_str(), format!("{key}={}", text(value)))).collect();
    for expression in list(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let values = || {
            let mut values: Vec<_> = list(&expression["values"]).iter().map(text).collect();
            values.sort_unstable();
            join(values.into_iter(), ",")
        };
        let term = match text(&expression["operator"]) {
            "In" => format!("{key} in ({})", values()),
            "NotIn" => format!("{key} notin ({})", values()),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key, term));
    }
    // Stable: labels stay before expressions on the same key.
    terms.sort_by_key(|(key, _)| *key);
    terms.into_iter().map(|(_, term)| term).collect()
}
