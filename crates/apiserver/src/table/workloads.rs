//! What makes pods, what runs them, and what protects them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age as ages;
use super::read::{
    age, condition, containers, count, deleting, int_or_text, is_true, list, name, number, text, text_or,
};
use super::selector::{labels, plain, selector};

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let age = age(object, now);
    let (names, images) = containers(&spec["template"]["spec"]);
    let n = |field: &str| json!(number(&status[field]));
    let wanted = json!(number(&spec["replicas"]));
    let share = || json!(format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"])));
    let name = name(object);
    Some(match kind {
        "Deployment" => {
            let (updated, available) = (n("updatedReplicas"), n("availableReplicas"));
            vec![name, share(), updated, available, age, names, images, json!(plain(&spec["selector"]))]
        }
        "ReplicaSet" => {
            let select = json!(selector(&spec["selector"]));
            vec![name, wanted, n("replicas"), n("readyReplicas"), age, names, images, select]
        }
        "ReplicationController" => {
            let select = json!(labels(&spec["selector"]));
            vec![name, wanted, n("replicas"), n("readyReplicas"), age, names, images, select]
        }
        "StatefulSet" => vec![name, share(), age, names, images],
        "DaemonSet" => {
            let counted = ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled"];
            let mut cells = vec![name];
            cells.extend(counted.iter().map(|field| n(field)));
            cells.extend([n("numberAvailable"), json!(labels(&spec["template"]["spec"]["nodeSelector"])), age]);
            cells.extend([names, images, json!(selector(&spec["selector"]))]);
            cells
        }
        "Job" => {
            let (state, share) = (json!(job_state(object)), json!(job_share(object)));
            let select = json!(selector(&spec["selector"]));
            vec![name, state, share, json!(job_duration(status, now)), age, names, images, select]
        }
        "CronJob" => cron_job(object, name, age, now),
        "PodTemplate" => {
            let (names, images) = containers(&object["template"]["spec"]);
            vec![name, names, images, json!(labels(&object["template"]["metadata"]["labels"]))]
        }
        "ControllerRevision" => vec![name, json!(controller(object)), json!(number(&object["revision"])), age],
        "Node" => node(object, name, age),
        "PodDisruptionBudget" => {
            let bound = |field: &str| match &spec[field] {
                Value::Null => json!("N/A"),
                value => json!(int_or_text(value)),
            };
            vec![name, bound("minAvailable"), bound("maxUnavailable"), n("disruptionsAllowed"), age]
        }
        "HorizontalPodAutoscaler" => {
            let target = &spec["scaleTargetRef"];
            let reference = json!(format!("{}/{}", text(&target["kind"]), text(&target["name"])));
            let least = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |n| n.to_string());
            let most = json!(number(&spec["maxReplicas"]));
            vec![name, reference, json!(metrics(object)), json!(least), most, n("currentReplicas"), age]
        }
        _ => return None,
    })
}

/// The server shows the first condition of this order that is true.
fn job_state(job: &Value) -> &'static str {
    let conditions = &job["status"]["conditions"];
    for (kind, word) in [("Complete", "Complete"), ("Failed", "Failed")] {
        if is_true(conditions, kind) {
            return word;
        }
    }
    if deleting(job) {
        return "Terminating";
    }
    for (kind, word) in
        [("Suspended", "Suspended"), ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet")]
    {
        if is_true(conditions, kind) {
            return word;
        }
    }
    "Running"
}

fn job_share(job: &Value) -> String {
    let succeeded = number(&job["status"]["succeeded"]);
    match (job["spec"]["completions"].as_i64(), number(&job["spec"]["parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(status: &Value, now: Timestamp) -> String {
    let Some(start) = ages::time(&status["startTime"]) else { return String::new() };
    ages::between(start, ages::time(&status["completionTime"]).unwrap_or(now))
}

fn cron_job(object: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let job = &spec["jobTemplate"]["spec"];
    let (names, images) = containers(&job["template"]["spec"]);
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match &status["lastScheduleTime"] {
        Value::Null => "<none>".to_owned(),
        time => ages::since(time, now),
    };
    let (schedule, zone) = (json!(text(&spec["schedule"])), json!(text_or(&spec["timeZone"], "<none>")));
    let active = json!(count(&status["active"]));
    vec![
        name,
        schedule,
        zone,
        json!(suspend),
        active,
        json!(last),
        age,
        names,
        images,
        json!(selector(&job["selector"])),
    ]
}

/// `daemonset.apps/web`, the owner that controls the object.
fn controller(object: &Value) -> String {
    let owners = list(&object["metadata"]["ownerReferences"]);
    let Some(owner) = owners.iter().find(|o| o["controller"] == true) else { return "<none>".to_owned() };
    let kind = text(&owner["kind"]).to_lowercase();
    let group = text(&owner["apiVersion"]).split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    format!("{kind}{group}/{}", text(&owner["name"]))
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let status = &object["status"];
    let ready = match condition(&status["conditions"], "Ready") {
        Some(ready) if ready["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let disabled = if object["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
    let address = |kind: &str| {
        let found = list(&status["addresses"]).iter().find(|a| a["type"] == kind);
        json!(found.map_or("<none>", |a| text(&a["address"])))
    };
    let info = &status["nodeInfo"];
    let known = |field: &str| json!(text_or(&info[field], "<unknown>"));
    vec![
        name,
        json!(format!("{ready}{disabled}")),
        json!(roles(&object["metadata"]["labels"])),
        age,
        json!(text(&info["kubeletVersion"])),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        known("kernelVersion"),
        known("containerRuntimeVersion"),
    ]
}

fn roles(labels: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        let role = match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if key == "kubernetes.io/role" => text(value),
            None => "",
        };
        if !role.is_empty() {
            roles.insert(role);
        }
    }
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

/// Current over target of the first two metrics.
fn metrics(autoscaler: &Value) -> String {
    const SHOWN: usize = 2;
    let specs = list(&autoscaler["spec"]["metrics"]);
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let current = list(&autoscaler["status"]["currentMetrics"]);
    let texts: Vec<_> =
        specs.iter().enumerate().map(|(i, spec)| metric(spec, current.get(i).unwrap_or(&Value::Null))).collect();
    match texts.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} + {more} more...", texts[..SHOWN].join(", ")),
        _ => texts.join(", "),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let field = match text(&spec["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, now) = (&spec[field]["target"], &status[field]["current"]);
    let percent =
        |value: &Value, otherwise: &str| value.as_i64().map_or_else(|| otherwise.to_owned(), |n| format!("{n}%"));
    let average = !target["averageValue"].is_null();
    if ["resource", "containerResource"].contains(&field) {
        let resource = text(&spec[field]["name"]);
        return if average {
            format!("{resource}: {}/{}", text_or(&now["averageValue"], "<unknown>"), text(&target["averageValue"]))
        } else {
            let goal = percent(&target["averageUtilization"], "<auto>");
            format!("{resource}: {}/{goal}", percent(&now["averageUtilization"], "<unknown>"))
        };
    }
    let (key, suffix) = match (average, field) {
        (true, "pods") => ("averageValue", ""),
        (true, _) => ("averageValue", " (avg)"),
        (false, _) => ("value", ""),
    };
    format!("{}/{}{suffix}", text_or(&now[key], "<unknown>"), text(&target[key]))
}
