//! Label selectors, in the text form of requests and in the object form of specs.

use serde_json::{Map, Value};

/// All of its requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    /// `a=b,c in (d,e),!f`. The error is the server's text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let selector = parser.selector().map_err(|e| format!("unable to parse requirement: {e}"))?;
        Ok(Self(selector))
    }

    /// `matchLabels` and `matchExpressions`. An absent selector matches nothing, an empty one everything; `None` is for one
    /// that cannot be understood.
    pub(crate) fn from_spec(spec: &Value) -> Option<Self> {
        let mut requirements = Vec::new();
        for (key, value) in spec.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push(Requirement::new(key, Operator::In, vec![value.as_str()?.to_owned()]));
        }
        for expression in spec.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let operator = match expression["operator"].as_str()? {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::new(expression["key"].as_str()?, operator, values));
        }
        Some(Self(requirements))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Against `metadata.labels` of an object.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.get("metadata").and_then(|m| m.get("labels")).and_then(Value::as_object);
        self.0.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator, values: Vec<String>) -> Self {
        Self { key: key.to_owned(), operator, values }
    }

    fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = labels.and_then(|labels| labels.get(&self.key)).map(|value| value.as_str().unwrap_or_default());
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        let bound = || self.values.first().and_then(|v| v.parse::<i64>().ok());
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => number().zip(bound()).is_some_and(|(n, b)| n > b),
            Operator::LessThan => number().zip(bound()).is_some_and(|(n, b)| n < b),
        }
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
        let end = if special(first) {
            if rest.starts_with("==") || rest.starts_with("!=") { 2 } else { 1 }
        } else {
            rest.find(|c: char| special(c) || c.is_whitespace()).unwrap_or(rest.len())
        };
        tokens.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn next(&mut self) -> String {
        let token = self.peek().to_owned();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if self.tokens.is_empty() {
            return Ok(requirements);
        }
        loop {
            match self.peek() {
                "" => return Ok(requirements),
                token if token == "!" || is_identifier(token) => requirements.push(self.requirement()?),
                token => return Err(format!("found '{token}', expected: !, identifier, or 'end of string'")),
            }
            match self.next().as_str() {
                "" => return Ok(requirements),
                "," => {
                    let token = self.peek();
                    if token != "!" && !is_identifier(token) {
                        return Err(format!("found '{token}', expected: identifier after ','"));
                    }
                }
                token => return Err(format!("found '{token}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == "!";
        if negated {
            self.next();
        }
        let key = self.next();
        if !is_identifier(&key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        check_key(&key)?;
        if negated {
            return Ok(Requirement::new(&key, Operator::DoesNotExist, Vec::new()));
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement::new(&key, Operator::Exists, Vec::new()));
        }
        let token = self.next();
        let operator = match token.as_str() {
            "=" | "==" | "in" => Operator::In,
            "!=" | "notin" => Operator::NotIn,
            ">" => Operator::GreaterThan,
            "<" => Operator::LessThan,
            other => {
                return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let values = if matches!(token.as_str(), "in" | "notin") { self.values()? } else { vec![self.value()?] };
        for value in &values {
            check_value(value, operator)?;
        }
        Ok(Requirement::new(&key, operator, values))
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let token = self.next();
        if is_identifier(&token) { Ok(token) } else { Err(format!("found '{token}', expected: identifier")) }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                ")" => {
                    self.next();
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                "," => {
                    self.next();
                    if matches!(self.peek(), "," | ")") {
                        values.push(String::new());
                    }
                }
                token if is_identifier(token) => values.push(self.next()),
                token => return Err(format!("found '{token}', expected: ',', ')' or identifier")),
            }
        }
    }
}

fn is_identifier(token: &str) -> bool {
    token.chars().next().is_some_and(|c| !matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<'))
}

fn check_key(key: &str) -> Result<(), String> {
    match crate::names::label_key(key).first() {
        Some(problem) => Err(format!("key: Invalid value: {key:?}: {problem}")),
        None => Ok(()),
    }
}

fn check_value(value: &str, operator: Operator) -> Result<(), String> {
    if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
        return value.parse::<i64>().map(drop).map_err(|_| {
            format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
        });
    }
    match crate::names::label_value(value).first() {
        Some(problem) => Err(format!("values[0]: Invalid value: {value:?}: {problem}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_selected() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "3", "empty": ""}}});
        for (selector, want) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("app=web", true),
            ("app==web,tier!=2", true),
            ("app!=web", false),
            ("nope!=web", true),
            ("app in (web,db)", true),
            ("app notin (web)", false),
            ("nope notin (web)", true),
            ("tier>2", true),
            ("tier<3", false),
            ("empty=", true),
            ("app in ()", false),
            (" app = web , !nope ", true),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap().matches(&object), want, "{selector}");
        }
    }

    #[test]
    fn wrong_selectors_are_refused_as_by_the_server() {
        for (selector, want) in [
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap_err(), want);
        }
        for selector in ["a b", "a,", ",a", "a in (b", "a=b=c", "(", "a>x", "-a=b", "a=-"] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
        }
    }
}
