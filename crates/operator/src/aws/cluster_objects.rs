//! What the provider reads and writes of the cluster. It exists before the controllers and their watches do, hence the late
//! acquaintance.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_aws::provider::{ClaimLabels, NodeClasses};
use karpenter_controllers::Context;
use karpenter_platform::BoxError;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

#[derive(Default)]
pub(crate) struct ClusterObjects {
    context: OnceLock<Weak<Context>>,
    /// Classes are asked for at every look at instance types and change rarely: decoded once per version.
    decoded: Mutex<BTreeMap<String, Arc<EC2NodeClass>>>,
}

impl fmt::Debug for ClusterObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterObjects")
    }
}

impl ClusterObjects {
    /// Called once.
    pub(crate) fn meet(&self, context: &Arc<Context>) {
        let _ = self.context.set(Arc::downgrade(context));
    }

    pub(super) fn context(&self) -> Option<Arc<Context>> {
        self.context.get()?.upgrade()
    }
}

impl NodeClasses for ClusterObjects {
    fn get(&self, name: &str) -> Option<Arc<EC2NodeClass>> {
        let stored = self.context()?.node_classes.get(name)?;
        let mut decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        let known = decoded.get(name).filter(|class| class.uid() == stored.uid());
        if let Some(known) = known.filter(|class| class.resource_version() == stored.resource_version()) {
            return Some(known.clone());
        }
        // One that cannot be read is reported by the controllers of classes.
        let class: EC2NodeClass = serde_json::from_value(serde_json::to_value(stored.as_ref()).ok()?).ok()?;
        let class = Arc::new(class);
        decoded.insert(name.to_owned(), class.clone());
        Some(class)
    }
}

#[async_trait]
impl ClaimLabels for ClusterObjects {
    async fn set_label(&self, claim: &str, key: &str, value: &str) -> Result<(), BoxError> {
        let context = self.context().ok_or("the controllers have ended")?;
        let patch = json!({"metadata": {"labels": {key: value}}});
        let patched = context.claims_api().patch(claim, &PatchParams::default(), &Patch::Merge(patch)).await?;
        context.note_claim(patched);
        Ok(())
    }
}
