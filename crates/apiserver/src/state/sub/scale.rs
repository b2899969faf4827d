//! `scale`: the number of replicas without the rest of the object.

use serde_json::{Value, json};

use super::super::body::PatchType;
use super::super::custom::Scale;
use super::{Answer, Call, State};
use crate::kinds::map_at;
use crate::patch;
use crate::request::Verb;
use crate::status::{Cause, Failure};

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, name| &value[name])
}

impl State {
    fn paths(&self, call: &Call) -> Scale {
        self.scale_paths(call).unwrap_or_else(|| Scale {
            spec: "spec.replicas".to_owned(),
            status: "status.replicas".to_owned(),
            selector: None,
        })
    }

    fn scale_of(&self, call: &Call, object: &Value) -> Value {
        let paths = self.paths(call);
        let mut metadata = json!({});
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object["metadata"].get(field) {
                metadata[field] = value.clone();
            }
        }
        let number = |path: &str| at(object, path).as_i64().unwrap_or(0);
        let mut spec = json!({});
        if number(&paths.spec) != 0 {
            spec["replicas"] = json!(number(&paths.spec));
        }
        let mut status = json!({"replicas": number(&paths.status)});
        let selector = match &paths.selector {
            Some(path) => at(object, path).as_str().map(str::to_owned),
            None if call.kind.crd => None,
            None => Some(selector_text(&object["spec"]["selector"])),
        };
        if let Some(selector) = selector.filter(|s| !s.is_empty()) {
            status["selector"] = json!(selector);
        }
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
    }

    pub(super) fn get_scale(&mut self, call: &Call) -> Result<Answer, Failure> {
        let live = self.find(call)?;
        Ok(Answer::ok(self.scale_of(call, &live.value)))
    }

    pub(super) fn set_scale(&mut self, call: &Call) -> Result<Answer, Failure> {
        call.dry_run()?;
        let live = self.find(call)?;
        let current = self.scale_of(call, &live.value);
        let wanted = wanted_scale(call, &current)?;
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        if name != call.name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                call.name
            )));
        }
        let replicas = match &wanted["spec"]["replicas"] {
            Value::Null => 0,
            value => value.as_i64().ok_or_else(|| {
                Failure::bad_request("Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32")
            })?,
        };
        if replicas < 0 {
            let cause = Cause::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0");
            return Err(Failure::invalid_kind("autoscaling", "Scale", &call.name, &[cause]));
        }
        let mut object = (*live.value).clone();
        for field in ["resourceVersion", "uid"] {
            if let (Some(value), Some(metadata)) = (wanted["metadata"].get(field), map_at(&mut object, &["metadata"])) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let paths = self.paths(call);
        let mut path: Vec<&str> = paths.spec.split('.').collect();
        let Some(last) = path.pop() else { return Err(Failure::internal("no path for replicas")) };
        if let Some(map) = map_at(&mut object, &path) {
            map.insert(last.to_owned(), json!(replicas));
        }
        // Written as if through the object, but owned as of the subresource.
        let value = self.change(call, &live, object, None)?;
        Ok(Answer::ok(self.scale_of(call, &value)))
    }
}

fn wanted_scale(call: &Call, current: &Value) -> Result<Value, Failure> {
    let body: Value = call.content.parse().map_err(|why| {
        if call.verb == Verb::Patch {
            Failure::bad_request(format!("error decoding patch: {why}"))
        } else {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type Scale): couldn't get version/kind; json parse error: {why}"
            ))
        }
    })?;
    if call.verb == Verb::Update {
        return Ok(body);
    }
    let mut scale = current.clone();
    match call.content.patch_type() {
        Some(PatchType::Json) => patch::json_patch(&mut scale, &body)?,
        Some(_) => patch::merge_patch(&mut scale, &body),
        None => {
            return Err(
                Failure::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_details(json!({}))
            );
        }
    }
    Ok(scale)
}

/// A selector in the form of requests: `a=b,c in (d,e)`.
fn selector_text(selector: &Value) -> String {
    let mut terms = Vec::new();
    let labels = selector.get("matchLabels").unwrap_or(selector);
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Some(value) = value.as_str() {
            terms.push(format!("{key}={value}"));
        }
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        terms.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    terms.sort();
    terms.join(",")
}
