//! `eviction`: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::delete::DeleteOptions;
use super::super::storage;
use super::{Answer, Call, State};
use crate::kinds::map_at;
use crate::resource::GroupKind;
use crate::selector::LabelSelector;
use crate::status::Failure;
use crate::store::Entry;

fn budgets() -> GroupKind {
    GroupKind { group: "policy".to_owned(), kind: "PodDisruptionBudget".to_owned() }
}

/// More disrupted pods than these are not kept track of.
const MAX_DISRUPTED: usize = 2000;

impl State {
    pub(super) fn evict(&mut self, call: &Call) -> Result<Answer, Failure> {
        let eviction = call.content.parse().map_err(|e| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type Eviction): couldn't get version/kind; json parse error: {e}"
            ))
        })?;
        let name = eviction["metadata"]["name"].as_str().unwrap_or_default();
        if name != call.name {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut body = eviction["deleteOptions"].clone();
        if body.is_null() {
            body = json!({});
        }
        if let Some(map) = body.as_object_mut() {
            map.remove("kind");
            map.remove("apiVersion");
        }
        let mut options = DeleteOptions::read(call, &body)?;
        let pod = self.find(call)?;
        if is_over(&pod.value) {
            return self.evicted(call, &pod, &options);
        }
        let matching = self.budgets_of(&pod.value);
        let budget = match matching.as_slice() {
            [] => return self.evicted(call, &pod, &options),
            [one] => one.clone(),
            _ => {
                return Err(Failure::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        if is_unready_and_free(&pod.value, &budget.1.value) {
            // Nothing healthy is disturbed; but it must be this very state of the pod.
            options.version.get_or_insert(pod.revision.to_string());
            return self.evicted(call, &pod, &options);
        }
        self.take_budget(call, &budget.0, &budget.1, &options)?;
        self.evicted(call, &pod, &options)
    }

    fn evicted(&mut self, call: &Call, pod: &Arc<Entry>, options: &DeleteOptions) -> Result<Answer, Failure> {
        let delete = Call::internal(&call.kind, &call.key(), call.verb, call.now);
        super::super::delete::check_preconditions(&delete, pod, options)?;
        if options.dry_run {
            self.delete_object(&delete, pod, options)?;
        } else {
            let mut object = (*pod.value).clone();
            set_target(&mut object, &call.time());
            let marked = self.store.put(&storage(&call.kind), &call.key(), object, call.now);
            // The version that was asked for is the one before the mark.
            let options = DeleteOptions { version: None, ..options.clone() };
            self.delete_object(&delete, &marked, &options)?;
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(Answer::Object { code: 201, value: Arc::new(status), warnings: Vec::new() })
    }

    fn budgets_of(&self, pod: &Value) -> Vec<(String, Arc<Entry>)> {
        let Some(table) = self.store.table(&budgets()) else { return Vec::new() };
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let selects = |entry: &Arc<Entry>| {
            let selector = &entry.value["spec"]["selector"];
            // No selector selects nothing, an empty one everything.
            !selector.is_null() && LabelSelector::from_spec(selector).is_some_and(|s| s.matches(pod))
        };
        let found = table.range(namespace).filter(|(_, entry)| selects(entry));
        found.map(|(key, entry)| (key.clone(), Arc::clone(entry))).collect()
    }

    /// Counts one disruption against a budget.
    fn take_budget(
        &mut self,
        call: &Call,
        key: &str,
        budget: &Arc<Entry>,
        options: &DeleteOptions,
    ) -> Result<(), Failure> {
        let name = budget.value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let status = &budget.value["status"];
        let observed = status["observedGeneration"].as_i64().unwrap_or(0);
        if observed < budget.value["metadata"]["generation"].as_i64().unwrap_or(0) {
            return Err(refused(
                &format!("The disruption budget {name} is still being processed by the server."),
                Some(10),
            ));
        }
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        if allowed < 0 {
            let kind = GroupKind { group: "policy".to_owned(), kind: "PodDisruptionBudget".to_owned() };
            return Err(Failure::new(
                403,
                "Forbidden",
                format!(
                    "{}.{} {name:?} is forbidden: pdb disruptions allowed is negative",
                    "poddisruptionbudgets", kind.group
                ),
            ));
        }
        let disrupted = status["disruptedPods"].as_object().map_or(0, serde_json::Map::len);
        if disrupted > MAX_DISRUPTED {
            return Err(Failure::new(
                403,
                "Forbidden",
                format!(
                    "poddisruptionbudgets.policy {name:?} is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller"
                ),
            ));
        }
        if allowed == 0 {
            let (desired, healthy) =
                (status["desiredHealthy"].as_i64().unwrap_or(0), status["currentHealthy"].as_i64().unwrap_or(0));
            let text = match insufficient(&budget.value) {
                Some(text) => text,
                None => {
                    format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
                }
            };
            return Err(refused_with_cause("Cannot evict pod as it would violate the pod's disruption budget.", &text));
        }
        if options.dry_run {
            return Ok(());
        }
        let mut object = (*budget.value).clone();
        if let Some(status) = map_at(&mut object, &["status"]) {
            status.insert("disruptionsAllowed".to_owned(), json!(allowed - 1));
            if allowed - 1 == 0 {
                set_condition(status, &call.time());
            }
        }
        if let Some(pods) = map_at(&mut object, &["status", "disruptedPods"]) {
            pods.insert(call.name.clone(), json!(call.time()));
        }
        self.store.put(&budgets(), key, object, call.now);
        Ok(())
    }
}

/// The budget's controller could not work out its numbers.
fn insufficient(budget: &Value) -> Option<String> {
    let conditions = budget["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|c| c["type"] == "DisruptionAllowed" && c["reason"] == "SyncFailed")?;
    let name = budget["metadata"]["name"].as_str()?;
    Some(format!(
        "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
        condition["message"].as_str()?
    ))
}

fn set_condition(status: &mut serde_json::Map<String, Value>, now: &str) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(list) = conditions else { return };
    if let Some(condition) = list.iter_mut().find(|c| c["type"] == "DisruptionAllowed" && c["status"] == "True") {
        condition["status"] = json!("False");
        condition["reason"] = json!("InsufficientPods");
        condition["lastTransitionTime"] = json!(now);
    }
}

/// Says on the pod why it goes.
fn set_target(pod: &mut Value, now: &str) {
    let observed = pod["metadata"]["generation"].clone();
    let Some(status) = map_at(pod, &["status"]) else { return };
    let Value::Array(list) = status.entry("conditions").or_insert_with(|| json!([])) else { return };
    let mut condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now});
    if !observed.is_null() {
        condition["observedGeneration"] = observed;
    }
    list.retain(|c| c["type"] != "DisruptionTarget");
    list.push(condition);
}

fn refused(cause: &str, retry: Option<u64>) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut failure = refused_with_cause(message, cause);
    failure.retry_after_seconds = retry;
    if let (Some(details), Some(retry)) = (&mut failure.details, retry) {
        details["retryAfterSeconds"] = json!(retry);
    }
    failure
}

fn refused_with_cause(message: &str, cause: &str) -> Failure {
    let cause = json!({"reason": "DisruptionBudget", "message": cause});
    Failure::new(429, "TooManyRequests", message).with_details(json!({"causes": [cause]}))
}

/// Ended or never started: no budget counts it.
fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
        || pod["metadata"].get("deletionTimestamp").is_some_and(|t| !t.is_null())
}

/// Pods that run but are not ready may go while the budget is met, or always if the budget says so.
fn is_unready_and_free(pod: &Value, budget: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True") {
        return false;
    }
    if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return true;
    }
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0
}
