use super::*;
use crate::example;
use crate::quantity::Quantity;

fn resources(text: &str) -> Resources {
    let entry = |word: &str| word.split_once('=').map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()));
    text.split_whitespace().map(|word| entry(word).unwrap()).collect()
}

fn template() -> BufferReference {
    BufferReference::PodTemplate { name: "t".into() }
}

fn scalable(group: &str, kind: &str) -> BufferReference {
    BufferReference::Scalable { group: group.into(), kind: kind.into(), name: "w".into() }
}

fn buffer(reference: Option<BufferReference>) -> BufferView {
    BufferView {
        id: PodId::new("n", "b"),
        uid: "u".into(),
        reference,
        replicas: None,
        percentage: None,
        limits: Resources::new(),
        ready: true,
        desired: None,
    }
}

fn shape(requests: &str, workload_replicas: Option<u32>) -> Shape {
    let pod = example::pod("t").but(|pod| pod.requests = resources(requests));
    Shape { pod, workload_replicas, generation: None }
}

/// SC-278, SC-279, SC-280, SC-281, SCH-182, API-102, API-103, API-104: replicas, percentage, limits, workload, pod, and what comes of them.
#[test]
fn target_counts() {
    for (id, replicas, percentage, limits, workload, pod, want) in [
        ("SC-278", None, Some(20), "", Some(10), "cpu=1", 2),
        ("SC-278", None, Some(20), "", Some(5), "cpu=1", 1),
        ("SC-278", None, Some(10), "", Some(1), "cpu=1", 1),
        ("SC-278", None, Some(100), "", Some(1), "cpu=1", 1),
        ("SC-278", None, Some(0), "", Some(10), "cpu=1", 0),
        ("SC-278", None, Some(50), "", Some(0), "cpu=1", 0),
        ("SC-279", Some(5), Some(20), "", Some(10), "cpu=1", 5),
        ("SC-279", Some(5), Some(80), "", Some(10), "cpu=1", 8),
        ("SC-279", Some(5), Some(80), "cpu=4", Some(10), "cpu=1", 4),
        ("SC-280", Some(10), None, "cpu=3", None, "cpu=1", 3),
        ("SC-280", None, None, "cpu=5", None, "cpu=1", 5),
        ("SC-280", Some(3), None, "cpu=10", None, "cpu=1", 3),
        ("SC-280", Some(7), None, "", None, "cpu=1", 7),
        ("SC-280", Some(7), None, "cpu=500m", None, "cpu=1", 0),
        ("SC-280", Some(4), None, "vendor-a=1", None, "cpu=1", 4),
        ("SC-281", None, None, "cpu=10 memory=4Gi", None, "cpu=1 memory=1Gi", 4),
        ("nothing applies", None, None, "", None, "cpu=1", 0),
        ("a zero request", Some(4), None, "cpu=1", None, "cpu=0", 4),
        ("a negative limit", Some(4), None, "cpu=-1", None, "cpu=1", 0),
        ("absurd", Some(u32::MAX), Some(u32::MAX), "", Some(u32::MAX), "cpu=1", u32::MAX),
    ] {
        let buffer = BufferView { replicas, percentage, limits: resources(limits), ..buffer(Some(template())) };
        assert_eq!(buffer.target(&shape(pod, workload)), want, "{id} {replicas:?} {percentage:?} {limits}");
    }
}

/// SC-282, SC-283, SCH-181, SCH-183, API-109: what the status says, and whether it is tried again.
#[test]
fn references_are_resolved() {
    let there = |_: &BufferReference| Found::Shape(Box::new(Shape { generation: Some(3), ..shape("cpu=1", Some(2)) }));
    let missing = |_: &BufferReference| Found::Missing;
    let broken = |_: &BufferReference| Found::Failed("no route".into());
    let of = |reference| BufferView { replicas: Some(2), ..buffer(Some(reference)) };
    let resolved = of(template()).resolve(there);
    assert_eq!(resolved, Resolution::Resolved { replicas: 2, pod_template: Some(("t".into(), Some(3))) });
    let switched = of(scalable("", "Deployment")).resolve(there);
    assert_eq!(switched, Resolution::Resolved { replicas: 2, pod_template: None }, "SC-283");
    for (name, buffer, found, reason, retried) in [
        ("template", of(template()), missing as fn(&_) -> _, "PodTemplateNotFound", false),
        ("workload", of(scalable("apps", "Deployment")), missing, "ScalableRefNotFound", false),
        ("Job", of(scalable("apps", "Job")), missing, "ResolutionFailed", true),
        ("batch", of(scalable("batch", "Deployment")), missing, "ResolutionFailed", true),
        ("an error", of(template()), broken, "ResolutionFailed", true),
        ("nothing", buffer(None), missing, "ResolutionFailed", false),
    ] {
        let resolution = buffer.resolve(found);
        assert_eq!(resolution.reason().as_str(), reason, "{name}");
        assert_eq!(matches!(resolution, Resolution::Retry { .. }), retried, "{name}");
    }
}

/// VC-117, V15-108: which objects a buffer has to be looked at again for.
#[test]
fn references_point_to_one_object() {
    for (reference, kind, name, want) in [
        (scalable("", "Deployment"), "Deployment", "w", true),
        (scalable("apps", "StatefulSet"), "StatefulSet", "w", true),
        (scalable("apps", "StatefulSet"), "Deployment", "w", false),
        (scalable("apps", "Deployment"), "Deployment", "other", false),
        (scalable("batch", "Deployment"), "Deployment", "w", false),
        (template(), "PodTemplate", "t", true),
        (template(), "Deployment", "t", false),
    ] {
        assert_eq!(reference.points_to(kind, name), want, "{reference:?} {kind} {name}");
    }
}

/// SC-284, SC-285, SCH-185, API-110, DIS-189: names, what is kept of the shape and what is not.
#[test]
fn virtual_pods_stand_for_the_buffer() {
    let mut shape = shape("cpu=1", None);
    shape.pod.labels.insert("app".into(), "web".into());
    shape.pod.volume_claims = vec!["data".into()];
    shape.pod.node_name = Some("n1".into());
    let now = Timestamp::from_second(7).unwrap();
    let three = BufferView { desired: Some(3), ..buffer(Some(template())) };
    let pods = three.virtual_pods(&shape, now);
    let names: Vec<String> = pods.iter().map(|pod| format!("{} {}", pod.id, pod.uid)).collect();
    assert_eq!(names, ["n/capacity-buffer-b-1 u-1", "n/capacity-buffer-b-2 u-2", "n/capacity-buffer-b-3 u-3"]);
    let first = &pods[0];
    assert!(first.is_provisionable() && first.phase != PodPhase::Pending);
    assert!(first.volume_claims.is_empty() && first.node_name.is_none());
    assert_eq!((&first.labels, first.created_at), (&shape.pod.labels, now.into()));
    assert_eq!(first.buffer.as_ref().map(ToString::to_string).as_deref(), Some("n/b"));
    assert_eq!(first.requests.amount("cpu"), Quantity::units(1));
    for none in [
        BufferView { ready: false, ..three.clone() },
        BufferView { desired: Some(0), ..three.clone() },
        BufferView { desired: None, ..three.clone() },
        BufferView { reference: None, ..three.clone() },
    ] {
        assert!(none.virtual_pods(&shape, now).is_empty());
    }
    let absurd = BufferView { desired: Some(u32::MAX), ..three };
    assert_eq!(absurd.virtual_pods(&shape, now).len(), 10_000);
}
