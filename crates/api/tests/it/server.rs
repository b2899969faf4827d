//! The table against a real kube-apiserver.

use http::Request as HttpRequest;
use karpenter_api::crd;
use karpenter_testkit::ControlPlane;
use kube::Client;
use kube::api::{DeleteParams, GetParams, PostParams};
use kube::core::Request;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::offline;
use crate::table::{Case, Complaint, cases, differences, not_held};

/// The shared API server with every CRD on it, the legacy ones too.
pub(crate) async fn with_crds() -> &'static ControlPlane {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let cluster = ControlPlane::shared().await;
    INSTALLED
        .get_or_init(|| async {
            let crds = crd::all().into_iter().chain(crd::legacy()).map(|c| serde_json::from_value(c).unwrap());
            cluster.apply_crds(crds).await.unwrap();
        })
        .await;
    cluster
}

/// API-10: what the schema and the CEL rules of the CRDs say, on the server that enforces them.
#[tokio::test]
async fn every_row_of_the_table_gets_its_answer() {
    let client = with_crds().await.client();
    let mut wrong = Vec::new();
    for (number, case) in cases().iter().enumerate() {
        wrong.extend(Row { client: &client, case, name: format!("row-{number}") }.check().await);
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

struct Row<'a> {
    client: &'a Client,
    case: &'a Case,
    name: String,
}

impl Row<'_> {
    async fn check(&self) -> Vec<String> {
        let case = self.case;
        if case.change.is_none() && !case.refused.is_empty() {
            return match self.create(true).await {
                Err(said) => refusal(case, &said),
                Ok(_) => vec![format!("{}: accepted", case.name)],
            };
        }
        if let Err(said) = self.create(false).await {
            return vec![format!("{}: not created: {said:?}", case.name)];
        }
        let answer = self.change().await;
        let stored = self.get().await;
        self.delete().await;
        let mut wrong = match answer {
            Err(said) => refusal(case, &said),
            Ok(()) if case.refused.is_empty() => Vec::new(),
            Ok(()) => vec![format!("{}: accepted", case.name)],
        };
        if let Some(wanted) = &case.reads {
            wrong.extend(not_held(wanted, &stored, "").into_iter().map(|w| format!("{}: {w}", case.name)));
        }
        wrong
    }

    fn url(&self) -> String {
        let crd = self.case.crd;
        let namespace = if crd.namespaced { "namespaces/default/" } else { "" };
        format!("/apis/{}/{}/{namespace}{}", crd.group, crd.version, crd.plural)
    }

    async fn create(&self, dry_run: bool) -> Result<Value, Vec<Complaint>> {
        let mut object = self.case.object.clone();
        object["metadata"]["name"] = self.name.clone().into();
        let params = PostParams { dry_run, field_manager: None };
        self.send(Request::new(self.url()).create(&params, serde_json::to_vec(&object).unwrap())).await
    }

    /// Replaces the stored object by the changed one, on top of what the server has filled in outside of it.
    async fn change(&self) -> Result<(), Vec<Complaint>> {
        let Some(change) = &self.case.change else { return Ok(()) };
        let mut object = change.object.clone();
        object["metadata"] = self.get().await["metadata"].clone();
        for key in ["labels", "annotations"] {
            object["metadata"][key] = change.object["metadata"][key].clone();
        }
        let (request, body, params) =
            (Request::new(self.url()), serde_json::to_vec(&object).unwrap(), PostParams::default());
        let replace = if change.through_status {
            request.replace_subresource("status", &self.name, &params, body)
        } else {
            request.replace(&self.name, &params, body)
        };
        self.send(replace).await.map(drop)
    }

    async fn get(&self) -> Value {
        let request = Request::new(self.url()).get(&self.name, &GetParams::default()).unwrap();
        self.client.request(request).await.unwrap()
    }

    async fn delete(&self) {
        let request = Request::new(self.url()).delete(&self.name, &DeleteParams::default()).unwrap();
        self.client.request_text(request).await.unwrap();
    }

    async fn send<E: std::fmt::Debug>(
        &self,
        request: Result<HttpRequest<Vec<u8>>, E>,
    ) -> Result<Value, Vec<Complaint>> {
        let mut request = request.unwrap();
        let validation = if self.case.strict { "Strict" } else { "Ignore" };
        *request.uri_mut() = format!("{}&fieldValidation={validation}", request.uri()).parse().unwrap();
        self.client.request(request).await.map_err(|e| complaints(&self.case.name, e))
    }
}

/// Compares with the table, and word for word with what the offline validation says.
fn refusal(case: &Case, said: &[Complaint]) -> Vec<String> {
    let words = |complaints: Vec<Complaint>| {
        let mut words: Vec<Complaint> = complaints.into_iter().filter_map(essence).collect();
        words.sort();
        words.dedup();
        words
    };
    let (server, offline) = (words(said.to_vec()), words(offline::answer(case).0));
    let mut wrong = differences(case, said);
    if server != offline {
        wrong.push(format!("{}: the server says {server:?}, offline it is {offline:?}", case.name));
    }
    wrong
}

/// Leaves out where the two may differ: how they introduce an unknown member, why an expression could not be evaluated, and
/// that the server complains about a value that is neither integer nor string once more for each. Its texts repeat the path,
/// without `status` when the status alone was sent. What the scale subresource says, with a dot before the path, is the
/// server's alone.
fn essence(Complaint { field, message }: Complaint) -> Option<Complaint> {
    if field.starts_with('.') {
        return None;
    }
    let message = ["strict decoding error: ", " evaluating rule: "]
        .iter()
        .find_map(|start| message.split_once(start))
        .map_or(message.as_str(), |(_, rest)| rest);
    let mut message = message.replace("must be of type integer,string:", "must be of type integer:");
    if let Some((start, rest)) = message.split_once(" in body ") {
        let value = start.rsplit_once(": ").map_or(start, |(value, _path)| value);
        message = format!("{value}: {rest}");
    }
    Some(Complaint { field, message })
}

fn complaints(name: &str, error: kube::Error) -> Vec<Complaint> {
    let kube::Error::Api(status) = error else { panic!("{name}: {error}") };
    assert!(status.code == 422 || status.code == 400, "{name}: {status:?}");
    let causes = status.details.as_ref().map(|d| d.causes.as_slice()).unwrap_or_default();
    if causes.is_empty() {
        // A request that is not understood has no causes; unknown members are of this sort.
        return vec![Complaint { field: String::new(), message: status.message.clone() }];
    }
    let complaint = |field: &str, message: &str| Complaint { field: field.to_owned(), message: message.to_owned() };
    causes.iter().map(|c| complaint(&c.field, &c.message)).filter(|c| !c.is_remark()).collect()
}
