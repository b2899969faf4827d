//! Label and field selectors.

use serde_json::json;

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{labelled, names, pod, pod_on};

on_every_backend!(
    label_selectors_select,
    bad_label_selectors_are_refused,
    pods_are_selected_by_their_fields,
    nodes_are_selected_by_unschedulable,
    events_are_selected_by_their_object,
    secrets_are_selected_by_type,
    unknown_field_labels_are_refused,
    malformed_field_selectors_are_refused,
    custom_resources_are_selected_by_declared_fields,
    namespaces_are_selected_by_phase,
    label_and_field_selectors_are_both_applied,
);

async fn selected(b: &Cluster, selector: &str) -> String {
    let query: String = form(selector);
    names(&b.get(&format!("configmaps?labelSelector={query}")).await.ok()).join(" ")
}

/// Percent-encodes what a query may not carry.
fn form(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() || b == b'.' { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn label_selectors_select<B: Backend>() {
    let b = B::start().await;
    for (name, labels) in [
        ("a", json!({"tier": "web", "zone": "1"})),
        ("b", json!({"tier": "db", "zone": "2"})),
        ("c", json!({"tier": "db"})),
        ("d", json!({"example.com/x": "", "zone": "10"})),
    ] {
        b.post("configmaps", &labelled(name, &labels)).await.created();
    }
    for (selector, want) in [
        ("", "a b c d"),
        ("tier=web", "a"),
        ("tier==web", "a"),
        ("tier!=web", "b c d"),
        ("tier in (web,db)", "a b c"),
        ("tier in (web, db),zone", "a b"),
        ("tier notin (db)", "a d"),
        ("tier", "a b c"),
        ("!tier", "d"),
        ("zone>1", "b d"),
        ("zone<2", "a"),
        ("example.com/x=", "d"),
        ("example.com/x", "d"),
        ("tier=web,tier=db", ""),
        ("tier in ()", ""),
        ("tier,!zone", "c"),
        (" tier = web , zone = 1 ", "a"),
    ] {
        assert_eq!(selected(&b, selector).await, want, "{selector}");
    }
}

async fn bad_label_selectors_are_refused<B: Backend>() {
    let b = B::start().await;
    for (selector, message) in [
        ("tier in web", "unable to parse requirement: found 'web' expected: '('"),
        ("a=b,,c", "found ',', expected: identifier after ','"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("zone>x", "Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
    ] {
        let answer = b.get(&format!("configmaps?labelSelector={}", form(selector))).await;
        answer.refused_saying(400, "BadRequest", message);
    }
}

async fn pods_are_selected_by_their_fields<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    b.post("pods", &pod_on("b", "n1")).await.created();
    let mut never = pod_on("c", "n2");
    never["spec"]["restartPolicy"] = json!("Never");
    never["spec"]["schedulerName"] = json!("mine");
    b.post("pods", &never).await.created();
    b.merge(
        "pods/b/status",
        &json!({"status": {"phase": "Running", "podIP": "10.9.8.7", "podIPs": [{"ip": "10.9.8.7"}]}}),
    )
    .await
    .ok();
    for (selector, want) in [
        ("spec.nodeName=n1", "b"),
        ("spec.nodeName=", "a"),
        ("spec.nodeName!=", "b c"),
        ("spec.nodeName!=n1", "a c"),
        ("status.phase=Running", "b"),
        ("status.phase=Pending", "a c"),
        ("status.phase!=Pending,status.phase!=Failed", "b"),
        ("spec.restartPolicy=Never", "c"),
        ("spec.schedulerName=mine", "c"),
        ("status.podIP=10.9.8.7", "b"),
        ("metadata.name=a", "a"),
        ("metadata.name=a,status.phase=Running", ""),
        ("spec.nodeName==n2", "c"),
    ] {
        let list = b.get(&format!("pods?fieldSelector={}", form(selector))).await.ok();
        assert_eq!(names(&list).join(" "), want, "{selector}");
    }
    let query = format!("metadata.namespace={}", b.namespace());
    let list = b.get(&format!("/api/v1/pods?fieldSelector={}", form(&query))).await.ok();
    assert_eq!(names(&list), ["a", "b", "c"]);
}

async fn nodes_are_selected_by_unschedulable<B: Backend>() {
    let b = B::start().await;
    let (open, closed) = (b.name("open"), b.name("closed"));
    let mark = b.name("mark");
    b.post("/api/v1/nodes", &json!({"metadata": {"name": open, "labels": {"mark": mark}}})).await.created();
    let object = json!({"metadata": {"name": closed, "labels": {"mark": mark}}, "spec": {"unschedulable": true}});
    b.post("/api/v1/nodes", &object).await.created();
    for (value, want) in [("true", &closed), ("false", &open)] {
        let query = format!("labelSelector=mark%3D{mark}&fieldSelector=spec.unschedulable%3D{value}");
        assert_eq!(names(&b.get(&format!("/api/v1/nodes?{query}")).await.ok()), [want.as_str()], "{value}");
    }
}

async fn events_are_selected_by_their_object<B: Backend>() {
    let b = B::start().await;
    for (name, kind, reason, of) in
        [("x", "Normal", "Scheduled", "a"), ("y", "Warning", "Failed", "a"), ("z", "Normal", "Failed", "b")]
    {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "type": kind, "reason": reason,
            "message": "m", "source": {"component": "tester"},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": of, "namespace": b.namespace(), "uid": format!("u{of}")}});
        b.post("events", &event).await.created();
    }
    for (selector, want) in [
        ("involvedObject.name=a", "x y"),
        ("involvedObject.name=a,type=Warning", "y"),
        ("reason=Failed", "y z"),
        ("involvedObject.kind=Pod,involvedObject.uid=ub", "z"),
        ("source=tester", "x y z"),
        ("reportingComponent=tester", ""),
    ] {
        let list = b.get(&format!("events?fieldSelector={}", form(selector))).await.ok();
        assert_eq!(names(&list).join(" "), want, "{selector}");
    }
}

async fn secrets_are_selected_by_type<B: Backend>() {
    let b = B::start().await;
    b.post("secrets", &json!({"metadata": {"name": "a"}})).await.created();
    b.post("secrets", &json!({"metadata": {"name": "b"}, "type": "example.com/own"})).await.created();
    assert_eq!(names(&b.get("secrets?fieldSelector=type%3DOpaque").await.ok()), ["a"]);
    assert_eq!(names(&b.get("secrets?fieldSelector=type%21%3DOpaque").await.ok()), ["b"]);
}

async fn unknown_field_labels_are_refused<B: Backend>() {
    let b = B::start().await;
    b.get("pods?fieldSelector=spec.color%3Dred").await.refused(
        400,
        "BadRequest",
        "field label not supported: spec.color",
    );
    b.get("apps/v1 deployments?fieldSelector=spec.replicas%3D1").await.refused_saying(
        400,
        "BadRequest",
        "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    );
}

async fn malformed_field_selectors_are_refused<B: Backend>() {
    let b = B::start().await;
    b.get("pods?fieldSelector=metadata.name").await.refused_saying(
        400,
        "BadRequest",
        "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
    );
}

async fn custom_resources_are_selected_by_declared_fields<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}});
    let mut crd = crate::objects::definition(&group, "Thing", "Namespaced", &schema);
    crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    b.install(&crd).await;
    let things = format!("{group}/v1 things");
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}, "spec": {"color": color}});
        b.post(&things, &thing).await.created();
    }
    let list = b.get(&format!("{things}?fieldSelector=spec.color%3Dred")).await.ok();
    assert_eq!(names(&list), ["a", "c"]);
    let list = b.get(&format!("{things}?fieldSelector=metadata.name%21%3Da")).await.ok();
    assert_eq!(names(&list), ["b", "c"]);
    b.get(&format!("{things}?fieldSelector=spec.size%3D1")).await.refused_saying(
        400,
        "BadRequest",
        "field label not supported: spec.size",
    );
}

async fn namespaces_are_selected_by_phase<B: Backend>() {
    let b = B::start().await;
    let list = b.get("/api/v1/namespaces?fieldSelector=status.phase%3DActive").await.ok();
    assert!(names(&list).contains(&b.namespace()));
    let query = format!("fieldSelector=status.phase%3DTerminating%2Cmetadata.name%3D{}", b.namespace());
    assert_eq!(names(&b.get(&format!("/api/v1/namespaces?{query}")).await.ok()), [""; 0]);
}

async fn label_and_field_selectors_are_both_applied<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &labelled("a", &json!({"x": "1"}))).await.created();
    b.post("configmaps", &labelled("b", &json!({"x": "1"}))).await.created();
    let list = b.get("configmaps?labelSelector=x%3D1&fieldSelector=metadata.name%3Db").await.ok();
    assert_eq!(names(&list), ["b"]);
}
