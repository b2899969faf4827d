//! From method, path and query to what is asked of which resource.

use http::Method;

/// Parameters of a request, decoded, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// The first value; empty ones count as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        match self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()) {
            // A parameter without a value counts as set.
            Some(value) => !matches!(value, "0" | "false" | "False" | "FALSE" | "f" | "F"),
            None => false,
        }
    }
}

/// Percent-decoding; what is not valid UTF-8 is replaced.
fn decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |i: usize| bytes.get(i).and_then(|b| (*b as char).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        match bytes[at] {
            b'%' if hex(at + 1).is_some() && hex(at + 2).is_some() => {
                out.push(hex(at + 1).unwrap_or_default() * 16 + hex(at + 2).unwrap_or_default());
                at += 2;
            }
            b'+' if plus => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/api`, `/apis`, `/version`, `/openapi/…`, `/healthz` and whatever else is no resource: its segments.
    Other(Vec<String>),
    /// `/api/v1` or `/apis/GROUP/VERSION`: the list of its resources.
    GroupVersion {
        group: String,
        version: String,
    },
    Resource(ResourcePath),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// Set when the path has one.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The old way to say that a list or object is to be watched.
    pub(crate) watched: bool,
}

impl Target {
    pub(crate) fn parse(path: &str) -> Self {
        let segments: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(|s| decode(s, false)).collect();
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match words.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::Other(segments),
        };
        if rest.is_empty() {
            return Self::GroupVersion { group: group.to_owned(), version: version.to_owned() };
        }
        let (watched, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            _ => (false, rest),
        };
        let (namespace, rest) = match rest {
            // `namespaces/NAME/status` is a subresource, not a kind.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            _ => (None, rest),
        };
        let owned = |i: usize| rest.get(i).map(|s| (*s).to_owned());
        if rest.len() > 3 {
            return Self::Resource(ResourcePath {
                group: group.to_owned(),
                version: version.to_owned(),
                ..ResourcePath::default()
            });
        }
        Self::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: owned(0).unwrap_or_default(),
            namespace,
            name: owned(1),
            subresource: owned(2),
            watched,
        })
    }
}

/// What is to be done, in the words of roles and discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it may change something.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    pub(crate) fn of(method: &Method, path: &ResourcePath, query: &Query) -> Option<Self> {
        let named = path.name.is_some();
        Some(match method.as_str() {
            "GET" | "HEAD" if (query.flag("watch") || path.watched) && path.subresource.is_none() => Self::Watch,
            "GET" | "HEAD" if named => Self::Get,
            "GET" | "HEAD" => Self::List,
            // Subresources are created under a name, objects are not.
            "POST" if named == path.subresource.is_some() => Self::Create,
            "PUT" if named => Self::Update,
            "PATCH" if named => Self::Patch,
            "DELETE" if named => Self::Delete,
            "DELETE" => Self::DeleteCollection,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_understood() {
        let resource = |path: &str| match Target::parse(path) {
            Target::Resource(r) => format!(
                "{}|{}|{}|{}|{}|{}",
                r.group,
                r.version,
                r.namespace.unwrap_or_default(),
                r.plural,
                r.name.unwrap_or_default(),
                r.subresource.unwrap_or_default()
            ),
            other => format!("{other:?}"),
        };
        for (path, want) in [
            ("/api/v1/nodes", "|v1||nodes||"),
            ("/api/v1/namespaces/a/pods/p/eviction", "|v1|a|pods|p|eviction"),
            ("/api/v1/namespaces/a", "|v1||namespaces|a|"),
            ("/api/v1/namespaces/a/status", "|v1||namespaces|a|status"),
            ("/apis/apps/v1/namespaces/a/deployments", "apps|v1|a|deployments||"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
                "rbac.authorization.k8s.io|v1||clusterroles|a:b|",
            ),
            ("/api/v1/namespaces/a/pods/p/x/y", "|v1||||"),
        ] {
            assert_eq!(resource(path), want, "{path}");
        }
        assert_eq!(
            Target::parse("/apis/apps/v1"),
            Target::GroupVersion { group: "apps".to_owned(), version: "v1".to_owned() }
        );
        assert_eq!(Target::parse("/version"), Target::Other(vec!["version".to_owned()]));
    }

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("a=b%3Dc&d=&watch&x=1+2&bad=%zz&watch2=false");
        assert_eq!(query.get("a"), Some("b=c"));
        assert_eq!(query.get("d"), None);
        assert_eq!(query.get("x"), Some("1 2"));
        assert_eq!(query.get("bad"), Some("%zz"));
        assert!(query.flag("watch") && !query.flag("watch2") && !query.flag("nope"));
    }
}
