//! Objects of custom kinds: pruning, defaults, schema, rules, ratcheting.

use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{definition, keys};

on_every_backend!(
    unknown_fields_are_pruned,
    unknown_fields_can_be_preserved,
    embedded_resources_keep_their_metadata,
    defaults_are_filled_in,
    defaults_are_not_filled_below_absent_objects,
    null_takes_the_default,
    nullable_null_stays,
    types_are_checked,
    required_fields_are_checked,
    enums_and_patterns_are_checked,
    bounds_are_checked,
    lengths_are_checked,
    several_errors_are_all_told,
    int_or_string_takes_both,
    additional_properties_are_checked,
    rules_are_checked,
    rules_with_their_own_message_and_reason,
    transition_rules_are_checked_on_update,
    rules_of_list_elements_name_the_index,
    optional_old_self_is_seen_on_create,
    unchanged_bad_values_pass,
    changed_bad_values_do_not_pass,
    strict_requests_are_refused,
    duplicate_fields_are_told,
    warnings_about_unknown_fields,
    metadata_is_pruned_and_checked,
    status_schema_is_checked_apart,
    strict_validation_of_built_in_kinds,
    list_map_keys_must_differ,
    formats_are_checked,
    rules_see_quantities_and_durations,
);

/// Installs a kind whose `spec` has this schema; returns the path of its collection and a maker of objects.
async fn kind(b: &Cluster, spec: &Value) -> (String, impl Fn(Value) -> Value + use<>) {
    kind_with(b, &json!({"type": "object", "properties": {"spec": spec}})).await
}

async fn kind_with(b: &Cluster, schema: &Value) -> (String, impl Fn(Value) -> Value + use<>) {
    let group = b.group();
    b.install(&definition(&group, "Thing", "Namespaced", schema)).await;
    let version = format!("{group}/v1");
    let at = format!("{version} things");
    (at, move |spec| json!({"apiVersion": version, "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}))
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// The message of a refused object without the part that all share.
fn errors(b: &Cluster, answer: crate::wire::Answer) -> String {
    let start = format!("Thing.{} \"a\" is invalid: ", b.group());
    let said = answer.body["message"].as_str().unwrap_or_default().to_owned();
    let short = said.strip_prefix(&start).unwrap_or_else(|| panic!("{}", answer.text)).to_owned();
    answer.refused(422, "Invalid", &said);
    short
}

async fn unknown_fields_are_pruned<B: Backend>() {
    let b = B::start().await;
    let (at, thing) =
        kind(&b, &object(&json!({"x": {"type": "integer"}, "deep": object(&json!({"y": {"type": "string"}}))}))).await;
    let mut sent = thing(json!({"x": 1, "z": 2, "deep": {"y": "a", "z": [1]}}));
    sent["other"] = json!(true);
    let made = b.post(&at, &sent).await.created();
    assert_eq!(made["spec"], json!({"x": 1, "deep": {"y": "a"}}));
    assert_eq!(made.get("other"), None);
}

async fn unknown_fields_can_be_preserved<B: Backend>() {
    let b = B::start().await;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"strict": object(&json!({}))}});
    let (at, thing) = kind(&b, &free).await;
    let made = b.post(&at, &thing(json!({"any": {"thing": [1, "a", null]}, "strict": {"gone": 1}}))).await.created();
    assert_eq!(made["spec"], json!({"any": {"thing": [1, "a", null]}, "strict": {}}));
}

async fn embedded_resources_keep_their_metadata<B: Backend>() {
    let b = B::start().await;
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": object(&json!({"x": {"type": "integer"}}))}});
    let (at, thing) = kind(&b, &object(&json!({"template": embedded}))).await;
    let inner =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "color": "red"}, "spec": {"x": 1, "y": 2}});
    let made = b.post(&at, &thing(json!({"template": inner}))).await.created();
    let want = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}});
    assert_eq!(made["spec"]["template"], want);
    let mut bad = thing(json!({"template": {"kind": "Pod", "metadata": {}}}));
    bad["metadata"]["name"] = json!("b");
    b.post(&at, &bad).await.refused_saying(422, "Invalid", "spec.template.apiVersion: Required value");
}

async fn defaults_are_filled_in<B: Backend>() {
    let b = B::start().await;
    let deep = json!({"type": "object", "default": {}, "properties": {"y": {"type": "string", "default": "why"}}});
    let (at, thing) = kind(&b, &object(&json!({"x": {"type": "integer", "default": 5}, "deep": deep}))).await;
    let made = b.post(&at, &thing(json!({}))).await.created();
    assert_eq!(made["spec"], json!({"x": 5, "deep": {"y": "why"}}));
    let now = b.merge(&format!("{at}/a"), &json!({"spec": {"x": 6}})).await.ok();
    assert_eq!(now["spec"]["x"], 6);
    let now = b.merge(&format!("{at}/a"), &json!({"spec": {"x": null}})).await.ok();
    assert_eq!(now["spec"]["x"], 5);
}

async fn defaults_are_not_filled_below_absent_objects<B: Backend>() {
    let b = B::start().await;
    let deep = object(&json!({"y": {"type": "string", "default": "why"}}));
    let items = json!({"type": "array", "items": deep});
    let (at, thing) = kind(&b, &object(&json!({"deep": deep, "list": items}))).await;
    let made = b.post(&at, &thing(json!({"list": [{}, {"y": "z"}]}))).await.created();
    assert_eq!(made["spec"], json!({"list": [{"y": "why"}, {"y": "z"}]}));
}

async fn null_takes_the_default<B: Backend>() {
    let b = B::start().await;
    let (at, thing) =
        kind(&b, &object(&json!({"x": {"type": "integer", "default": 5}, "y": {"type": "integer"}}))).await;
    let made = b.post(&at, &thing(json!({"x": null}))).await.created();
    assert_eq!(made["spec"], json!({"x": 5}));
    let mut bad = thing(json!({"y": null}));
    bad["metadata"]["name"] = json!("b");
    b.post(&at, &bad).await.created();
}

async fn nullable_null_stays<B: Backend>() {
    let b = B::start().await;
    let (at, thing) = kind(&b, &object(&json!({"x": {"type": "integer", "default": 5, "nullable": true}}))).await;
    let made = b.post(&at, &thing(json!({"x": null}))).await.created();
    assert_eq!(made["spec"], json!({"x": null}));
}

async fn types_are_checked<B: Backend>() {
    let b = B::start().await;
    let properties = json!({"whole": {"type": "integer"}, "flag": {"type": "boolean"}, "text": {"type": "string"},
        "list": {"type": "array", "items": {"type": "integer"}}, "number": {"type": "number"}});
    let (at, thing) = kind(&b, &object(&properties)).await;
    for (spec, want) in [
        (
            json!({"whole": "a"}),
            "spec.whole: Invalid value: \"string\": spec.whole in body must be of type integer: \"string\"",
        ),
        (
            json!({"whole": 1.5}),
            "spec.whole: Invalid value: \"number\": spec.whole in body must be of type integer: \"number\"",
        ),
        (
            json!({"flag": 1}),
            "spec.flag: Invalid value: \"integer\": spec.flag in body must be of type boolean: \"integer\"",
        ),
        (
            json!({"text": {}}),
            "spec.text: Invalid value: \"object\": spec.text in body must be of type string: \"object\"",
        ),
        (
            json!({"list": {"a": 1}}),
            "spec.list: Invalid value: \"object\": spec.list in body must be of type array: \"object\"",
        ),
        (
            json!({"list": [1, "b"]}),
            "spec.list[1]: Invalid value: \"string\": spec.list[1] in body must be of type integer: \"string\"",
        ),
        (json!([1]), "spec: Invalid value: \"array\": spec in body must be of type object: \"array\""),
    ] {
        let answer = b.post(&at, &thing(spec.clone())).await;
        assert_eq!(errors(&b, answer), want, "{spec}");
    }
    b.post(&at, &thing(json!({"whole": 2, "number": 3}))).await.created();
}

async fn required_fields_are_checked<B: Backend>() {
    let b = B::start().await;
    let mut spec = object(&json!({"x": {"type": "integer"}, "y": {"type": "string"}}));
    spec["required"] = json!(["x", "y"]);
    let (at, thing) = kind(&b, &spec).await;
    let answer = b.post(&at, &thing(json!({"y": "a"}))).await;
    assert_eq!(errors(&b, answer), "spec.x: Required value");
    let answer = b.post(&at, &thing(json!({}))).await;
    assert_eq!(errors(&b, answer), "[spec.x: Required value, spec.y: Required value]");
}

async fn enums_and_patterns_are_checked<B: Backend>() {
    let b = B::start().await;
    let text = json!({"color": {"type": "string", "enum": ["red", "blue"]}, "code": {"type": "string", "pattern": "^[a-z]+$"}});
    let (at, thing) = kind(&b, &object(&text)).await;
    let answer = b.post(&at, &thing(json!({"color": "green"}))).await;
    assert_eq!(errors(&b, answer), "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"");
    let answer = b.post(&at, &thing(json!({"code": "A1"}))).await;
    assert_eq!(errors(&b, answer), "spec.code: Invalid value: \"A1\": spec.code in body should match '^[a-z]+$'");
}

async fn bounds_are_checked<B: Backend>() {
    let b = B::start().await;
    let numbers =
        json!({"x": {"type": "integer", "minimum": 1, "maximum": 10}, "y": {"type": "integer", "multipleOf": 5}});
    let (at, thing) = kind(&b, &object(&numbers)).await;
    for (spec, want) in [
        (json!({"x": 0}), "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"),
        (json!({"x": 11}), "spec.x: Invalid value: 11: spec.x in body should be less than or equal to 10"),
        (json!({"y": 7}), "spec.y: Invalid value: 7: spec.y in body should be a multiple of 5"),
    ] {
        let answer = b.post(&at, &thing(spec)).await;
        assert_eq!(errors(&b, answer), want);
    }
}

async fn lengths_are_checked<B: Backend>() {
    let b = B::start().await;
    let properties = json!({"text": {"type": "string", "minLength": 2, "maxLength": 3},
        "list": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        "map": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}});
    let (at, thing) = kind(&b, &object(&properties)).await;
    for (spec, want) in [
        (json!({"text": "a"}), "spec.text: Invalid value: \"a\": spec.text in body should be at least 2 chars long"),
        (json!({"text": "abcd"}), "spec.text: Too long: may not be more than 3 bytes"),
        (json!({"list": []}), "spec.list: Invalid value: 0: spec.list in body should have at least 1 items"),
        (json!({"list": [1, 2, 3]}), "spec.list: Too many: 3: must have at most 2 items"),
        (json!({"map": {"a": "1", "b": "2"}}), "spec.map: Too many: 2: must have at most 1 item"),
    ] {
        let answer = b.post(&at, &thing(spec.clone())).await;
        assert_eq!(errors(&b, answer), want, "{spec}");
    }
}

async fn several_errors_are_all_told<B: Backend>() {
    let b = B::start().await;
    let (at, thing) =
        kind(&b, &object(&json!({"x": {"type": "integer", "minimum": 1}, "y": {"type": "string", "maxLength": 1}})))
            .await;
    let said = b.post(&at, &thing(json!({"x": 0, "y": "ab"}))).await;
    // In no particular order.
    let mut causes: Vec<String> = said.body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{} {}: {}", c["reason"], c["field"], c["message"]).replace('"', ""))
        .collect();
    causes.sort();
    assert_eq!(
        causes,
        [
            "FieldValueInvalid spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
            "FieldValueTooLong spec.y: Too long: may not be more than 1 byte",
        ]
    );
    assert_eq!(said.body["details"]["name"], "a");
    assert_eq!(said.body["details"]["kind"], "Thing");
    assert_eq!(said.body["details"]["group"], b.group());
    assert!(errors(&b, said).starts_with("[spec."));
}

async fn int_or_string_takes_both<B: Backend>() {
    let b = B::start().await;
    let (at, thing) =
        kind(&b, &object(&json!({"x": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%?$"}}))).await;
    for value in [json!(5), json!("5%")] {
        let made = b.post(&at, &thing(json!({"x": value}))).await.created();
        assert_eq!(made["spec"]["x"], value);
        b.delete(&format!("{at}/a")).await.ok();
    }
    let answer = b.post(&at, &thing(json!({"x": "many"}))).await;
    assert_eq!(errors(&b, answer), "spec.x: Invalid value: \"many\": spec.x in body should match '^[0-9]+%?$'");
}

async fn additional_properties_are_checked<B: Backend>() {
    let b = B::start().await;
    let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let (at, thing) = kind(&b, &object(&json!({"map": map}))).await;
    let made = b.post(&at, &thing(json!({"map": {"a": 1, "b": 2}}))).await.created();
    assert_eq!(keys(&made["spec"]["map"]).len(), 2);
    let answer = b.merge(&format!("{at}/a"), &json!({"spec": {"map": {"a": "x"}}})).await;
    assert_eq!(
        errors(&b, answer),
        "spec.map.a: Invalid value: \"string\": spec.map.a in body must be of type integer: \"string\""
    );
}

fn ruled(properties: &Value, rules: &Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
}

async fn rules_are_checked<B: Backend>() {
    let b = B::start().await;
    let whole = json!({"type": "integer"});
    let spec = ruled(
        &json!({"min": whole, "max": whole}),
        &json!([{"rule": "self.min <= self.max", "message": "min is above max"}, {"rule": "self.max < 100"}]),
    );
    let (at, thing) = kind(&b, &spec).await;
    let answer = b.post(&at, &thing(json!({"min": 5, "max": 3}))).await;
    assert_eq!(errors(&b, answer), "spec: Invalid value: min is above max");
    let answer = b.post(&at, &thing(json!({"min": 5, "max": 300}))).await;
    assert_eq!(errors(&b, answer), "spec: Invalid value: failed rule: self.max < 100");
    let answer = b.post(&at, &thing(json!({"min": 5}))).await;
    assert!(errors(&b, answer).contains("no such key: max evaluating rule: min is above max"));
    b.post(&at, &thing(json!({"min": 1, "max": 3}))).await.created();
}

async fn rules_with_their_own_message_and_reason<B: Backend>() {
    let b = B::start().await;
    let whole = json!({"type": "integer"});
    let spec = ruled(
        &json!({"x": whole, "y": whole}),
        &json!([
        {"rule": "self.x < 10", "messageExpression": "self.x > 20 ? 'x is far too big' : 'x is too big'", "fieldPath": ".x", "reason": "FieldValueForbidden"}]),
    );
    let (at, thing) = kind(&b, &spec).await;
    let answer = b.post(&at, &thing(json!({"x": 12}))).await;
    assert_eq!(errors(&b, answer), "spec.x: Forbidden: x is too big");
}

async fn transition_rules_are_checked_on_update<B: Backend>() {
    let b = B::start().await;
    let x = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "x is immutable"}]});
    let (at, thing) = kind(&b, &object(&json!({"x": x, "y": {"type": "integer"}}))).await;
    b.post(&at, &thing(json!({"x": 1}))).await.created();
    b.merge(&format!("{at}/a"), &json!({"spec": {"y": 1}})).await.ok();
    let answer = b.merge(&format!("{at}/a"), &json!({"spec": {"x": 2}})).await;
    assert_eq!(errors(&b, answer), "spec.x: Invalid value: 2: x is immutable");
    b.merge(&format!("{at}/a"), &json!({"spec": {"x": null}})).await.ok();
}

async fn rules_of_list_elements_name_the_index<B: Backend>() {
    let b = B::start().await;
    let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "bad"}], "maxLength": 10});
    let map = json!({"type": "object", "maxProperties": 5, "additionalProperties": item});
    let (at, thing) =
        kind(&b, &object(&json!({"list": {"type": "array", "maxItems": 5, "items": item}, "map": map}))).await;
    let answer = b.post(&at, &thing(json!({"list": ["a", "bad"], "map": {"k.x": "bad"}}))).await;
    let said = errors(&b, answer);
    let mut each: Vec<&str> = said.trim_matches(['[', ']']).split(", ").collect();
    each.sort_unstable();
    assert_eq!(each, ["spec.list[1]: Invalid value: \"bad\": bad", "spec.map[k.x]: Invalid value: \"bad\": bad"]);
}

async fn optional_old_self_is_seen_on_create<B: Backend>() {
    let b = B::start().await;
    let rule =
        json!([{"rule": "oldSelf.hasValue() || self.x == 1", "optionalOldSelf": true, "message": "starts at one"}]);
    let (at, thing) = kind(&b, &ruled(&json!({"x": {"type": "integer"}}), &rule)).await;
    let answer = b.post(&at, &thing(json!({"x": 2}))).await;
    assert_eq!(errors(&b, answer), "spec: Invalid value: starts at one");
    b.post(&at, &thing(json!({"x": 1}))).await.created();
    b.merge(&format!("{at}/a"), &json!({"spec": {"x": 2}})).await.ok();
}

/// A kind, an object of it that a later, stricter schema does not allow, and that schema in force.
async fn ratcheted(b: &Cluster) -> String {
    let group = b.group();
    let (at, thing) = kind(b, &object(&json!({"x": {"type": "integer"}, "y": {"type": "integer"}, "list": {"type": "array", "items": {"type": "integer"}}}))).await;
    b.post(&at, &thing(json!({"x": 50, "list": [50, 1]}))).await.created();
    let spec = json!({"type": "object", "properties": {"x": {"type": "integer", "maximum": 10}, "y": {"type": "integer"}, "late": {"type": "string"},
        "list": {"type": "array", "items": {"type": "integer", "maximum": 10}}},
        "x-kubernetes-validations": [{"rule": "!has(self.x) || self.x < 20", "message": "x is too big"}]});
    let patch =
        json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec", "value": spec}]);
    b.json_patch(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}"), &patch).await.ok();
    let mut bad = thing(json!({"x": 11}));
    bad["metadata"]["name"] = json!("probe");
    crate::watching::eventually("the new schema is in force", async || {
        (b.post(&format!("{at}?dryRun=All"), &bad).await.code == 422).then_some(())
    })
    .await;
    at
}

async fn unchanged_bad_values_pass<B: Backend>() {
    let b = B::start().await;
    let at = ratcheted(&b).await;
    let now = b.merge(&format!("{at}/a"), &json!({"metadata": {"labels": {"l": "v"}}})).await.ok();
    assert_eq!(now["spec"]["x"], 50);
}

async fn changed_bad_values_do_not_pass<B: Backend>() {
    let b = B::start().await;
    let at = ratcheted(&b).await;
    let answer = b.merge(&format!("{at}/a"), &json!({"spec": {"x": 51}})).await;
    let said = errors(&b, answer);
    assert!(said.contains("spec.x: Invalid value: 51: spec.x in body should be less than or equal to 10"), "{said}");
    assert!(said.contains("x is too big"), "{said}");
    // The rule covers the whole spec, which changes here; the bound covers only x, which does not.
    let answer = b.merge(&format!("{at}/a"), &json!({"spec": {"y": 1}})).await;
    let said = errors(&b, answer);
    assert!(!said.contains("less than or equal to 10"), "{said}");
    assert!(said.contains("x is too big"), "{said}");
    b.merge(&format!("{at}/a"), &json!({"spec": {"x": 5}})).await.ok();
}

async fn strict_requests_are_refused<B: Backend>() {
    let b = B::start().await;
    let (at, thing) = kind(&b, &object(&json!({"x": {"type": "integer"}}))).await;
    b.post(&format!("{at}?fieldValidation=Strict"), &thing(json!({"x": 1, "y": 2}))).await.refused(
        400,
        "BadRequest",
        "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \"spec.y\"",
    );
    b.post(&at, &thing(json!({"x": 1}))).await.created();
    b.merge(&format!("{at}/a?fieldValidation=Strict"), &json!({"spec": {"z": 2}})).await.refused_saying(
        422,
        "Invalid",
        "strict decoding error: unknown field \"spec.z\"",
    );
    b.post(&format!("{at}?fieldValidation=Maybe"), &thing(json!({}))).await.refused(
        422,
        "Invalid",
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Maybe\": supported values: \"\", \
         \"Ignore\", \"Strict\", \"Warn\"",
    );
}

async fn duplicate_fields_are_told<B: Backend>() {
    let b = B::start().await;
    let body = br#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1", "k": "2"}}"#;
    let head = [("content-type", "application/json")];
    let answer = b.send(http::Method::POST, "configmaps?fieldValidation=Strict", &head, body.to_vec()).await;
    answer.refused(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \"data.k\"",
    );
    let answer = b.send(http::Method::POST, "configmaps?fieldValidation=Warn", &head, body.to_vec()).await;
    assert_eq!(answer.warnings(), ["duplicate field \"data.k\""]);
    assert_eq!(answer.created()["data"]["k"], "2", "the last one counts");
}

async fn warnings_about_unknown_fields<B: Backend>() {
    let b = B::start().await;
    let (at, thing) = kind(&b, &object(&json!({"x": {"type": "integer"}}))).await;
    let answer = b.post(&format!("{at}?fieldValidation=Warn"), &thing(json!({"x": 1, "y": 2}))).await;
    assert_eq!(answer.warnings(), ["unknown field \"spec.y\""]);
    answer.created();
    let answer = b.merge(&format!("{at}/a?fieldValidation=Ignore"), &json!({"spec": {"y": 2}})).await;
    assert_eq!(answer.warnings(), [""; 0]);
}

async fn metadata_is_pruned_and_checked<B: Backend>() {
    let b = B::start().await;
    let (at, thing) = kind(&b, &object(&json!({}))).await;
    let mut sent = thing(json!({}));
    sent["metadata"]["color"] = json!("red");
    let made = b.post(&at, &sent).await.created();
    assert_eq!(made["metadata"].get("color"), None);
    sent["metadata"] = json!({"name": "b", "labels": {"a": 1}});
    b.post(&at, &sent).await.refused_saying(
        400,
        "BadRequest",
        "cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
    );
    sent["metadata"] = json!({"name": "b", "labels": {"a": "not valid"}});
    b.post(&at, &sent).await.refused_saying(422, "Invalid", "metadata.labels: Invalid value: \"not valid\"");
}

async fn status_schema_is_checked_apart<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let bounded = json!({"type": "object", "properties": {"x": {"type": "integer", "maximum": 10}}});
    let mut crd = definition(
        &group,
        "Thing",
        "Namespaced",
        &json!({"type": "object", "properties": {"spec": bounded, "status": bounded}}),
    );
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    b.install(&crd).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"x": 99}});
    b.post(&format!("{group}/v1 things"), &thing).await.created();
    let answer = b.merge(&format!("{group}/v1 things/a/status"), &json!({"status": {"x": 11}})).await;
    assert_eq!(errors(&b, answer), "status.x: Invalid value: 11: x in body should be less than or equal to 10");
    let now = b.merge(&format!("{group}/v1 things/a/status"), &json!({"status": {"x": 9, "y": 1}})).await.ok();
    assert_eq!(now["status"], json!({"x": 9}));
}

async fn strict_validation_of_built_in_kinds<B: Backend>() {
    let b = B::start().await;
    let mut object = crate::objects::pod("a");
    object["spec"]["colour"] = json!("red");
    object["spec"]["containers"][0]["size"] = json!(1);
    b.post("pods?fieldValidation=Strict", &object).await.refused(
        400,
        "BadRequest",
        "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.colour\", unknown \
         field \"spec.containers[0].size\"",
    );
    let answer = b.post("pods?fieldValidation=Warn", &object).await;
    assert_eq!(answer.warnings(), ["unknown field \"spec.colour\"", "unknown field \"spec.containers[0].size\""]);
    let made = answer.created();
    assert_eq!(made["spec"].get("colour"), None);
}

async fn list_map_keys_must_differ<B: Backend>() {
    let b = B::start().await;
    let item = json!({"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}});
    let list =
        json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]});
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let (at, thing) = kind(&b, &json!({"type": "object", "properties": {"list": list, "set": set}})).await;
    let answer = b.post(&at, &thing(json!({"list": [{"key": "a"}, {"key": "a"}]}))).await;
    assert_eq!(errors(&b, answer), "spec.list[1]: Duplicate value: {\"key\":\"a\"}");
    let answer = b.post(&at, &thing(json!({"set": ["a", "b", "a"]}))).await;
    assert_eq!(errors(&b, answer), "spec.set[2]: Duplicate value: \"a\"");
}

async fn formats_are_checked<B: Backend>() {
    let b = B::start().await;
    let properties = json!({"when": {"type": "string", "format": "date-time"}, "small": {"type": "integer", "format": "int32"}, "odd": {"type": "string", "format": "nonsense"}});
    let (at, thing) = kind(&b, &object(&properties)).await;
    let answer = b.post(&at, &thing(json!({"when": "yesterday"}))).await;
    assert_eq!(
        errors(&b, answer),
        "spec.when: Invalid value: \"yesterday\": spec.when in body must be of type date-time: \"yesterday\""
    );
    let made = b.post(&at, &thing(json!({"when": "2026-01-02T03:04:05Z", "small": 7, "odd": "x"}))).await.created();
    assert_eq!(made["spec"]["odd"], "x", "unknown formats are ignored");
}

async fn rules_see_quantities_and_durations<B: Backend>() {
    let b = B::start().await;
    let text = json!({"type": "string", "maxLength": 50});
    let rules = json!([
        {"rule": "!has(self.q) || quantity(self.q).isLessThan(quantity('1Gi'))", "message": "q is too big"},
        {"rule": "!has(self.d) || duration(self.d) >= duration('1m')", "message": "d is too short"}]);
    let (at, thing) = kind(&b, &ruled(&json!({"q": text, "d": text}), &rules)).await;
    let answer = b.post(&at, &thing(json!({"q": "2Gi", "d": "30s"}))).await;
    assert_eq!(errors(&b, answer), "[spec: Invalid value: q is too big, spec: Invalid value: d is too short]");
    b.post(&at, &thing(json!({"q": "512Mi", "d": "90s"}))).await.created();
}
