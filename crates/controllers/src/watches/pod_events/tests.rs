use std::fmt::Write as _;

use karpenter_testkit::protobuf;
use serde_json::json;

use super::*;

fn pod(name: &str) -> Vec<u8> {
    protobuf::pod(&json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": "7"}}))
}

/// What a watch brings, with `at` bytes at a time.
fn heard(form: Form, stream: &[u8], at: usize) -> Result<Vec<String>, Unreadable> {
    let (mut frames, mut reader, mut said) = (Frames::new(form), WireReader::default(), Vec::new());
    for chunk in stream.chunks(at) {
        frames.put(chunk);
        while let Some(frame) = frames.cut()? {
            said.push(match form.event(frame, &mut reader)? {
                PodEvent::Applied(object) => format!("{} at {}", object.id(), object.version),
                PodEvent::Gone(object) => format!("{} gone at {}", object.id(), object.version),
                PodEvent::Bookmark(version) => format!("up to {version}"),
                PodEvent::Failed(status) => format!("{} {}: {}", status.code, status.reason, status.message),
            });
        }
    }
    Ok(said)
}

#[test]
fn events_are_the_same_in_either_form_and_in_any_pieces() {
    let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"}});
    let mut lines = String::new();
    for type_ in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] {
        writeln!(lines, "{}", json!({"type": type_, "object": object})).unwrap();
    }
    let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
    writeln!(lines, "{}\n{status}", json!({"type": "ERROR", "object": status})).unwrap();
    let mut frames =
        ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"].map(|type_| protobuf::event(type_, "Pod", &pod("web"))).concat();
    for _ in 0..2 {
        frames.extend(protobuf::event("ERROR", "Status", &protobuf::status(410, "Expired", "too old")));
    }
    let want = [
        "shop/web at 7",
        "shop/web at 7",
        "shop/web gone at 7",
        "up to 7",
        "410 Expired: too old",
        "410 Expired: too old",
    ];
    for at in [1, 3, 50, 10_000] {
        assert_eq!(heard(Form::Json, lines.as_bytes(), at).unwrap(), want, "{at}");
        assert_eq!(heard(Form::Protobuf, &frames, at).unwrap(), want, "{at}");
    }
}

#[test]
fn what_is_no_event_is_an_error() {
    let event = protobuf::event("ADDED", "Pod", &pod("web"));
    let other = protobuf::event("RENAMED", "Pod", &pod("web"));
    let mut magic = event.clone();
    let at = magic.windows(4).position(|bytes| bytes == b"k8s\0").unwrap();
    magic[at] = b'K';
    for (name, form, stream, want) in [
        ("cut off", Form::Protobuf, &event[..event.len() - 1], None),
        ("of an unknown type", Form::Protobuf, &other[..], Some("an event is of no known type")),
        ("another format", Form::Protobuf, &magic, Some("it does not begin as objects of Kubernetes do")),
        ("JSON", Form::Protobuf, b"{\"type\":\"ADDED\"}", Some("2065855609 bytes for one event are too many")),
        ("protobuf", Form::Json, b"\0\0\0\x01\n", Some("expected value at line 1 column 1")),
    ] {
        let heard = heard(form, stream, 7);
        let error = heard.err().map(|error| std::error::Error::source(&error).unwrap().to_string());
        assert_eq!(error.as_deref(), want, "{name}");
    }
}

#[test]
fn a_page_is_the_same_in_either_form() {
    let pods = ["a", "b"].map(|name| json!({"metadata": {"name": name, "namespace": "shop"}}));
    let json =
        json!({"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "x"}, "items": pods}).to_string();
    let wire = protobuf::pod_list(pods.iter().map(protobuf::pod), "9", "x");
    for (form, bytes) in [(Form::Json, json.as_bytes()), (Form::Protobuf, &wire)] {
        let mut names = Vec::new();
        let page = form.page(bytes, &mut WireReader::default(), |object| names.push(object.id().to_string())).unwrap();
        assert_eq!(page, Page { rest: Some("x".to_owned()), version: Some("9".to_owned()) });
        assert_eq!(names, ["shop/a", "shop/b"]);
    }
    let last = protobuf::pod_list([], "9", "");
    let page = Form::Protobuf.page(&last, &mut WireReader::default(), |_| ()).unwrap();
    assert_eq!(page.rest, None);
    // The envelope ends with two empty fields; whatever is cut off before them leaves the list without its end.
    for cut in 0..wire.len() - 4 {
        let read = Form::Protobuf.page(&wire[..cut], &mut WireReader::default(), |_| ());
        assert!(read.is_err() || cut <= EMPTY, "{cut}");
    }
}

/// The magic, and the kind.
const EMPTY: usize = 4 + 2 + 13;

#[test]
fn what_a_server_says_instead_is_read_in_either_form() {
    let wire = protobuf::wrapped("Status", &protobuf::status(403, "Forbidden", "no"));
    let json = br#"{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}"#;
    for (form, bytes) in [(Form::Json, &json[..]), (Form::Protobuf, &wire)] {
        let status = form.status(bytes).unwrap();
        assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (403, "Forbidden", "no"));
    }
    assert!(Form::Protobuf.status(b"gateway").is_none() && Form::Json.status(b"gateway").is_none());
    assert_eq!(Form::of(b"application/vnd.kubernetes.protobuf;stream=watch"), Form::Protobuf);
    assert_eq!(Form::of(b"application/json"), Form::Json);
}
