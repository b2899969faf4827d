//! What is read of a pod of a kind that nobody has seen before, from protobuf to the JSON that such a pod is converted from. Once for
//! each workload, so it need not be fast.

use serde_json::{Map, Value};

use super::super::wire::{Field, Fields, Malformed, entry};

/// The fields of a message that somebody reads, with their names in JSON.
pub(super) struct Form(&'static [(u32, &'static str, Kind)]);

enum Kind {
    /// In protobuf a text that was not set is an empty one, in JSON it is missing.
    Text,
    Number,
    Flag,
    Part(&'static Form),
    /// Its members are those of what it is in.
    Inline(&'static Form),
    Texts,
    Parts(&'static Form),
    TextMap,
    Amounts,
}

use Kind::{Amounts, Flag, Inline, Number, Part, Parts, Text, TextMap, Texts};

pub(super) static POD: Form =
    Form(&[(1, "metadata", Part(&METADATA)), (2, "spec", Part(&SPEC)), (3, "status", Part(&STATUS))]);

static METADATA: Form = Form(&[
    (3, "namespace", Text),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (13, "ownerReferences", Parts(&OWNER)),
]);

static OWNER: Form =
    Form(&[(1, "kind", Text), (3, "name", Text), (4, "uid", Text), (5, "apiVersion", Text), (6, "controller", Flag)]);

static SPEC: Form = Form(&[
    (1, "volumes", Parts(&VOLUME)),
    (2, "containers", Parts(&CONTAINER)),
    (4, "terminationGracePeriodSeconds", Number),
    (7, "nodeSelector", TextMap),
    (18, "affinity", Part(&AFFINITY)),
    (19, "schedulerName", Text),
    (20, "initContainers", Parts(&CONTAINER)),
    (22, "tolerations", Parts(&TOLERATION)),
    (24, "priorityClassName", Text),
    (25, "priority", Number),
    (32, "overhead", Amounts),
    (33, "topologySpreadConstraints", Parts(&SPREAD)),
    (38, "schedulingGates", Parts(&NAMED)),
    (39, "resourceClaims", Parts(&CLAIM)),
    (40, "resources", Part(&RESOURCES)),
]);

static VOLUME: Form = Form(&[(1, "name", Text), (2, "", Inline(&SOURCE))]);
static SOURCE: Form = Form(&[(10, "persistentVolumeClaim", Part(&CLAIM_SOURCE)), (29, "ephemeral", Part(&NOTHING))]);
static CLAIM_SOURCE: Form = Form(&[(1, "claimName", Text)]);
static NOTHING: Form = Form(&[]);
static NAMED: Form = Form(&[(1, "name", Text)]);
static CLAIM: Form = Form(&[(1, "name", Text), (3, "resourceClaimName", Text), (4, "resourceClaimTemplateName", Text)]);

static CONTAINER: Form = Form(&[
    (1, "name", Text),
    (6, "ports", Parts(&PORT)),
    (8, "resources", Part(&RESOURCES)),
    (24, "restartPolicy", Text),
]);
static PORT: Form =
    Form(&[(2, "hostPort", Number), (3, "containerPort", Number), (4, "protocol", Text), (5, "hostIP", Text)]);
static RESOURCES: Form = Form(&[(1, "limits", Amounts), (2, "requests", Amounts), (3, "claims", Parts(&NAMED))]);

static AFFINITY: Form = Form(&[
    (1, "nodeAffinity", Part(&NODE_AFFINITY)),
    (2, "podAffinity", Part(&POD_AFFINITY)),
    (3, "podAntiAffinity", Part(&POD_AFFINITY)),
]);
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
static NODE_AFFINITY: Form = Form(&[(1, REQUIRED, Part(&NODE_SELECTOR)), (2, PREFERRED, Parts(&PREFERRED_TERM))]);
static NODE_SELECTOR: Form = Form(&[(1, "nodeSelectorTerms", Parts(&NODE_TERM))]);
static NODE_TERM: Form = Form(&[(1, "matchExpressions", Parts(&EXPRESSION)), (2, "matchFields", Parts(&EXPRESSION))]);
static EXPRESSION: Form = Form(&[(1, "key", Text), (2, "operator", Text), (3, "values", Texts)]);
static PREFERRED_TERM: Form = Form(&[(1, "weight", Number), (2, "preference", Part(&NODE_TERM))]);
static POD_AFFINITY: Form = Form(&[(1, REQUIRED, Parts(&POD_TERM)), (2, PREFERRED, Parts(&WEIGHTED_TERM))]);
static WEIGHTED_TERM: Form = Form(&[(1, "weight", Number), (2, "podAffinityTerm", Part(&POD_TERM))]);
static POD_TERM: Form = Form(&[
    (1, "labelSelector", Part(&SELECTOR)),
    (2, "namespaces", Texts),
    (3, "topologyKey", Text),
    (4, "namespaceSelector", Part(&SELECTOR)),
    (5, "matchLabelKeys", Texts),
    (6, "mismatchLabelKeys", Texts),
]);
static SELECTOR: Form = Form(&[(1, "matchLabels", TextMap), (2, "matchExpressions", Parts(&EXPRESSION))]);
static SPREAD: Form = Form(&[
    (1, "maxSkew", Number),
    (2, "topologyKey", Text),
    (3, "whenUnsatisfiable", Text),
    (4, "labelSelector", Part(&SELECTOR)),
    (5, "minDomains", Number),
    (6, "nodeAffinityPolicy", Text),
    (7, "nodeTaintsPolicy", Text),
    (8, "matchLabelKeys", Texts),
]);
static TOLERATION: Form = Form(&[
    (1, "key", Text),
    (2, "operator", Text),
    (3, "value", Text),
    (4, "effect", Text),
    (5, "tolerationSeconds", Number),
]);

static STATUS: Form = Form(&[
    (2, "conditions", Parts(&CONDITION)),
    (8, "containerStatuses", Parts(&CONTAINER_STATUS)),
    (10, "initContainerStatuses", Parts(&CONTAINER_STATUS)),
    (15, "resourceClaimStatuses", Parts(&CLAIM_STATUS)),
]);
static CONDITION: Form = Form(&[(1, "type", Text), (2, "status", Text), (5, "reason", Text)]);
static CONTAINER_STATUS: Form =
    Form(&[(1, "name", Text), (10, "allocatedResources", Amounts), (11, "resources", Part(&RESOURCES))]);
static CLAIM_STATUS: Form = Form(&[(1, "name", Text), (2, "resourceClaimName", Text)]);

pub(super) fn json(bytes: &[u8], form: &Form) -> Result<Value, Malformed> {
    let mut members = Map::new();
    fill(&mut members, Fields(bytes), form)?;
    Ok(Value::Object(members))
}

fn fill(members: &mut Map<String, Value>, mut fields: Fields<'_>, form: &Form) -> Result<(), Malformed> {
    while let Some(field) = fields.next()? {
        let Some((_, name, kind)) = form.0.iter().find(|(number, ..)| *number == field.number) else { continue };
        match kind {
            Text => match field.text()? {
                "" => {}
                text => drop(members.insert((*name).to_owned(), text.into())),
            },
            Number => drop(members.insert((*name).to_owned(), field.number()?.into())),
            Flag => drop(members.insert((*name).to_owned(), (field.number()? != 0).into())),
            Part(form) => drop(members.insert((*name).to_owned(), json(field.bytes()?, form)?)),
            Inline(form) => fill(members, field.fields()?, form)?,
            Texts => push(members, name, field.text()?.into()),
            Parts(form) => push(members, name, json(field.bytes()?, form)?),
            TextMap => {
                let (key, value) = entry(&field)?;
                put(members, name, key, value.map_or(Ok(""), |value| value.text())?);
            }
            Amounts => {
                let (key, value) = entry(&field)?;
                put(members, name, key, value.map_or(Ok(""), |value| amount(&value))?);
            }
        }
    }
    Ok(())
}

fn push(members: &mut Map<String, Value>, name: &str, value: Value) {
    let list = members.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = list {
        list.push(value);
    }
}

fn put(members: &mut Map<String, Value>, name: &str, key: &str, value: &str) {
    let map = members.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(map) = map {
        map.insert(key.to_owned(), value.into());
    }
}

/// An amount is a message with its text.
fn amount<'a>(field: &Field<'a>) -> Result<&'a str, Malformed> {
    let mut text = "";
    let mut fields = field.fields()?;
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            text = field.text()?;
        }
    }
    Ok(text)
}
