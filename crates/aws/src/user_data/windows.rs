//! Windows: a PowerShell script that calls the image's bootstrap script (AWS-182).

use super::kubelet_args::kubelet_args;
use super::{Bootstrap, UserDataError};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let cluster = bootstrap.cluster;
    let mut call = format!(
        "& $EKSBootstrapScriptFile -EKSClusterName '{}' -APIServerEndpoint '{}'",
        cluster.name, cluster.endpoint
    );
    if let Some(ca) = &cluster.ca_bundle {
        call.push_str(&format!(" -Base64ClusterCA '{ca}'"));
    }
    call.push_str(&format!(" -KubeletExtraArgs '{}'", kubelet_args(bootstrap)?));
    if let Some(dns) = bootstrap.cluster_dns().first() {
        call.push_str(&format!(" -DNSClusterIP '{dns}'"));
    }
    let custom = bootstrap.custom.filter(|custom| !custom.is_empty()).map(|custom| format!("{custom}\n"));
    Ok(format!(
        "<powershell>\n{}[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n{call}\n</powershell>",
        custom.unwrap_or_default()
    ))
}
