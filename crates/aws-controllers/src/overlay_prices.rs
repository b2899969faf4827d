//! Types without a price may get one from an overlay (AWS-135). Overlays are judged by the core; here they are only read.

use karpenter_api::kinds::NodeOverlay;
use karpenter_aws::pricing::overlay_prices;
use karpenter_controllers::queue::ReconcileError;
use kube::Api;
use kube::api::ListParams;
use kube::core::DeserializeGuard;

use crate::Aws;

/// Those that cannot be read are told of by the core.
pub(crate) async fn round(aws: &Aws) -> Result<(), ReconcileError> {
    let api: Api<DeserializeGuard<NodeOverlay>> = Api::all(aws.ctx.client.clone());
    let all = api.list(&ListParams::default()).await?;
    let readable: Vec<NodeOverlay> = all.into_iter().filter_map(|guard| guard.0.ok()).collect();
    aws.shared.overlay_prices_read(overlay_prices(&readable));
    Ok(())
}
