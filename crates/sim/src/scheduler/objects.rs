//! The kinds of objects that decide where a pod may go.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};

macro_rules! objects {
    ($($kind:ident),+) => {
        /// One object of a kind the scheduler watches.
        #[derive(Debug, Clone)]
        pub enum Object { $($kind(Arc<$kind>)),+ }
        $(impl From<$kind> for Object {
            fn from(object: $kind) -> Self { Self::$kind(Arc::new(object)) }
        })+
        $(impl From<Arc<$kind>> for Object {
            fn from(object: Arc<$kind>) -> Self { Self::$kind(object) }
        })+
    };
}

objects!(
    Namespace,
    Node,
    Pod,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    VolumeAttachment,
    PodDisruptionBudget
);
