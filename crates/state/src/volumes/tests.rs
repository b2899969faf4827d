use karpenter_model::example;
use karpenter_model::node::NodeView;
use karpenter_model::requirements::Requirement;

use super::*;
use crate::{Change, ClusterState, Source};

fn plain(name: &str) -> VolumeClaimView {
    VolumeClaimView { id: id(name), deleting: false, lost: false, volume: None, bind_completed: true, class: None }
}

fn id(name: &str) -> PodId {
    PodId::new("default", name)
}

fn unbound(name: &str, class: Option<&str>) -> VolumeClaimView {
    VolumeClaimView { bind_completed: false, class: class.map(ToOwned::to_owned), ..plain(name) }
}

fn bound(name: &str, volume: &str) -> VolumeClaimView {
    VolumeClaimView { volume: Some(volume.to_owned()), ..plain(name) }
}

fn terms(all: &[&[(&str, &str)]]) -> Vec<Requirements> {
    let term = |entries: &&[(&str, &str)]| {
        entries.iter().map(|(key, values)| Requirement::any_of(key, values.split('|'))).collect()
    };
    all.iter().map(term).collect()
}

fn volume(name: &str, source: VolumeSource, all: &[&[(&str, &str)]]) -> VolumeView {
    VolumeView { name: name.to_owned(), deleting: false, source, terms: terms(all), unreadable: None }
}

fn csi(driver: &str) -> VolumeSource {
    VolumeSource::Csi { driver: driver.to_owned() }
}

fn class(name: &str, provisioner: &str, all: &[&[(&str, &str)]]) -> StorageClassView {
    StorageClassView {
        name: name.to_owned(),
        provisioner: provisioner.to_owned(),
        immediate: false,
        terms: terms(all),
        topology_keys: all.iter().flat_map(|term| term.iter().map(|(key, _)| (*key).to_owned())).collect(),
    }
}

fn pod(name: &str, claims: &[&str]) -> PodView {
    let claims = claims.iter().map(ToString::to_string).collect();
    PodView { unschedulable: true, ..example::pod(name) }.but(|pod| pod.volume_claims = claims)
}

/// Storage in the making.
struct Storage(ClusterState);

fn storage() -> Storage {
    Storage(ClusterState::default())
}

impl Storage {
    fn apply(mut self, change: VolumeChange) -> Self {
        self.0.apply(Change::Volume(change));
        self
    }

    fn claim(self, claim: VolumeClaimView) -> Self {
        self.apply(VolumeChange::Claim(Arc::new(claim)))
    }

    fn volume(self, volume: VolumeView) -> Self {
        self.apply(VolumeChange::Volume(Arc::new(volume)))
    }

    fn class(self, class: StorageClassView) -> Self {
        self.apply(VolumeChange::Class(Arc::new(class)))
    }

    /// What comes of a pod that waits: where it may go and what it attaches, or what is wrong with it.
    fn seen(mut self, pod: PodView) -> String {
        self.0.apply(Change::Pod(Arc::new(pod)));
        let pending = self.0.pending_pods();
        let pod = pending.values().next().unwrap();
        if let Some(why) = &pod.unplannable {
            return why.clone();
        }
        let volumes = &pod.scheduling.volumes;
        let places: Vec<String> = volumes.alternatives.iter().map(ToString::to_string).collect();
        let attached = volumes.claims.iter().map(|(driver, claims)| {
            format!("{driver}: {}", claims.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
        });
        format!("[{}] {}", places.join(" | "), attached.collect::<Vec<_>>().join(", "))
    }
}

/// SC-18, SC-235, SC-236, SC-247, SC-248, SC-249, SCH-152: what is wrong with the one volume of a pod that waits.
#[test]
fn claims_are_checked() {
    let zonal = || class("zonal", "d.csi", &[]);
    for (name, storage, want) in vec![
        ("SC-18, SC-235 no claim", storage(), "persistent volume claim default/c not found"),
        (
            "SC-235 no such class",
            storage().claim(unbound("c", Some("gone"))),
            "storage class gone of persistent volume claim default/c not found",
        ),
        (
            "SC-235 the empty class",
            storage().claim(unbound("c", Some(""))),
            "persistent volume claim default/c has neither a volume nor a storage class",
        ),
        (
            "no class",
            storage().claim(unbound("c", None)),
            "persistent volume claim default/c has neither a volume nor a storage class",
        ),
        ("SC-235 no such volume", storage().claim(bound("c", "v")), "persistent volume v of claim default/c not found"),
        (
            "SC-236 bound, empty class",
            storage().claim(VolumeClaimView { class: Some(String::new()), ..bound("c", "v") }).volume(volume(
                "v",
                csi("d"),
                &[],
            )),
            "[] d: default/c",
        ),
        (
            "SC-236 bound, class gone",
            storage().claim(VolumeClaimView { class: Some("gone".into()), ..bound("c", "v") }).volume(volume(
                "v",
                csi("d"),
                &[],
            )),
            "[] d: default/c",
        ),
        (
            "SC-248 immediate",
            storage().claim(unbound("c", Some("zonal"))).class(StorageClassView { immediate: true, ..zonal() }),
            "persistent volume claim default/c waits for a volume of storage class zonal, which binds immediately",
        ),
        (
            "SC-248 claim goes",
            storage().claim(VolumeClaimView { deleting: true, ..bound("c", "v") }).volume(volume("v", csi("d"), &[])),
            "persistent volume claim default/c is being deleted",
        ),
        (
            "SC-248 volume goes",
            storage().claim(bound("c", "v")).volume(VolumeView { deleting: true, ..volume("v", csi("d"), &[]) }),
            "persistent volume v of claim default/c is being deleted",
        ),
        (
            "SC-248 lost",
            storage().claim(VolumeClaimView { lost: true, ..bound("c", "v") }).volume(volume("v", csi("d"), &[])),
            "persistent volume claim default/c has lost its volume",
        ),
        (
            "SC-249 binding",
            storage().claim(VolumeClaimView { bind_completed: false, ..bound("c", "v") }).volume(volume(
                "v",
                csi("d"),
                &[],
            )),
            "persistent volume claim default/c is not bound completely",
        ),
        ("SC-249 bound", storage().claim(bound("c", "v")).volume(volume("v", csi("d"), &[])), "[] d: default/c"),
        ("unbound", storage().claim(unbound("c", Some("zonal"))).class(zonal()), "[] d.csi: default/c"),
        (
            "unreadable",
            storage()
                .claim(bound("c", "v"))
                .volume(VolumeView { unreadable: Some("operator Near".into()), ..volume("v", csi("d"), &[]) }),
            "persistent volume v of claim default/c: operator Near",
        ),
    ] {
        assert_eq!(storage.seen(pod("p", &["c"])), want, "{name}");
    }
}

/// SC-247: what the provider cannot work with.
#[test]
fn unsupported_by_the_provider() {
    let set = |name: &str| BTreeSet::from([name.to_owned()]);
    let strict = || {
        let unsupported =
            UnsupportedVolumes { provisioners: set("ebs.csi.aws.com"), topology_keys: set("example.com/rack") };
        Storage(ClusterState::default().without_volumes(unsupported))
    };
    let of = |class: StorageClassView| strict().claim(unbound("c", Some("k"))).class(class).seen(pod("p", &["c"]));
    assert_eq!(
        of(class("k", "kubernetes.io/aws-ebs", &[])),
        "persistent volume claim default/c needs provisioner ebs.csi.aws.com, which is not supported"
    );
    assert_eq!(
        of(class("k", "d", &[&[("example.com/rack", "r1")]])),
        "storage class k of persistent volume claim default/c uses unsupported topology key example.com/rack"
    );
    assert_eq!(of(class("k", "d", &[&[("zone", "z1")]])), "[zone In [z1]] d: default/c");
    let held = strict().claim(bound("c", "v")).volume(volume("v", VolumeSource::AwsEbs, &[]));
    assert_eq!(
        held.seen(pod("p", &["c"])),
        "persistent volume claim default/c needs provisioner ebs.csi.aws.com, which is not supported"
    );
}

/// SCH-153, SCH-157, SC-237, SC-238, SC-239, SC-240, SC-245: where one volume can be, and who attaches it.
#[test]
fn places_of_one_volume() {
    let host = labels::HOSTNAME;
    for (name, storage, want) in [
        (
            "SC-237",
            storage().claim(unbound("c", Some("k"))).class(class("k", "d", &[&[("zone", "z2|z3")]])),
            "[zone In [z2 z3]] d: default/c",
        ),
        (
            "SC-241 two terms of a class",
            storage().claim(unbound("c", Some("k"))).class(class("k", "d", &[&[("zone", "z1")], &[("zone", "z2")]])),
            "[zone In [z1] | zone In [z2]] d: default/c",
        ),
        (
            "SC-238",
            storage().claim(bound("c", "v")).volume(volume("v", csi("d"), &[&[("zone", "z3")]])),
            "[zone In [z3]] d: default/c",
        ),
        (
            "the class of a bound one is not asked",
            storage()
                .claim(VolumeClaimView { class: Some("k".into()), ..bound("c", "v") })
                .volume(volume("v", csi("d"), &[]))
                .class(class("k", "other", &[&[("zone", "z1")]])),
            "[] d: default/c",
        ),
        (
            "SC-239 local",
            storage().claim(bound("c", "v")).volume(volume("v", VolumeSource::Local, &[&[(host, "n")]])),
            "[] ",
        ),
        (
            "SC-240",
            storage().claim(bound("c", "v")).volume(volume(
                "v",
                VolumeSource::Local,
                &[&[(host, "n")], &[("zone", "invalid")]],
            )),
            "[ | zone In [invalid]] ",
        ),
        ("SC-245", storage().claim(bound("c", "v")).volume(volume("v", VolumeSource::Other, &[])), "[] "),
        (
            "SC-250",
            storage().claim(unbound("c", Some("k"))).class(class("k", "kubernetes.io/aws-ebs", &[])),
            "[] ebs.csi.aws.com: default/c",
        ),
    ] {
        assert_eq!(storage.seen(pod("p", &["c"])), want, "{name}");
    }
    let at_home = storage().claim(bound("c", "v")).volume(volume("v", csi("d"), &[&[(host, "n")]]));
    let mut state = at_home.0;
    state.apply(Change::Pod(Arc::new(pod("p", &["c"]))));
    let alternatives = &state.pending_pods()[&id("p")].scheduling.volumes.alternatives;
    assert!(alternatives[0].has_key(host), "SC-239: a driver's volume stays where it is");
}

/// SC-242, SCH-154: combinations that contradict each other are left out, unless all do.
#[test]
fn places_of_several_volumes() {
    let both = |a: &[&[(&str, &str)]], b: &[&[(&str, &str)]]| {
        let storage = storage().claim(unbound("a", Some("ka"))).claim(unbound("b", Some("kb")));
        storage.class(class("ka", "d", a)).class(class("kb", "d", b)).seen(pod("p", &["a", "b"]))
    };
    assert_eq!(
        both(
            &[&[("special", "required")], &[("special", "optional")]],
            &[&[("zone", "z1"), ("special", "optional")], &[("zone", "z2"), ("special", "required")]]
        ),
        "[special In [required], zone In [z2] | special In [optional], zone In [z1]] d: default/a default/b"
    );
    assert_eq!(both(&[&[("zone", "z1")]], &[&[("zone", "z2")]]), "[zone DoesNotExist] d: default/a default/b");
    assert_eq!(both(&[], &[&[("zone", "z2")]]), "[zone In [z2]] d: default/a default/b", "one that is anywhere");
    assert_eq!(
        both(&[&[("zone", "z1")], &[("zone", "z1")]], &[]),
        "[zone In [z1]] d: default/a default/b",
        "the same place twice"
    );
}

/// Places that multiply without end are refused, not computed.
#[test]
fn too_many_places() {
    let keys: Vec<String> = (0..40).map(|i| format!("k{i}")).collect();
    let mut all = storage();
    for key in &keys {
        all = all.claim(unbound(key, Some(key))).class(class(key, "d", &[&[(key, "a")], &[(key, "b")]]));
    }
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(
        all.seen(pod("p", &names)),
        "its volumes can be attached together in more than 1024 combinations of places"
    );
}

/// SCH-156, SC-375, V15-104: a pod is never planned without its volumes, and follows what becomes of them.
#[test]
fn pods_follow_their_volumes() {
    let mut state = storage().class(class("k", "d", &[&[("zone", "z1")]])).0;
    state.apply(Change::Pod(Arc::new(pod("p", &["c"]))));
    let mut seen = |change: VolumeChange| {
        state.apply(Change::Volume(change));
        let pod = state.pending_pods()[&id("p")].clone();
        pod.unplannable.clone().unwrap_or_else(|| {
            pod.scheduling.volumes.alternatives.iter().map(ToString::to_string).collect::<Vec<_>>().join("|")
        })
    };
    let claim = |claim| VolumeChange::Claim(Arc::new(claim));
    assert_eq!(seen(claim(unbound("other", Some("k")))), "persistent volume claim default/c not found");
    assert_eq!(seen(claim(unbound("c", Some("k")))), "zone In [z1]");
    let moved = class("k", "d", &[&[("zone", "z2")]]);
    assert_eq!(seen(VolumeChange::Class(Arc::new(moved))), "zone In [z2]");
    assert_eq!(seen(claim(bound("c", "v"))), "persistent volume v of claim default/c not found");
    let there = volume("v", csi("d"), &[&[("zone", "z3")]]);
    assert_eq!(seen(VolumeChange::Volume(Arc::new(there))), "zone In [z3]");
    assert_eq!(seen(VolumeChange::VolumeGone("v".into())), "persistent volume v of claim default/c not found");
    assert_eq!(seen(VolumeChange::ClaimGone(id("c"))), "persistent volume claim default/c not found");
}

/// SCH-159, SCH-229, SC-251, SC-345, API-306: what is on a node follows the claims; a missing one is not counted.
#[test]
fn nodes_know_what_is_attached() {
    let mut state = storage().claim(bound("c", "v")).volume(volume("v", csi("d"), &[])).0;
    state.apply(Change::Node(Arc::new(NodeView { provider_id: Some("id".into()), ..example::node("n") })));
    let limits = BTreeMap::from([("d".to_owned(), Some(10)), ("free".to_owned(), None)]);
    let csi_node = CsiNodeView { name: "n".into(), limits: limits.clone() };
    state.apply(Change::Volume(VolumeChange::CsiNode(Arc::new(csi_node))));
    let on_node = PodView { node_name: Some("n".into()), unschedulable: false, ..pod("p", &["c", "missing"]) };
    state.apply(Change::Pod(Arc::new(on_node)));
    let attached = |state: &ClusterState| {
        let node = state.nodes().remove(0);
        node.pods
            .iter()
            .map(|pod| pod.scheduling.volumes.claims.values().map(BTreeSet::len).sum::<usize>())
            .sum::<usize>()
    };
    assert_eq!(state.nodes()[0].volume_limits, limits);
    assert_eq!(attached(&state), 1);
    state.apply(Change::Volume(VolumeChange::Claim(Arc::new(bound("missing", "v2")))));
    assert_eq!(attached(&state), 1, "its volume is not there");
    state.apply(Change::Volume(VolumeChange::Volume(Arc::new(volume("v2", csi("d"), &[])))));
    assert_eq!(attached(&state), 2);
    state.apply(Change::Listed(Source::VolumeClaims, BTreeSet::from(["default/c".to_owned()])));
    assert_eq!(attached(&state), 1, "a list without it");
    state.apply(Change::Listed(Source::CsiNodes, BTreeSet::new()));
    assert!(state.nodes()[0].volume_limits.is_empty());
    state.apply(Change::PodGone(id("p")));
    assert_eq!(attached(&state), 0);
}

/// Lists end what is not on them, for every kind of storage object.
#[test]
fn lists_and_attachments() {
    let attachment = AttachmentView { name: "a".into(), node: "n".into(), volume: Some("v".into()) };
    let storage =
        storage().claim(unbound("c", Some("k"))).class(class("k", "d", &[])).volume(volume("v", csi("d"), &[]));
    let mut state = storage.apply(VolumeChange::Attachment(Arc::new(attachment.clone()))).0;
    assert_eq!(state.volumes().attachments_on("n"), [Arc::new(attachment)]);
    assert!(state.volumes().attachments_on("m").is_empty());
    assert!(state.volumes().claim(&id("c")).is_some());
    for source in [Source::VolumeClaims, Source::Volumes, Source::StorageClasses, Source::Attachments] {
        state.apply(Change::Listed(source, BTreeSet::new()));
    }
    assert!(state.volumes().claim(&id("c")).is_none());
    assert!(state.volumes().attachments_on("n").is_empty());
    let known = Storage(state).claim(unbound("c", Some("k"))).seen(pod("p", &["c"]));
    assert_eq!(known, "storage class k of persistent volume claim default/c not found");
}
