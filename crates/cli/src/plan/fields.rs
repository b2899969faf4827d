//! Reading objects so that everything wrong with one is found at once, each with its field.

use karpenter_schema::{FieldPath, Segment};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// No more of one object are told.
const MOST: usize = 20;

/// A value that is not what its field should hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrongField {
    pub(super) path: FieldPath,
    pub(super) message: String,
}

/// The object, or all that is wrong with it.
pub(super) fn read<K: DeserializeOwned>(object: &Value) -> Result<K, Vec<WrongField>> {
    let mut error = match K::deserialize(object) {
        Ok(kind) => return Ok(kind),
        Err(error) => error,
    };
    let mut rest = object.clone();
    let mut found: Vec<WrongField> = Vec::new();
    while found.len() < MOST {
        let message = error.to_string();
        let path = if let Some((path, filled)) = missing::<K>(&rest, &message) {
            rest = filled;
            path
        } else {
            let path = culprit::<K>(&rest, &message);
            remove(&mut rest, &path);
            path
        };
        let at_root = path.is_root();
        // What was taken away because it was wrong is missed, which is not a second mistake.
        if !found.iter().any(|known| known.path == path) {
            found.push(wrong(path, &error));
        }
        match K::deserialize(&rest) {
            Err(next) if !at_root => error = next,
            _ => break,
        }
    }
    Err(found)
}

fn wrong(path: FieldPath, error: &serde_json::Error) -> WrongField {
    WrongField { path, message: error.to_string() }
}

/// The innermost value without which the object can be read, or fails for another reason. The error itself does not say
/// where it is.
fn culprit<K: DeserializeOwned>(object: &Value, message: &str) -> FieldPath {
    let mut path = FieldPath::root();
    while let Some(inner) = children(object, &path).into_iter().find(|child| {
        let changes = |change: fn(&mut Value, &FieldPath)| {
            let mut other = object.clone();
            change(&mut other, child);
            K::deserialize(&other).err().map(|error| error.to_string()).filter(|other| other != message)
        };
        let mut without = object.clone();
        remove(&mut without, child);
        match K::deserialize(&without).err().map(|error| error.to_string()) {
            None => true,
            // What is needed is missed when it is taken away, which does not make it the culprit.
            Some(other) if other.starts_with("missing field") => changes(blank).is_some(),
            Some(other) => other != message,
        }
    }) {
        path = inner;
    }
    path
}

/// The field that is missing, and the object with something in its place.
fn missing<K: DeserializeOwned>(object: &Value, message: &str) -> Option<(FieldPath, Value)> {
    let name = message.strip_prefix("missing field `")?.split('`').next()?;
    let mut places = vec![FieldPath::root()];
    while let Some(path) = places.pop() {
        places.extend(children(object, &path));
        if !find(object, &path).is_some_and(|here| here.is_object() && here.get(name).is_none()) {
            continue;
        }
        for (something, called) in [
            (json!(""), "string \"\""),
            (json!({}), "map"),
            (json!([]), "sequence"),
            (json!(0), "integer `0`"),
            (json!(false), "boolean `false`"),
        ] {
            let mut filled = object.clone();
            find_mut(&mut filled, path.segments())?[name] = something;
            let error = K::deserialize(&filled).err().map(|error| error.to_string());
            if error.is_none_or(|error| error != message && !error.contains(called)) {
                return Some((path.field(name), filled));
            }
        }
    }
    None
}

fn children(object: &Value, path: &FieldPath) -> Vec<FieldPath> {
    match find(object, path) {
        Some(Value::Object(members)) => members.keys().map(|name| path.field(name)).collect(),
        Some(Value::Array(items)) => (0..items.len()).map(|index| path.index(index)).collect(),
        _ => Vec::new(),
    }
}

fn find<'a>(object: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.segments().iter().try_fold(object, |here, segment| match segment {
        Segment::Field(name) | Segment::Key(name) => here.get(name),
        Segment::Index(index) => here.get(index),
    })
}

fn find_mut<'a>(object: &'a mut Value, segments: &[Segment]) -> Option<&'a mut Value> {
    segments.iter().try_fold(object, |here, segment| match segment {
        Segment::Field(name) | Segment::Key(name) => here.get_mut(name),
        Segment::Index(index) => here.get_mut(index),
    })
}

/// Puts something of the same kind in its place.
fn blank(object: &mut Value, path: &FieldPath) {
    if let Some(value) = find_mut(object, path.segments()) {
        *value = empty(value);
    }
}

fn remove(object: &mut Value, path: &FieldPath) {
    let Some((last, before)) = path.segments().split_last() else { return };
    match (find_mut(object, before), last) {
        (Some(Value::Object(members)), Segment::Field(name) | Segment::Key(name)) => {
            members.remove(name);
        }
        // Others keep their places, so that their fields are called what the author calls them.
        (Some(Value::Array(items)), Segment::Index(index)) => {
            if let Some(item) = items.get_mut(*index) {
                *item = empty(item);
            }
        }
        _ => {}
    }
}

/// Something of the same kind that says nothing.
fn empty(value: &Value) -> Value {
    match value {
        Value::Object(_) => json!({}),
        Value::Array(_) => json!([]),
        Value::String(_) => json!(""),
        _ => Value::Null,
    }
}

/// The path that a message calls `spec.containers[0].resources.requests[cpu]`.
pub(super) fn path(text: &str) -> FieldPath {
    let (mut path, mut rest) = (FieldPath::root(), text);
    while !rest.is_empty() {
        if let Some((inside, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            path = inside.parse().map_or_else(|_| path.key(inside), |index| path.index(index));
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            // At least one character, so that it ends whatever the text is.
            let end =
                rest.char_indices().skip(1).find(|(_, c)| matches!(c, '.' | '[')).map_or(rest.len(), |(at, _)| at);
            path = path.field(&rest[..end]);
            rest = &rest[end..];
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use karpenter_api::kinds::NodePool;

    fn paths<K: DeserializeOwned>(object: &Value) -> Vec<String> {
        let found = read::<K>(object).err().unwrap_or_default();
        found.iter().map(|wrong| format!("{}: {}", wrong.path, wrong.message)).collect()
    }

    #[test]
    fn everything_wrong_is_found_with_its_field() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5, "labels": {"a": ["x"]}},
            "spec": {
                "containers": [{"name": "a", "ports": [{"containerPort": "http"}]}, {"name": "b"}],
                "tolerations": {"key": "x"},
                "priority": 1.5,
            },
        });
        let found = paths::<Pod>(&pod);
        for (path, message) in [
            ("metadata.name", "integer `5`"),
            ("metadata.labels.a", "sequence"),
            ("spec.containers[0].ports[0].containerPort", "string \"http\""),
            ("spec.tolerations", "map"),
            ("spec.priority", "floating point"),
        ] {
            let told = |line: &String| line.starts_with(&format!("{path}: ")) && line.contains(message);
            assert!(found.iter().any(told), "{path} {message}: {found:#?}");
        }
        assert_eq!(found.len(), 5, "{found:#?}");
        assert!(read::<Pod>(&json!({"metadata": {"name": "fine"}})).is_ok());
    }

    #[test]
    fn paths_of_messages() {
        let root = FieldPath::root();
        let requests = root.field("spec").field("containers").index(0).field("requests").key("a.b/c");
        assert_eq!(path("spec.containers[0].requests[a.b/c]"), requests);
        for odd in ["", ".", "[", "]", "a..b", "[]", "[0", "..", "ä[ö].ü"] {
            let _ = path(odd);
        }
    }

    #[test]
    fn what_cannot_be_pinned_down_is_told_all_the_same() {
        assert_eq!(paths::<Pod>(&json!([1, 2])).len(), 1);
        assert_eq!(paths::<Pod>(&json!("x")).len(), 1);
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {
            "weight": "heavy", "template": {"spec": {"requirements": "none", "nodeClassRef": {"name": "c"}}}}});
        let found = paths::<NodePool>(&pool);
        assert!(found.iter().any(|line| line.starts_with("spec.weight: ")), "{found:#?}");
        assert!(
            found.iter().any(|line| line == "spec.template.spec.nodeClassRef.group: missing field `group`"),
            "{found:#?}"
        );
        assert!(found.iter().any(|line| line.starts_with("spec.template.spec.requirements: ")), "{found:#?}");
    }
}
