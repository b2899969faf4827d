//! Whether there is anything to serve: definitions may be installed at any time, and the right to read them later still.

use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use kube::core::DynamicObject;

use crate::{Kind, Legacy};

/// How soon a cluster that does not have the kind is asked again.
const AGAIN: Duration = Duration::from_mins(1);
/// How soon a question that was not answered is asked again.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Served,
    Unknown,
    Forbidden,
}

/// Waits until objects of the kind can be read. Meanwhile there are none.
pub(crate) async fn until_served(legacy: &Legacy, kind: &Kind) {
    let mut told = None;
    loop {
        let answer = match ask(legacy, kind).await {
            Ok(Answer::Served) => return,
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(kind = kind.resource.kind, %error, "cannot ask whether legacy objects are served");
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        if told.as_ref() != Some(&answer) {
            if answer == Answer::Forbidden {
                tracing::warn!(
                    kind = kind.resource.kind,
                    "legacy objects are installed, but may not be read: set legacy.enabled of the chart karpenter"
                );
            }
            legacy.all_known(kind);
            told = Some(answer);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn ask(legacy: &Legacy, kind: &Kind) -> Result<Answer, kube::Error> {
    let resource = &kind.resource;
    let served = match legacy.ctx.client.list_api_group_resources(&resource.api_version).await {
        Ok(list) => list.resources.iter().any(|known| known.kind == resource.kind),
        // Not an object of the API but a page: the group is unknown altogether.
        Err(kube::Error::Api(status)) if status.code == 404 => false,
        Err(error) => return Err(error),
    };
    if !served {
        return Ok(Answer::Unknown);
    }
    let api: Api<DynamicObject> = Api::all_with(legacy.ctx.client.clone(), resource);
    match api.list(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(Answer::Served),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Answer::Forbidden),
        Err(error) => Err(error),
    }
}
