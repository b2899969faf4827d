//! Provisioners: their pool, their class, and their status (AWS-257).

use std::sync::Arc;

use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::ec2nodeclass::EC2NodeClass;
use karpenter_api::kinds::nodepool::NodePool;
use karpenter_api::legacy::{self, Installation, Translation};
use karpenter_api::names::conditions as names;
use karpenter_controllers::patch::{ignore_gone, merge_status_locked};
use karpenter_controllers::queue::{ReconcileError, Requeue};
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Resource, ResourceExt as _};
use serde_json::{Map, Value, json};

use crate::Legacy;
use crate::status::{self, READY, Said, TRANSLATED};

/// Who writes the fields of pools and classes; what it does not write is left alone.
const MANAGER: &str = "karpenter-legacy";

/// UID and generation.
type Version = (String, i64);

/// Nothing to write while all of this is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    provisioner: Version,
    template: Option<Version>,
    installation: Installation,
    pool: Option<Version>,
    class: Option<Version>,
}

/// What became of the objects.
enum Outcome {
    Served,
    Refused {
        reason: &'static str,
        message: String,
    },
    /// What has the name is going.
    Waits(String),
}

pub(crate) async fn reconcile(legacy: Arc<Legacy>, name: String) -> Result<Requeue, ReconcileError> {
    let Some((stored, object)) = legacy.provisioners.get(&name) else {
        legacy.written().remove(&name);
        return Ok(Requeue::OnChange);
    };
    if stored.metadata.deletion_timestamp.is_some() {
        return Ok(Requeue::OnChange);
    }
    if !legacy.is_known() {
        return Ok(Requeue::Backoff);
    }
    let template = legacy::template_name(&object).and_then(|template| legacy.templates.get(template));
    let installation = (legacy.installation)();
    let translation = legacy::translate(&object, template.as_ref().map(|(_, object)| object), &installation);
    let input = Written {
        provisioner: version(stored.as_ref()),
        template: template.as_ref().map(|(template, _)| version(template.as_ref())),
        installation,
        pool: legacy.ctx.pools.get(&name).map(|pool| version(pool.as_ref())),
        class: legacy.ctx.node_classes.get(&name).map(|class| version(class.as_ref())),
    };
    let outcome = serve(&legacy, &translation, input, &name).await?;
    tell(&legacy, &stored, &object, &translation, &outcome).await?;
    // What its class has found is shown there as well.
    if let Some(template) = legacy::template_name(&object) {
        legacy.wakes.templates.add(template);
    }
    Ok(if matches!(outcome, Outcome::Waits(_)) { Requeue::Backoff } else { Requeue::OnChange })
}

fn version<K: Resource>(object: &K) -> Version {
    (object.uid().unwrap_or_default(), object.meta().generation.unwrap_or(0))
}

async fn serve(
    legacy: &Legacy,
    translation: &Translation,
    input: Written,
    name: &str,
) -> Result<Outcome, ReconcileError> {
    let Some((pool, class)) = &translation.objects else {
        // What was served before goes on as it is: a slip of the pen must not cost nodes.
        let message = status::refusal(&translation.findings, 0).unwrap_or_default();
        return Ok(Outcome::Refused { reason: "Invalid", message });
    };
    if legacy.written().get(name) == Some(&input) {
        return Ok(Outcome::Served);
    }
    let owner = &input.provisioner.0;
    // The class first: a pool without one is not ready.
    let class = match write::<EC2NodeClass>(&legacy.ctx.client, class, owner).await? {
        Ok(class) => version(&class),
        Err(outcome) => return Ok(outcome),
    };
    let pool = match write::<NodePool>(&legacy.ctx.client, pool, owner).await? {
        Ok(pool) => version(legacy.ctx.note_pool(pool).as_ref()),
        Err(outcome) => return Ok(outcome),
    };
    tracing::info!(provisioner = name, "provisioner is served by nodepool and nodeclass of its name");
    legacy.written().insert(name.to_owned(), Written { pool: Some(pool), class: Some(class), ..input });
    Ok(Outcome::Served)
}

/// Creates the object or brings it up to date, unless it belongs to somebody else.
async fn write<K>(client: &kube::Client, wanted: &K, owner: &str) -> Result<Result<K, Outcome>, ReconcileError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug,
    K: k8s_openapi::serde::Serialize + k8s_openapi::serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let (kind, name) = (K::kind(&()), wanted.name_any());
    let existing = api.get_opt(&name).await?;
    if let Some(existing) = &existing {
        match legacy::owner(existing.meta()) {
            Some(found) if found.uid == owner && existing.meta().deletion_timestamp.is_none() => {}
            // Of a Provisioner of that name that is gone, or on its way out.
            Some(_) => return Ok(Err(Outcome::Waits(format!("{kind} {name} of before is being deleted")))),
            None => {
                let message =
                    format!("metadata.name: there is a {kind} {name} that is not of this Provisioner's making");
                return Ok(Err(Outcome::Refused { reason: "NameTaken", message }));
            }
        }
    }
    let mut patch = serde_json::to_value(wanted)?;
    patch["apiVersion"] = json!(K::api_version(&()));
    patch["kind"] = json!(kind);
    // Neither takes over what somebody made meanwhile: a UID that is another's and fields that are another's are conflicts.
    let mut params = PatchParams::apply(MANAGER);
    if let Some(existing) = &existing {
        patch["metadata"]["uid"] = json!(existing.uid());
        params = params.force();
    }
    match api.patch(&name, &params, &Patch::Apply(patch)).await {
        Ok(written) => Ok(Ok(written)),
        Err(kube::Error::Api(refused)) if refused.code == 422 || refused.code == 403 => {
            let message = format!("{kind} {name} is refused: {}", refused.message);
            Ok(Err(Outcome::Refused { reason: "Refused", message }))
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes the status when it differs.
async fn tell(
    legacy: &Legacy,
    stored: &DynamicObject,
    object: &Value,
    translation: &Translation,
    outcome: &Outcome,
) -> Result<(), ReconcileError> {
    let now = legacy.ctx.clock.now();
    let pool = legacy.ctx.pools.get(&stored.name_any());
    let mut said = vec![translated(outcome), readiness(outcome, pool.as_deref())];
    said.extend(status::warnings(&translation.findings, 0));
    let mut new = Map::from_iter([("conditions".to_owned(), status::conditions(object, &said, now))]);
    let resources = pool
        .as_ref()
        .filter(|pool| legacy::owner(&pool.metadata).map(|owner| &owner.uid) == stored.metadata.uid.as_ref());
    let resources = resources.and_then(|pool| serde_json::to_value(pool.status.as_ref()?.resources.as_ref()?).ok());
    if let Some(resources) = resources {
        let before = &object["status"]["resources"];
        // An empty pool has not scaled.
        if *before != resources && (before.is_object() || has_nodes(&resources)) {
            new.insert("lastScaleTime".to_owned(), json!(status::whole_seconds(now)));
        }
        new.insert("resources".to_owned(), resources);
    }
    if new.iter().all(|(member, value)| object["status"][member] == *value) {
        return Ok(());
    }
    if let Outcome::Refused { reason, message } = outcome {
        tracing::warn!(provisioner = stored.name_any(), reason, why = message, "provisioner is not served as it is");
    }
    let api: Api<DynamicObject> = Api::all_with(legacy.ctx.client.clone(), &legacy.provisioners.resource);
    if let Some(written) = ignore_gone(merge_status_locked(&api, stored, Value::Object(new)).await)? {
        legacy.provisioners.objects.put(&written);
    }
    Ok(())
}

fn has_nodes(resources: &Value) -> bool {
    !matches!(&resources["nodes"], Value::Null) && resources["nodes"] != "0" && resources["nodes"] != 0
}

fn translated(outcome: &Outcome) -> Said {
    match outcome {
        Outcome::Served => Said::new(TRANSLATED, "True", TRANSLATED, ""),
        Outcome::Refused { reason, message } => Said::new(TRANSLATED, "False", reason, message),
        Outcome::Waits(message) => Said::new(TRANSLATED, "Unknown", "Waiting", message),
    }
}

/// As the pool says, which is the one that nodes come from.
fn readiness(outcome: &Outcome, pool: Option<&NodePool>) -> Said {
    if !matches!(outcome, Outcome::Served) {
        let Said { status, reason, message, .. } = translated(outcome);
        return Said { type_: READY, status, reason, message };
    }
    match pool.and_then(|pool| pool.condition(names::READY)) {
        Some(ready) => {
            // The pool's own word for it says which of its conditions; what that one says is what people want to read.
            let details = pool.map(NodePool::conditions).unwrap_or_default().iter();
            let details = details.filter(|one| one.type_ != names::READY && !one.is_true() && !one.message.is_empty());
            let details: Vec<String> = details.map(|one| format!("{}: {}", one.type_, one.message)).collect();
            let message = if ready.is_true() { String::new() } else { details.join("; ") };
            Said { type_: READY, status: ready.status.to_string(), reason: ready.reason.clone(), message }
        }
        None => Said::new(READY, "Unknown", "Waiting", "the NodePool has not been looked at yet"),
    }
}
