use super::*;
use crate::cloud::InterfaceSpec;

fn interfaces(launch: &Launch) -> Vec<InterfaceSpec> {
    launch.template().request.data.interfaces
}

fn entry(card: i32, device: i32, kind: &str) -> Value {
    json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind})
}

fn places(all: &[InterfaceSpec]) -> Vec<(Option<i32>, i32, Option<&str>)> {
    all.iter().map(|one| (one.network_card, one.device, one.kind.as_deref())).collect()
}

/// AWS-111, AWS-165, AWS-166, AWS-167, AWS-265, AWS-267, AC-192, AC-193: one interface with all groups, and addresses as the cluster
/// has them.
#[test]
fn one_interface() {
    let one = &interfaces(&launch(&json!({})))[..];
    assert_eq!(
        (places(one), &one[0].security_groups[..]),
        (vec![(None, 0, None)], &["sg-test1".to_owned(), "sg-test2".to_owned()][..])
    );
    let prefixes = |dns: &str| {
        let mut launch = launch(&json!({"ipPrefixCount": 10}));
        launch.cluster.dns = Some(dns.parse().unwrap());
        let one = interfaces(&launch).remove(0);
        (one.ipv4_prefixes, one.ipv6_prefixes, one.primary_ipv6, one.ipv6_addresses)
    };
    assert_eq!(prefixes("10.0.0.10"), (Some(10), None, None, None));
    assert_eq!(prefixes("fd4e::a"), (None, Some(10), Some(true), Some(1)));
    for (spec, want) in [
        (json!({}), None),
        (json!({"associatePublicIPAddress": true}), Some(true)),
        (json!({"associatePublicIPAddress": false}), Some(false)),
    ] {
        assert_eq!(interfaces(&launch(&spec))[0].public_ip, want);
    }
}

/// AWS-164, AC-189: as many for EFA as the type has, if the claim asks.
#[test]
fn efa() {
    let mut asks = launch(&json!({})).requesting("vpc.amazonaws.com/efa");
    asks.types = vec!["m6idn.32xlarge"];
    assert_eq!(places(&interfaces(&asks)), [(Some(0), 0, Some("efa")), (Some(1), 1, Some("efa"))]);
    asks.claim.requests = karpenter_model::resources::Resources::new();
    assert_eq!(places(&interfaces(&asks)), [(None, 0, None)]);
}

/// AWS-163, AC-191, AC-194: what the class attaches; interfaces without addresses have nothing to do with them.
#[test]
fn interfaces_of_the_class() {
    let spec = json!({
        "networkInterfaces": [entry(0, 0, "interface"), entry(0, 1, "efa-only"), entry(1, 1, "efa-only")],
        "ipPrefixCount": 10, "associatePublicIPAddress": true, "connectionTracking": {"tcpEstablishedTimeout": 300},
    });
    let mut launch = launch(&spec).requesting("vpc.amazonaws.com/efa");
    launch.cluster.dns = Some("fd4e::a".parse().unwrap());
    launch.types = vec!["m6idn.32xlarge"];
    let all = interfaces(&launch);
    assert_eq!(
        places(&all),
        [(Some(0), 0, Some("interface")), (Some(0), 1, Some("efa-only")), (Some(1), 1, Some("efa-only"))]
    );
    assert_eq!(all[0].connection_tracking.map(|tracking| tracking.tcp_established), Some(Some(300)));
    assert_eq!((all[0].public_ip, all[0].ipv6_prefixes, all[0].primary_ipv6), (Some(true), Some(10), Some(true)));
    for bare in &all[1..] {
        let want = InterfaceSpec {
            network_card: bare.network_card,
            device: bare.device,
            kind: bare.kind.clone(),
            security_groups: bare.security_groups.clone(),
            ..InterfaceSpec::default()
        };
        assert_eq!(*bare, want);
    }
    let tracked = super::launch(&json!({"connectionTracking": {"tcpEstablishedTimeout": 300}}));
    assert!(interfaces(&tracked)[0].connection_tracking.is_some());
}
