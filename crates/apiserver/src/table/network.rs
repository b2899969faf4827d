//! Services and what is behind and before them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::read::{age, first_three, join, list, name, number, text, text_or};
use super::selector::{labels, selector};

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let (spec, name, age) = (&object["spec"], name(object), age(object, now));
    Some(match kind {
        "Service" => {
            let of = json!(text(&spec["type"]));
            let inside = json!(text_or(&spec["clusterIPs"][0], "<none>"));
            vec![name, of, inside, json!(external(object)), json!(ports(spec)), age, json!(labels(&spec["selector"]))]
        }
        "Endpoints" => vec![name, json!(endpoints(object)), age],
        "EndpointSlice" => {
            let port =
                |p: &Value| p["port"].as_i64().map_or_else(|| text_or(&p["name"], "*").to_owned(), |n| n.to_string());
            let ports: Vec<_> = list(&object["ports"]).iter().map(port).collect();
            let addresses = list(&object["endpoints"]).iter().flat_map(|e| list(&e["addresses"]));
            let addresses: Vec<_> = addresses.map(|a| text(a).to_owned()).collect();
            let shown =
                |parts: &[String]| json!(if parts.is_empty() { "<unset>".to_owned() } else { first_three(parts) });
            vec![name, json!(text(&object["addressType"])), shown(&ports), shown(&addresses), age]
        }
        "Ingress" => {
            let class = json!(text_or(&spec["ingressClassName"], "<none>"));
            let open = if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" };
            vec![name, class, json!(hosts(spec)), json!(balancers(object)), json!(open), age]
        }
        "IngressClass" => vec![name, json!(text(&spec["controller"])), json!(parameters(&spec["parameters"])), age],
        "NetworkPolicy" => vec![name, json!(selector(&spec["podSelector"])), age],
        _ => return None,
    })
}

fn external(service: &Value) -> String {
    let spec = &service["spec"];
    let given = join(list(&spec["externalIPs"]).iter().map(text), ",");
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if given.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => given,
        "LoadBalancer" => match (balancers(service), given) {
            (found, given) if found.is_empty() && given.is_empty() => "<pending>".to_owned(),
            (found, given) if found.is_empty() || given.is_empty() => found + &given,
            (found, given) => format!("{found},{given}"),
        },
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of load balancers in order.
fn balancers(object: &Value) -> String {
    let ingress = list(&object["status"]["loadBalancer"]["ingress"]).iter();
    let addresses: BTreeSet<_> =
        ingress.map(|i| text_or(&i["ip"], text(&i["hostname"]))).filter(|a| !a.is_empty()).collect();
    join(addresses.into_iter(), ",")
}

fn ports(spec: &Value) -> String {
    let port = |p: &Value| {
        let (port, protocol) = (number(&p["port"]), text(&p["protocol"]));
        match number(&p["nodePort"]) {
            node_port @ 1.. => format!("{port}:{node_port}/{protocol}"),
            _ => format!("{port}/{protocol}"),
        }
    };
    let ports: Vec<_> = list(&spec["ports"]).iter().map(port).collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn endpoints(object: &Value) -> String {
    let subsets = list(&object["subsets"]);
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut found = Vec::new();
    for subset in subsets {
        let addresses = list(&subset["addresses"]).iter().map(|a| text(&a["ip"]));
        let ports = list(&subset["ports"]);
        if ports.is_empty() {
            found.extend(addresses.clone().map(str::to_owned));
        }
        for port in ports.iter().map(|p| number(&p["port"])) {
            let joined = |ip: &str| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
            found.extend(addresses.clone().map(joined));
        }
    }
    first_three(&found)
}

fn hosts(spec: &Value) -> String {
    let hosts = list(&spec["rules"]).iter().map(|r| text(&r["host"])).filter(|h| !h.is_empty());
    let hosts: Vec<_> = hosts.map(str::to_owned).collect();
    if hosts.is_empty() { "*".to_owned() } else { first_three(&hosts) }
}

fn parameters(of: &Value) -> String {
    if of.is_null() {
        return "<none>".to_owned();
    }
    let group = of["apiGroup"].as_str().map_or(String::new(), |group| format!(".{group}"));
    format!("{}{group}/{}", text(&of["kind"]), text(&of["name"]))
}
