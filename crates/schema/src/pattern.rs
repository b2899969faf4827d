//! Regular expressions in RE2 syntax, the API server's.

use regex::Regex;

/// Compiles an RE2 pattern. The classes `\d`, `\s`, `\w` and `\b` are ASCII in RE2 and Unicode in the regex crate, and a class
/// may hold a bare `[`, `&` or `~` in RE2; both are rewritten.
pub(crate) fn compile(re2: &str) -> Result<Regex, regex::Error> {
    Regex::new(&translate(re2))
}

fn translate(re2: &str) -> String {
    let mut out = String::with_capacity(re2.len());
    let mut in_class = false;
    let mut class_start = false;
    let mut chars = re2.chars().peekable();
    while let Some(c) = chars.next() {
        let at_start = std::mem::take(&mut class_start);
        match c {
            '\\' => match chars.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('s') => out.push_str(r"[\t\n\f\r ]"),
                Some('S') => out.push_str(r"[^\t\n\f\r ]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('b') if !in_class => out.push_str(r"(?-u:\b)"),
                Some('B') if !in_class => out.push_str(r"(?-u:\B)"),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            // `[:alpha:]` and the like mean the same in both.
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' | '&' | '~' if in_class => out.extend(['\\', c]),
            // The first bracket of a class is a member of it.
            ']' if in_class && at_start => out.push_str(r"\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ascii_and_brackets_literal() {
        for (pattern, text, want) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\d.]+$", "1.2", true),
            (r"^(.+)\s(.+)$", "a b", true),
            (r"^(.+)\s(.+)$", "a\u{a0}b", false),
            (r"^(\/)x$", "/x", true),
            ("^[[]$", "[", true),
            ("^[a&&b]$", "&", true),
            ("^[]a]$", "]", true),
            ("^[^]a]$", "b", true),
            ("^[[:alpha:]]+$", "ab", true),
            ("b", "abc", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), want, "{pattern} on {text:?}");
        }
    }
}
