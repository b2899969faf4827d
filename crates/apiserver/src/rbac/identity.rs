//! Whose request it is.

use http::HeaderMap;

use super::{Decision, Policy, Request, allowed, refusal};

/// A name with its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

const AUTHENTICATED: &str = "system:authenticated";
const MASTERS: &str = "system:masters";
const ACCOUNT: &str = "system:serviceaccount:";

impl User {
    /// May do everything.
    pub fn admin() -> Self {
        Self { name: "admin".to_owned(), groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()] }
    }

    /// An authenticated user with the groups that go with the name.
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        let mut groups = Vec::new();
        if let Some((namespace, _)) = name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':')) {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        groups.push(AUTHENTICATED.to_owned());
        Self { name, groups }
    }

    /// What a pod of this account is.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::named(format!("{ACCOUNT}{namespace}:{name}"))
    }

    pub(super) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// Who clients are that do not say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identities {
    /// Requests without any of the headers below.
    pub default: User,
}

impl Default for Identities {
    fn default() -> Self {
        Self { default: User::admin() }
    }
}

/// The user of a request: named by a proxy (`X-Remote-User`, `X-Remote-Group`), else the default; then whoever that user
/// impersonates (`Impersonate-User`, `Impersonate-Group`), which roles have to allow. `Err` has message and details of a 403.
pub fn identify(
    identities: &Identities,
    headers: &HeaderMap,
    policy: &Policy<'_>,
) -> Result<User, (String, serde_json::Value)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let groups = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let user = match text("x-remote-user") {
        Some(name) => with_groups(name, groups("x-remote-group")),
        None => identities.default.clone(),
    };
    let Some(name) = text("impersonate-user") else { return Ok(user) };
    let groups = groups("impersonate-group");
    let account = name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
    let target = match account {
        Some((namespace, account)) => impersonate("serviceaccounts", namespace, account),
        None => impersonate("users", "", &name),
    };
    for request in std::iter::once(target).chain(groups.iter().map(|group| impersonate("groups", "", group))) {
        if let Decision::Denied { reason } = allowed(policy, &user, &request) {
            return Err(refusal(&user, &request, &reason));
        }
    }
    Ok(with_groups(name, groups))
}

fn with_groups(name: String, mut groups: Vec<String>) -> User {
    if groups.is_empty() {
        return User::named(name);
    }
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    User { name, groups }
}

fn impersonate(resource: &str, namespace: &str, name: &str) -> Request {
    Request::Resource {
        verb: "impersonate".to_owned(),
        group: String::new(),
        resource: resource.to_owned(),
        subresource: String::new(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
