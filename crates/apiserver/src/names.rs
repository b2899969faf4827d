//! What names, labels and finalizers may look like, with the server's texts.

pub(crate) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = bytes.first().zip(bytes.last()).is_some_and(|(a, z)| word(*a) && word(*z));
    ends && bytes.iter().all(|b| word(*b) || *b == b'-')
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends =
        bytes.first().zip(bytes.last()).is_some_and(|(a, z)| a.is_ascii_alphanumeric() && z.is_ascii_alphanumeric());
    ends && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

pub(crate) fn subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if !name.split('.').all(is_label) {
        problems.push(SUBDOMAIN.to_owned());
    }
    problems
}

pub(crate) fn label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(name) {
        let dots = name.len() <= 63 && name.split('.').all(is_label);
        problems.push(if dots { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    problems
}

pub(crate) fn label_1035(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(LABEL_1035.to_owned());
    }
    problems
}

/// A path segment: what RBAC kinds may be called.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].into_iter().filter(|c| name.contains(c)).map(|c| format!("may not contain '{c}'")).collect()
}

pub(crate) fn label_key(key: &str) -> Vec<String> {
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) => {
            if prefix.is_empty() {
                return vec!["prefix part must be non-empty".to_owned()];
            }
            let problems = subdomain(prefix);
            if !problems.is_empty() {
                return problems.into_iter().map(|p| format!("prefix part {p}")).collect();
            }
            if name.contains('/') {
                return vec![QUALIFIED.to_owned()];
            }
            name
        }
    };
    if name.is_empty() {
        return vec!["name part must be non-empty".to_owned(), NAME_PART.to_owned()];
    }
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !is_name_part(name) {
        problems.push(NAME_PART.to_owned());
    }
    problems
}

pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push(too_long(63));
    }
    if !value.is_empty() && !is_name_part(value) {
        problems.push(VALUE.to_owned());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged() {
        for (check, good, bad) in [
            (subdomain as fn(&str) -> Vec<String>, "a.b-c.0", "a..b"),
            (label, "a-0", "a.b"),
            (label_1035, "a0", "0a"),
            (label_key, "example.com/My_name.x", "a b"),
            (label_key, "x", "/x"),
            (label_value, "", "-x"),
            (path_segment, "system:x y", "a/b"),
        ] {
            assert_eq!(check(good), Vec::<String>::new(), "{good}");
            assert!(!check(bad).is_empty(), "{bad}");
        }
    }
}
