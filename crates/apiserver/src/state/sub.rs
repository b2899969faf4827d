//! Subresources.

mod binding;
mod eviction;
mod scale;

use std::sync::Arc;

use serde_json::json;

use super::{Answer, Call, State};
use crate::request::Verb;
use crate::status::Failure;

impl State {
    pub(super) fn subresource(&mut self, call: &Call) -> Result<Answer, Failure> {
        match (call.subresource.as_str(), call.verb) {
            ("scale", Verb::Get) => self.get_scale(call),
            ("scale", Verb::Update | Verb::Patch) => self.set_scale(call),
            ("eviction", Verb::Create) => self.evict(call),
            ("binding", Verb::Create) => self.bind(call),
            ("finalize", Verb::Update) => self.finalize(call),
            ("log", Verb::Get) => self.find(call).map(|_| Answer::ok(json!(""))),
            ("token", Verb::Create) => self.token(call),
            (_, Verb::Get) => self.find(call).map(Answer::Stored),
            (_, Verb::Update) => self.replace(call),
            (_, Verb::Patch) => self.patch(call),
            _ => Err(Failure::method_not_allowed()),
        }
    }

    /// Namespaces are emptied by the API itself, so that finalizing is only looked at.
    fn finalize(&mut self, call: &Call) -> Result<Answer, Failure> {
        let decoded = self.decode(call)?;
        let live = self.find(call)?;
        let mut object = (*live.value).clone();
        object["spec"] = decoded.object["spec"].clone();
        let value = self.change(call, &live, object, None)?;
        Ok(Answer::Object { code: 200, value, warnings: decoded.warnings })
    }

    /// A token that nobody checks.
    fn token(&mut self, call: &Call) -> Result<Answer, Failure> {
        let account = self.find(call)?;
        let uid = &account.value["metadata"]["uid"];
        let value = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": call.name, "namespace": call.namespace, "creationTimestamp": call.time()},
            "spec": {"expirationSeconds": 3600},
            "status": {"token": format!("{}.{uid}", call.name), "expirationTimestamp": call.time()},
        });
        Ok(Answer::Object { code: 201, value: Arc::new(value), warnings: Vec::new() })
    }
}
