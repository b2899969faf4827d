//! AWSNodeTemplates: what is wrong with them, and what they select (AWS-256).

use std::sync::Arc;

use karpenter_api::legacy;
use karpenter_controllers::patch::{ignore_gone, merge_status_locked};
use karpenter_controllers::queue::{ReconcileError, Requeue};
use kube::Api;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

use crate::Legacy;
use crate::status::{self, Said, TRANSLATED};

/// Members of the status of a class that a template had as well.
const SELECTED: [(&str, &[&str]); 3] =
    [("subnets", &["id", "zone"]), ("securityGroups", &["id", "name"]), ("amis", &["id", "name", "requirements"])];

pub(crate) async fn reconcile(legacy: Arc<Legacy>, name: String) -> Result<Requeue, ReconcileError> {
    let Some((stored, object)) = legacy.templates.get(&name) else { return Ok(Requeue::OnChange) };
    if stored.metadata.deletion_timestamp.is_some() {
        return Ok(Requeue::OnChange);
    }
    let findings = legacy::template_findings(&object, &(legacy.installation)());
    let verdict = match status::refusal(&findings, 1) {
        None => Said::new(TRANSLATED, "True", TRANSLATED, ""),
        Some(message) => Said::new(TRANSLATED, "False", "Invalid", &message),
    };
    let said: Vec<Said> = std::iter::once(verdict).chain(status::warnings(&findings, 1)).collect();
    let mut new =
        Map::from_iter([("conditions".to_owned(), status::conditions(&object, &said, legacy.ctx.clock.now()))]);
    new.extend(selected(&legacy, &name));
    if new.iter().all(|(member, value)| object["status"][member] == *value) {
        return Ok(Requeue::OnChange);
    }
    let api: Api<DynamicObject> = Api::all_with(legacy.ctx.client.clone(), &legacy.templates.resource);
    let written = merge_status_locked(&api, stored.as_ref(), Value::Object(new)).await;
    if let Some(written) = ignore_gone(written)? {
        legacy.templates.objects.put(&written);
    }
    Ok(Requeue::OnChange)
}

/// What the class of its first user found; all of them select the same.
fn selected(legacy: &Legacy, template: &str) -> Map<String, Value> {
    let mut classes = legacy.users_of(template).into_iter().filter_map(|user| legacy.ctx.node_classes.get(&user));
    let Some(class) = classes.next() else { return Map::new() };
    let of_class = |(member, kept): &(&str, &[&str])| {
        let listed = class.data["status"][*member].as_array()?;
        let pick = |one: &Value| -> Map<String, Value> {
            let members = kept.iter().filter(|name| !one[**name].is_null());
            members.map(|name| ((*name).to_owned(), one[*name].clone())).collect()
        };
        Some(((*member).to_owned(), json!(listed.iter().map(pick).collect::<Vec<_>>())))
    };
    SELECTED.iter().filter_map(of_class).collect()
}
