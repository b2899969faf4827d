//! Certificates and kubeconfigs, made anew for each control plane.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use serde_json::json;

/// File name, common name, organization. The names are those that RBAC's built-in bindings know.
const USERS: [(&str, &str, Option<&str>); 3] = [
    ("admin", "admin", Some("system:masters")),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
];

/// Writes `ca`, `apiserver`, one pair per user and the key of service accounts into `folder`.
pub(super) fn write(folder: &Path) -> Result<()> {
    std::fs::create_dir(folder)?;
    let ca_key = KeyPair::generate()?;
    let mut params = params("kubernetes-ca", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    std::fs::write(folder.join("ca.crt"), params.self_signed(&ca_key)?.pem())?;
    let ca = Issuer::new(params, ca_key);

    let mut server = self::params("kube-apiserver", None);
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.subject_alt_names =
        vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)), SanType::DnsName("localhost".try_into()?)];
    pair(folder, "apiserver", &server, &ca)?;
    for (file, name, organization) in USERS {
        let mut user = self::params(name, organization);
        user.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        pair(folder, file, &user, &ca)?;
    }

    let accounts = KeyPair::generate()?;
    std::fs::write(folder.join("service-account.key"), accounts.serialize_pem())?;
    std::fs::write(folder.join("service-account.pub"), accounts.public_key_pem())?;
    Ok(())
}

/// Writes `USER.kubeconfig` (JSON, which is YAML) into `folder`.
pub(super) fn write_kubeconfig(folder: &Path, user: &str, port: u16) -> Result<PathBuf> {
    let pki = folder.join("pki");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": pki.join("ca.crt"),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate": pki.join(format!("{user}.crt")),
            "client-key": pki.join(format!("{user}.key")),
        }}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
    });
    let path = folder.join(format!("{user}.kubeconfig"));
    std::fs::write(&path, serde_json::to_string_pretty(&config)?)?;
    Ok(path)
}

fn params(name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params
}

fn pair(folder: &Path, file: &str, params: &CertificateParams, ca: &Issuer<'_, KeyPair>) -> Result<()> {
    let key = KeyPair::generate()?;
    std::fs::write(folder.join(format!("{file}.crt")), params.signed_by(&key, ca)?.pem())?;
    std::fs::write(folder.join(format!("{file}.key")), key.serialize_pem())?;
    Ok(())
}
