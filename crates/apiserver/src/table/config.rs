//! Everything else: namespaces, events, settings, accounts, roles, admission.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age as ages;
use super::read::{age, count, join, list, name, number, text, text_or};

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let (spec, name, age) = (&object["spec"], name(object), age(object, now));
    Some(match kind {
        "Namespace" => vec![name, json!(text(&object["status"]["phase"])), age],
        "Event" => event(object, now),
        "ConfigMap" => vec![name, json!(count(&object["data"]) + count(&object["binaryData"])), age],
        "Secret" => vec![name, json!(text(&object["type"])), json!(count(&object["data"])), age],
        "ServiceAccount" => vec![name, age],
        "ResourceQuota" => {
            let (requests, limits) = quota(&object["status"]);
            vec![name, json!(requests), json!(limits), age]
        }
        "PriorityClass" => {
            let default = json!(object["globalDefault"] == true);
            vec![name, json!(number(&object["value"])), default, age, json!(text(&object["preemptionPolicy"]))]
        }
        "Lease" => vec![name, json!(text(&spec["holderIdentity"])), age],
        "RuntimeClass" => vec![name, json!(text(&object["handler"])), age],
        "RoleBinding" | "ClusterRoleBinding" => {
            let role = &object["roleRef"];
            let role = json!(format!("{}/{}", text(&role["kind"]), text(&role["name"])));
            let [users, groups, accounts] = ["User", "Group", "ServiceAccount"].map(|k| json!(subjects(object, k)));
            vec![name, role, age, users, groups, accounts]
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![name, json!(count(&object["webhooks"])), age]
        }
        "ValidatingAdmissionPolicy" => {
            let kind = match &spec["paramKind"] {
                Value::Null => "<unset>".to_owned(),
                kind => format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"])),
            };
            vec![name, json!(count(&spec["validations"])), json!(kind), age]
        }
        "ValidatingAdmissionPolicyBinding" => {
            let reference = &spec["paramRef"];
            let parameter = match text(&reference["name"]) {
                "" => "<unset>".to_owned(),
                found => format!("{}/{found}", text_or(&reference["namespace"], "*")),
            };
            vec![name, json!(text(&spec["policyName"])), json!(parameter), age]
        }
        _ => return None,
    })
}

/// An event in either of its two forms; `events.k8s.io` has other names for the same things.
fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |old: &str, new: &str| if event[old].is_null() { &event[new] } else { &event[old] };
    let since = |time: &Value| ages::since(time, now);
    let (first, last) =
        (either("firstTimestamp", "deprecatedFirstTimestamp"), either("lastTimestamp", "deprecatedLastTimestamp"));
    let first_seen = if first.is_null() { since(&event["eventTime"]) } else { since(first) };
    let mut last_seen = if last.is_null() { first_seen.clone() } else { since(last) };
    let mut times = number(either("count", "deprecatedCount")).max(1);
    if event["series"].is_object() {
        last_seen = since(&event["series"]["lastObservedTime"]);
        times = number(&event["series"]["count"]);
    }
    let object = either("involvedObject", "regarding");
    let kind = text(&object["kind"]).to_lowercase();
    let target = match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = either("source", "deprecatedSource");
    let component =
        text_or(&source["component"], text_or(&event["reportingComponent"], text(&event["reportingController"])));
    let source = match text_or(&source["host"], text(&event["reportingInstance"])) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    vec![
        json!(last_seen),
        json!(text(&event["type"])),
        json!(text(&event["reason"])),
        json!(target),
        json!(text(&object["fieldPath"])),
        json!(source),
        json!(text(either("message", "note")).trim()),
        json!(first_seen),
        json!(times),
        name(event),
    ]
}

/// Used of allowed; what is limited apart from what is requested.
fn quota(status: &Value) -> (String, String) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let text = format!("{resource}: {}/{}", text_or(&status["used"][resource], "0"), text(hard));
        if resource.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    (requests.join(", "), limits.join(", "))
}

fn subjects(binding: &Value, kind: &str) -> String {
    let names: Vec<_> = list(&binding["subjects"])
        .iter()
        .filter(|s| s["kind"] == kind)
        .map(|s| match text(&s["namespace"]) {
            namespace if kind == "ServiceAccount" => format!("{namespace}/{}", text(&s["name"])),
            _ => text(&s["name"]).to_owned(),
        })
        .collect();
    join(names.iter().map(String::as_str), ", ")
}
