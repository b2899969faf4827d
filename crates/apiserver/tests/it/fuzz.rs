//! Whatever is sent, nothing panics, and every refusal is a Status.

mod request;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use self::request::{Raw, check_all};

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(vec![
            "api", "apis", "v1", "apps", "policy", "example.com", "apiextensions.k8s.io", "namespaces", "default", "pods", "nodes",
            "configmaps", "deployments", "poddisruptionbudgets", "things", "customresourcedefinitions", "things.example.com",
            "events", "leases", "watch", "a", "status", "scale", "eviction", "binding", "finalize", "openapi", "v2", "v3", "version",
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,12}",
        1 => "(%[0-9A-Fa-f]{2}|%|[a-z]){1,4}",
    ]
}

/// Mostly paths that lead somewhere.
fn path() -> impl Strategy<Value = String> {
    let object = select(vec![
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/pods/a",
        "/api/v1/namespaces/default/pods/a/status",
        "/api/v1/namespaces/default/pods/a/eviction",
        "/api/v1/namespaces/default/pods/a/binding",
        "/api/v1/pods",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/nodes",
        "/api/v1/nodes/a",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces",
        "/apis/apps/v1/namespaces/default/deployments/a",
        "/apis/apps/v1/namespaces/default/deployments/a/scale",
        "/apis/example.com/v1/things",
        "/apis/example.com/v1/things/a",
        "/apis/example.com/v1/things/a/scale",
        "/apis/example.com/v1/things/a/status",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets/a",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/apis",
        "/api",
        "/",
    ])
    .prop_map(str::to_owned);
    prop_oneof![4 => object, 1 => vec(word(), 0..7).prop_map(|w| format!("/{}", w.join("/")))]
}

fn parameter() -> impl Strategy<Value = String> {
    let name = select(vec![
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "timeoutSeconds",
        "allowWatchBookmarks",
        "sendInitialEvents",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "gracePeriodSeconds",
        "propagationPolicy",
        "includeObject",
        "orphanDependents",
        "pretty",
    ]);
    let value = prop_oneof![
        3 => select(vec!["true", "false", "0", "1", "5", "-1", "99999999999999999999", "All", "Strict", "Exact", "NotOlderThan", "m",
            "a%3Db", "metadata.name%3Da", "a%20in%20(b)", "!a", "%21a", "Foreground", "Orphan", "Background", "Object", ""]).prop_map(str::to_owned),
        1 => "[!-~]{0,10}",
    ];
    (name, value).prop_map(|(n, v)| format!("{n}={v}"))
}

fn leaf() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[ -~]{0,8}".prop_map(Into::into),
        select(vec![
            "a",
            "v1",
            "apps/v1",
            "Pod",
            "ConfigMap",
            "Thing",
            "example.com/v1",
            "delete",
            "replace",
            "/data/k",
            "/metadata/labels/-",
            "add",
            "remove",
            "test",
            "move",
            "2026-01-01T00:00:00Z",
            "example.com/x",
            "1Gi"
        ])
        .prop_map(Into::into),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(vec![
            "apiVersion", "kind", "metadata", "name", "namespace", "generateName", "labels", "annotations", "finalizers", "ownerReferences",
            "resourceVersion", "uid", "managedFields", "deletionTimestamp", "spec", "status", "data", "x", "list", "k", "containers", "image",
            "replicas", "selector", "matchLabels", "template", "$patch", "$setElementOrder/containers", "$retainKeys", "$deleteFromPrimitiveList/finalizers",
            "op", "path", "from", "value", "target", "deleteOptions", "preconditions", "gracePeriodSeconds", "tolerations", "conditions", "type",
            "versions", "schema", "openAPIV3Schema", "properties", "items", "group", "names", "scope", "minAvailable", "env", "ports",
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,6}",
    ]
}

fn document() -> impl Strategy<Value = serde_json::Value> {
    leaf().prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            2 => vec((key(), inner.clone()), 0..6).prop_map(|pairs| pairs.into_iter().collect()),
            1 => vec(inner, 0..4).prop_map(Into::into),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => document().prop_map(|d| d.to_string().into_bytes()),
        // An object that would pass, with one part of it taken by chance.
        4 => (key(), document()).prop_map(|(k, d)| {
            let mut pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let places = ["", "/metadata", "/spec", "/spec/containers/0"];
            let place = pod.pointer_mut(places[k.len() % 4]).unwrap();
            place[k] = d;
            pod.to_string().into_bytes()
        }),
        1 => vec(any::<u8>(), 0..40),
        1 => "[ -~\n]{0,60}".prop_map(String::into_bytes),
    ]
}

prop_compose! {
    fn raw()(
        method in prop_oneof![6 => select(vec!["GET", "POST", "PUT", "PATCH", "DELETE"]).prop_map(str::to_owned), 1 => "[A-Z]{1,7}"],
        path in path(),
        parameters in vec(parameter(), 0..4),
        content_type in select(vec!["", "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json",
            "application/json-patch+json", "application/apply-patch+yaml", "application/yaml", "application/vnd.kubernetes.protobuf", "text/html", ";"]),
        accept in select(vec!["", "application/json", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"]),
        body in body(),
    ) -> Raw {
        let target = if parameters.is_empty() { path } else { format!("{path}?{}", parameters.join("&")) };
        Raw { method, target, content_type: content_type.to_owned(), accept: accept.to_owned(), body }
    }
}

proptest! {
    #[test]
    fn every_request_is_answered(raws in vec(raw(), 1..12)) {
        check_all(&raws);
    }
}

#[test]
fn requests_are_read_from_bytes() {
    let raw = Raw::parse(b"GET\n/api/v1/pods?limit=1\napplication/json\n*/*\nbody\nwith lines");
    assert_eq!((raw.method.as_str(), raw.target.as_str()), ("GET", "/api/v1/pods?limit=1"));
    assert_eq!((raw.accept.as_str(), raw.body.as_slice()), ("*/*", b"body\nwith lines".as_slice()));
    check_all(&[
        raw,
        Raw::parse(b""),
        Raw::parse(b"\n\n\n\n\n"),
        Raw::parse(b"POST\n/api/v1/namespaces/default/pods\n\n\n{"),
    ]);
}
