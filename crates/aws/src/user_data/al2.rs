//! Amazon Linux 2: a shell script that calls the image's bootstrap script (AWS-172 … AWS-174).

use std::net::IpAddr;

use super::kubelet_args::kubelet_args;
use super::mime::{self, Part};
use super::{Bootstrap, UserDataError};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let mut parts = match bootstrap.custom.filter(|custom| !custom.trim().is_empty()) {
        Some(custom) if mime::is_archive(custom) => mime::parse(custom)?,
        Some(custom) => vec![Part::new(mime::SHELL_SCRIPT, custom)],
        None => Vec::new(),
    };
    parts.push(Part::new(mime::SHELL_SCRIPT, &script(bootstrap)?));
    Ok(mime::write(&parts))
}

fn script(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let cluster = bootstrap.cluster;
    let ca = cluster.ca_bundle.as_ref().map(|ca| format!(" --b64-cluster-ca '{ca}'")).unwrap_or_default();
    let dns = bootstrap.cluster_dns().into_iter().next();
    let ipv6 = dns.as_ref().is_some_and(|dns| dns.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()));
    let call = [
        Some(format!("/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}'{ca}", cluster.name, cluster.endpoint)),
        ipv6.then(|| "--ip-family ipv6".to_owned()),
        dns.map(|dns| format!("--dns-cluster-ip '{dns}'")),
        // The argument below says how many.
        Some("--use-max-pods false".to_owned()),
        Some(format!("--kubelet-extra-args '{}'", kubelet_args(bootstrap)?)),
        bootstrap.joins_disks.then(|| "--local-disks raid0".to_owned()),
    ];
    let call = call.into_iter().flatten().collect::<Vec<_>>().join(" \\\n");
    Ok(format!(
        "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n{call}\n"
    ))
}
