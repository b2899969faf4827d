//! Node classes and settings that go with the account.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::SignedDuration;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::{aws, labels};
use serde_json::{Value, json};

use crate::fixtures::{class_object, sizing};
use crate::provider::{NodeClasses, ProviderSettings};
use crate::user_data::Cluster;

/// Classes by name.
#[derive(Debug, Clone, Default)]
pub struct Classes {
    all: Arc<Mutex<BTreeMap<String, Arc<EC2NodeClass>>>>,
}

impl Classes {
    pub fn put(&self, class: EC2NodeClass) {
        let name = class.metadata.name.clone().unwrap_or_default();
        self.all.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(class));
    }

    pub fn remove(&self, name: &str) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl NodeClasses for Classes {
    fn get(&self, name: &str) -> Option<Arc<EC2NodeClass>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

fn image(id: &str, arch: &str, more: &[(&str, &str)]) -> Value {
    let mut all = vec![json!({"key": labels::ARCH, "operator": "In", "values": [arch]})];
    all.extend(more.iter().map(|(key, operator)| json!({"key": key, "operator": operator})));
    json!({"id": id, "requirements": all})
}

/// A class that may launch, with images for every architecture; members of `spec` and `status` replace its own.
pub fn ready_class(spec: &Value, status: &Value) -> EC2NodeClass {
    let standard = [(aws::INSTANCE_GPU_COUNT, "DoesNotExist"), (aws::INSTANCE_ACCELERATOR_COUNT, "DoesNotExist")];
    let mut all = json!({
        "amis": [
            image("ami-amd", "amd64", &standard),
            image("ami-arm", "arm64", &standard),
            image("ami-gpu", "amd64", &[(aws::INSTANCE_GPU_COUNT, "Exists")]),
        ],
        "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-11-16T04:00:00Z"}],
    });
    for (key, value) in status.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    class_object(spec, &all)
}

pub fn cluster() -> Cluster {
    Cluster {
        name: "test-cluster".to_owned(),
        endpoint: "https://test-cluster".to_owned(),
        ca_bundle: Some("Y2E=".to_owned()),
        service_cidr: None,
        dns: "10.100.0.10".parse().ok(),
    }
}

pub fn settings() -> ProviderSettings {
    ProviderSettings {
        cluster: cluster(),
        sizing: sizing(),
        isolated_vpc: false,
        reserved_capacity: true,
        subnet_refresh_interval: SignedDuration::from_mins(1),
        reboot_reasons: Vec::new(),
        kubelet_expressions: false,
    }
}
