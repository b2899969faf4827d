//! Network settings of the instances.

use super::super::schema::{Schema, int32, list, object, string};

pub(super) fn ip_prefix_count() -> Schema {
    int32("Number of IP prefixes to assign to the primary network interface at launch.").min(0)
}

pub(super) fn connection_tracking() -> Schema {
    object("How long idle connections are tracked.")
        .field("tcpEstablishedTimeout", int32("Seconds for idle established TCP connections.").min(60).max(432_000))
        .field(
            "udpStreamTimeout",
            int32("Seconds for idle UDP flows that have seen more than one request and response.").min(60).max(180),
        )
        .field(
            "udpTimeout",
            int32("Seconds for idle UDP flows with traffic in one direction or a single exchange.").min(30).max(60),
        )
        .rule(
            "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
            "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
        )
}

pub(super) fn network_interfaces() -> Schema {
    list(
        "Network interfaces of the instances, for EFA and several network cards. Unset gives one ordinary interface.",
        object("A network interface.")
            .required("deviceIndex", int32("Position of the interface among those of its card.").min(0))
            .required(
                "interfaceType",
                string("An ordinary interface, or one for EFA traffic only.").one_of(&["interface", "efa-only"]),
            )
            .required("networkCardIndex", int32("Network card that the interface is on.").min(0)),
    )
    .max_items(150)
    .rule(
        "networkInterfaces must include a primary interface with interfaceType='interface'",
        "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
    )
    .rule(
        "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa device per network card",
        "self.all(x, self.exists_one(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex) && \
         (x.interfaceType != 'efa-only' || self.exists_one(y, y.interfaceType == 'efa-only' && x.networkCardIndex == y.networkCardIndex)))",
    )
}
