//! JSONPath as printer columns use it: fields, escaped dots, `['field']`, indices and slices, wildcards, `..field` and filters
//! such as `[?(@.type=="Ready")]`.

use serde_json::Value;

/// A parsed path. One that cannot be read finds nothing.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Path(Vec<Step>);

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    /// Everything below with this name.
    Deep(String),
    All,
    Slice(Option<i64>, Option<i64>),
    Index(i64),
    Filter(Path, Option<(Comparison, Value)>),
    Nothing,
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Path {
    pub(super) fn parse(text: &str) -> Self {
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let text = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (step, after) = next(rest).unwrap_or((Step::Nothing, ""));
            steps.push(step);
            rest = after;
        }
        Self(steps)
    }

    /// The first value that is found; columns show no more.
    pub(super) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.find(object).into_iter().next()
    }

    fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![object];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.of(value)).collect();
        }
        found
    }
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name.as_str()).into_iter().collect(),
            Self::Deep(name) => deep(value, name),
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            },
            Self::Index(index) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                items.get(position(*index, items.len())).into_iter().collect()
            }
            Self::Slice(from, to) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let from = position(from.unwrap_or(0), items.len()).min(items.len());
                let to = to.map_or(items.len(), |to| position(to, items.len()).min(items.len()));
                items.get(from..to.max(from)).unwrap_or_default().iter().collect()
            }
            Self::Filter(path, test) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                items.iter().filter(|item| passes(path.first(item), test.as_ref())).collect()
            }
            Self::Nothing => Vec::new(),
        }
    }
}

/// From the end when negative.
fn position(index: i64, length: usize) -> usize {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let index = if index < 0 { index.saturating_add(length) } else { index };
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn deep<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(name));
            found.extend(fields.values().flat_map(|v| deep(v, name)));
        }
        Value::Array(items) => found.extend(items.iter().flat_map(|v| deep(v, name))),
        _ => {}
    }
    found
}

fn passes(left: Option<&Value>, test: Option<&(Comparison, Value)>) -> bool {
    let (Some(left), Some((comparison, right))) = (left, test) else { return left.is_some() && test.is_none() };
    let order = match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    order.is_some_and(|order| match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::Unequal => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// The first step of a path and what follows it.
fn next(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix("..") {
        let (name, rest) = field(rest)?;
        return Some((Step::Deep(name), rest));
    }
    if let Some(inside) = text.strip_prefix('[') {
        let end = closing(inside)?;
        return Some((bracket(inside.get(..end)?.trim())?, inside.get(end + 1..)?));
    }
    let rest = text.strip_prefix('.').unwrap_or(text);
    if let Some(rest) = rest.strip_prefix('*') {
        return Some((Step::All, rest));
    }
    if rest.starts_with('[') {
        return next(rest);
    }
    let (name, rest) = field(rest)?;
    Some((Step::Field(name), rest))
}

/// A name up to the next dot or bracket that is not escaped.
fn field(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => {
                end = at;
                break;
            }
            _ => name.push(c),
        }
    }
    if name.is_empty() { None } else { Some((name, text.get(end..)?)) }
}

/// Where the bracket that was opened before `text` closes; brackets inside and in quotes do not count.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return filter_of(filter);
    }
    if let Some(name) = quoted(inside) {
        return Some(Step::Field(name));
    }
    if let Some((from, to)) = inside.split_once(':') {
        let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        return Some(Step::Slice(bound(from)?, bound(to)?));
    }
    inside.parse().ok().map(Step::Index)
}

fn filter_of(filter: &str) -> Option<Step> {
    // Two characters before one, so that `>=` is not read as `>`.
    let signs = [
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let path = |text: &str| text.trim().strip_prefix('@').map(Path::parse);
    for (sign, comparison) in signs {
        if let Some((left, right)) = filter.split_once(sign) {
            let right = right.trim();
            let value = quoted(right).map(Value::from).or_else(|| serde_json::from_str(right).ok())?;
            return Some(Step::Filter(path(left)?, Some((comparison, value))));
        }
    }
    Some(Step::Filter(path(filter)?, None))
}

fn quoted(text: &str) -> Option<String> {
    ['\'', '"'].iter().find_map(|q| Some(text.strip_prefix(*q)?.strip_suffix(*q)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_what_they_name() {
        let object = json!({
            "metadata": {"labels": {"example.com/x": "label"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 1}, {"type": "Drifted", "status": "False", "n": 2, "x": [3]},
            ]},
        });
        for (path, want) in [
            (".metadata.labels.example\\.com/x", json!(["label"])),
            (".metadata.labels['example.com/x']", json!(["label"])),
            ("{.status.conditions[?(@.type==\"Ready\")].status}", json!(["True"])),
            (".status.conditions[?(@.type == 'Drifted')].status", json!(["False"])),
            (".status.conditions[?(@.n>=2)].type", json!(["Drifted"])),
            (".status.conditions[?(@.n<2)].type", json!(["Ready"])),
            (".status.conditions[?(@.x)].type", json!(["Drifted"])),
            (".status.conditions[?(@.type!=\"Ready\")].type", json!(["Drifted"])),
            (".status.conditions[*].type", json!(["Ready", "Drifted"])),
            (".status.conditions[1].x[0]", json!([3])),
            (".status.conditions[-1:].type", json!(["Drifted"])),
            (".status.conditions[0:1].type", json!(["Ready"])),
            (".status..type", json!(["Ready", "Drifted"])),
            ("$.status.conditions[9].type", json!([])),
            (".status.conditions[-9].type", json!([])),
            (".status.nothing.here", json!([])),
            (".status[", json!([])),
            (".status.conditions[?(", json!([])),
            (".status.conditions[?(@.type==)]", json!([])),
            ("...", json!([])),
            (".a\\", json!([])),
            (".ä[é]", json!([])),
        ] {
            assert_eq!(json!(Path::parse(path).find(&object)), want, "{path}");
        }
    }
}
