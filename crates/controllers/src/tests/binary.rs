//! Pods from a server that speaks protobuf, and what happens when it says something odd.

use std::sync::{Arc, Mutex};

use http::{Request, Response, header};
use karpenter_testkit::protobuf;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::desk::{Desk, context_through};

fn pod(name: &str, version: u32, ready: bool) -> Vec<u8> {
    let status = if ready { "True" } else { "False" };
    protobuf::pod(&json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version.to_string()},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}}))
}

/// What is answered one after the other to whoever asks for pods, and what is expected in the question.
fn script() -> Vec<(&'static str, u16, Vec<u8>)> {
    let event = |type_: &str, object: &[u8]| protobuf::event(type_, "Pod", object);
    let mut broken = event("MODIFIED", &pod("b", 12, false));
    let magic = broken.windows(4).position(|bytes| bytes == b"k8s\0").unwrap();
    broken[magic] = b'?';
    let gone = protobuf::status(410, "Expired", "too old resource version");
    vec![
        ("limit=500", 200, protobuf::pod_list([pod("a", 1, true)], "10", "more")),
        ("continue=more", 200, protobuf::pod_list([pod("b", 2, false)], "10", "")),
        ("resourceVersion=10", 200, [event("MODIFIED", &pod("b", 11, true)), broken].concat()),
        // What was said is not known: b may be gone, and is.
        ("limit=500", 200, protobuf::pod_list([pod("a", 1, true), pod("c", 13, true)], "20", "")),
        (
            "resourceVersion=20",
            200,
            [event("DELETED", &pod("a", 21, true)), event("BOOKMARK", &pod("", 50, true))].concat(),
        ),
        ("resourceVersion=50", 200, protobuf::event("ERROR", "Status", &gone)),
        ("limit=500", 500, protobuf::wrapped("Status", &protobuf::status(500, "InternalError", "etcd is slow"))),
        ("limit=500", 200, protobuf::pod_list([pod("c", 13, false)], "60", "")),
        // A frame that has not come to its end when the connection does is asked for again.
        ("resourceVersion=60", 200, event("ADDED", &pod("d", 61, true))[..30].to_vec()),
        ("resourceVersion=60", 410, protobuf::wrapped("Status", &gone)),
        ("limit=500", 200, protobuf::pod_list([pod("c", 13, true), pod("d", 61, true)], "70", "")),
    ]
}

/// SCH-242: what cannot be understood is never left out; the pods are listed again.
#[tokio::test(start_paused = true)]
async fn a_server_that_speaks_protobuf() {
    let desk = Desk::start().await;
    let (seen, answers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(script().into_iter())));
    let noted = seen.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = if request.uri().path() == "/api/v1/pods" {
            let accept = request.headers()[header::ACCEPT].to_str().unwrap().to_owned();
            let query = request.uri().query().unwrap().to_owned();
            assert_eq!(accept.contains("stream=watch"), query.contains("watch=true"));
            assert!(
                accept.starts_with("application/vnd.kubernetes.protobuf") && accept.ends_with(", application/json")
            );
            answers.lock().unwrap().next().inspect(|(expected, ..)| {
                assert!(query.contains(expected), "{query}: {expected}");
                noted.lock().unwrap().push(query);
            })
        } else {
            None
        };
        let (_, code, bytes) = answer.unwrap_or(("", 503, Vec::new()));
        let response =
            Response::builder().status(code).header(header::CONTENT_TYPE, "application/vnd.kubernetes.protobuf");
        std::future::ready(Ok::<_, std::convert::Infallible>(response.body(Body::from(bytes)).unwrap()))
    });
    let ctx = context_through(&desk, &Client::new(service, "default"));
    let running = tokio::spawn(crate::watches::run(ctx.clone()));
    desk.wait(60).await;
    running.abort();
    assert_eq!(seen.lock().unwrap().len(), script().len(), "{seen:?}");
    let mut pods: Vec<String> = ctx.state().pods().iter().map(|pod| format!("{} {}", pod.id.name, pod.ready)).collect();
    pods.sort();
    assert_eq!(pods, ["c true", "d true"]);
}
