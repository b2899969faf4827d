//! The grammar of label keys and values, as Kubernetes defines it.

const NAME_LIMIT: usize = 63;
const PREFIX_LIMIT: usize = 253;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QualifiedNameError {
    #[error("has an empty name")]
    EmptyName,
    #[error("has a name longer than 63 characters")]
    LongName,
    #[error("must have a name of letters, digits, '-', '_' and '.' that begins and ends with a letter or digit")]
    Name,
    #[error("has an empty prefix before '/'")]
    EmptyPrefix,
    #[error("has a prefix longer than 253 characters")]
    LongPrefix,
    #[error("must have a DNS name in lower case as prefix")]
    Prefix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LabelValueError {
    #[error("is longer than 63 characters")]
    Long,
    #[error("must consist of letters, digits, '-', '_' and '.', beginning and ending with a letter or digit")]
    Text,
}

/// `[prefix/]name`: the prefix a DNS subdomain, the name at most 63 characters.
pub fn qualified_name(text: &str) -> Result<(), QualifiedNameError> {
    // A second slash stays in the name, where it is not allowed.
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    match prefix {
        Some("") => return Err(QualifiedNameError::EmptyPrefix),
        Some(prefix) if prefix.len() > PREFIX_LIMIT => return Err(QualifiedNameError::LongPrefix),
        Some(prefix) if !prefix.split('.').all(is_dns_label) => return Err(QualifiedNameError::Prefix),
        _ => {}
    }
    match name {
        "" => Err(QualifiedNameError::EmptyName),
        name if name.len() > NAME_LIMIT => Err(QualifiedNameError::LongName),
        name if !is_name(name) => Err(QualifiedNameError::Name),
        _ => Ok(()),
    }
}

/// Empty, or a name of at most 63 characters.
pub fn label_value(text: &str) -> Result<(), LabelValueError> {
    match text {
        "" => Ok(()),
        text if text.len() > NAME_LIMIT => Err(LabelValueError::Long),
        text if !is_name(text) => Err(LabelValueError::Text),
        _ => Ok(()),
    }
}

fn is_name(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    edge(text.bytes().next()) && edge(text.bytes().next_back()) && text.bytes().all(inner)
}

fn is_dns_label(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let edge = |byte: Option<u8>| byte.is_some_and(alphanumeric);
    edge(text.bytes().next())
        && edge(text.bytes().next_back())
        && text.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// API-64, API-65: names are bounded at runtime, which the CRD pattern does not do.
    #[test]
    fn qualified_names() {
        use QualifiedNameError as E;
        let long = "a".repeat(64);
        let deep = format!("{}a/x", "a.".repeat(127));
        for (text, want) in [
            ("team", Ok(())),
            ("example.com/team", Ok(())),
            ("example.com/Team_1.x", Ok(())),
            ("0", Ok(())),
            ("", Err(E::EmptyName)),
            ("example.com/", Err(E::EmptyName)),
            ("/team", Err(E::EmptyPrefix)),
            ("a/b/c", Err(E::Name)),
            ("Example.com/team", Err(E::Prefix)),
            ("example..com/team", Err(E::Prefix)),
            ("-team", Err(E::Name)),
            ("team-", Err(E::Name)),
            ("te am", Err(E::Name)),
            ("größe", Err(E::Name)),
            (&long, Err(E::LongName)),
            (&long[1..], Ok(())),
            (&deep, Err(E::LongPrefix)),
        ] {
            assert_eq!(qualified_name(text), want, "{text}");
        }
    }

    /// API-17, API-64: values are checked one by one.
    #[test]
    fn label_values() {
        let long = "a".repeat(64);
        for (text, want) in [
            ("", Ok(())),
            ("a.b-c_D", Ok(())),
            ("a b", Err(LabelValueError::Text)),
            (".a", Err(LabelValueError::Text)),
            ("a/b", Err(LabelValueError::Text)),
            (&long, Err(LabelValueError::Long)),
        ] {
            assert_eq!(label_value(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gets_an_answer(text in any::<String>()) {
            if qualified_name(&text).is_ok() {
                prop_assert!(text.is_ascii() && text.len() <= 253 + 1 + 63);
            }
            if label_value(&text).is_ok() {
                prop_assert!(text.len() <= 63);
            }
        }
    }
}
