//! `optionalOldSelf`: such a rule also runs where there is no old value, and sees `oldSelf` as an optional. `kube-cel` gives it
//! the bare value or null, so each use of the name is wrapped before it compiles.

use serde_json::Value;

const NAME: &str = "oldSelf";
const WRAPPED: &str = "(oldSelf == null ? optional.none() : optional.of(oldSelf))";

/// Rewrites one rule of `x-kubernetes-validations`, if it asks for it.
pub(super) fn wrap(rule: &mut Value) {
    if rule.get("optionalOldSelf").and_then(Value::as_bool) != Some(true) {
        return;
    }
    for field in ["rule", "messageExpression"] {
        if let Some(Value::String(text)) = rule.get_mut(field) {
            *text = wrapped(text);
        }
    }
}

/// A message about a rule, as if it had been compiled as it was written.
pub(super) fn unwrapped(text: &str) -> String {
    text.replace(WRAPPED, NAME)
}

fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut last = ' ';
    while let Some(c) = rest.chars().next() {
        let token = match c {
            '"' | '\'' => literal(rest, c),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(token);
        // A field of that name is another thing.
        out.push_str(if token == NAME && last != '.' { WRAPPED } else { token });
        if !c.is_whitespace() {
            last = c;
        }
        rest = after;
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a string literal, to the end of the text if it is not closed.
fn literal(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variable_is_wrapped() {
        for (text, want) in [
            ("oldSelf.hasValue()", format!("{WRAPPED}.hasValue()")),
            ("self.oldSelf == 'oldSelf'", "self.oldSelf == 'oldSelf'".to_owned()),
            ("a\"\\\"oldSelf\" + oldSelfish + oldSelf", format!("a\"\\\"oldSelf\" + oldSelfish + {WRAPPED}")),
            ("'oldSelf", "'oldSelf".to_owned()),
        ] {
            assert_eq!(wrapped(text), want);
        }
    }
}
