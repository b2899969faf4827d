//! The network interfaces of a launch template (§4.5).

use crate::class::{EFA_ONLY, NodeClass};
use crate::cloud::{ConnectionTrackingSpec, InterfaceSpec};

/// What of a launch decides about interfaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wiring<'a> {
    pub(super) class: &'a NodeClass,
    pub(super) ipv6: bool,
    /// EFA interfaces that the claim asks for and the type has; zero for none.
    pub(super) efa: i64,
}

/// Those of the class; else as many for EFA as the claim asks for; else one.
pub(super) fn interfaces(wiring: &Wiring<'_>) -> Vec<InterfaceSpec> {
    let class = wiring.class;
    if !class.interfaces().is_empty() {
        let own = class.interfaces().iter().map(|interface| {
            let spec = InterfaceSpec {
                network_card: Some(interface.network_card_index),
                device: interface.device_index,
                kind: Some(interface.interface_type.clone()),
                security_groups: groups(class),
                ..InterfaceSpec::default()
            };
            if interface.interface_type == EFA_ONLY { spec } else { addressed(spec, wiring) }
        });
        return own.collect();
    }
    if wiring.efa > 0 {
        let card = |index: i32| InterfaceSpec {
            network_card: Some(index),
            // The first device of the first card is the primary interface.
            device: i32::from(index != 0),
            kind: Some("efa".to_owned()),
            security_groups: groups(class),
            ..InterfaceSpec::default()
        };
        let cards = 0..i32::try_from(wiring.efa).unwrap_or(i32::MAX);
        return cards.map(|index| addressed(card(index), wiring)).collect();
    }
    vec![addressed(InterfaceSpec { security_groups: groups(class), ..InterfaceSpec::default() }, wiring)]
}

fn groups(class: &NodeClass) -> Vec<String> {
    class.status.security_groups.iter().flatten().map(|group| group.id.clone()).collect()
}

/// With addresses and what goes with them.
fn addressed(spec: InterfaceSpec, wiring: &Wiring<'_>) -> InterfaceSpec {
    let (class, ipv6) = (&wiring.class.spec, wiring.ipv6);
    InterfaceSpec {
        public_ip: class.associate_public_ip_address,
        ipv4_prefixes: class.ip_prefix_count.filter(|_| !ipv6),
        ipv6_prefixes: class.ip_prefix_count.filter(|_| ipv6),
        primary_ipv6: ipv6.then_some(true),
        ipv6_addresses: ipv6.then_some(1),
        connection_tracking: class.connection_tracking.as_ref().map(|tracking| ConnectionTrackingSpec {
            tcp_established: tracking.tcp_established_timeout,
            udp_stream: tracking.udp_stream_timeout,
            udp: tracking.udp_timeout,
        }),
        ..spec
    }
}
