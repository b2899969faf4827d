//! Storage: what pods with volumes wait for.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_api::convert;
use karpenter_state::{Change, Source, VolumeChange};

use super::{Follower, ObjectId};
use crate::context::Context;

/// A kind of storage object: how it is read, and what it means that it is gone. Pods that wait for storage are tried
/// again when it changes.
macro_rules! storage {
    ($follower:ident, $object:ty, $source:ident, $read:expr, $gone:expr, $name:expr) => {
        pub(super) struct $follower<'a>(pub(super) &'a Context);

        impl Follower for $follower<'_> {
            type Object = $object;

            fn applied(&self, object: $object) {
                let read: fn(&Context, &$object) -> VolumeChange = $read;
                let change = read(self.0, &object);
                self.0.state().apply(Change::Volume(change));
                self.0.provision.nudge();
            }

            fn gone(&self, id: &ObjectId) {
                self.0.state().apply(Change::Volume($gone(id)));
            }

            fn listed(&self, ids: BTreeSet<ObjectId>) {
                let known = ids.iter().map($name).collect();
                self.0.state().apply(Change::Listed(Source::$source, known));
                self.0.provision.nudge();
            }
        }
    };
}

storage!(
    VolumeClaims,
    PersistentVolumeClaim,
    VolumeClaims,
    |_, claim| VolumeChange::Claim(Arc::new(convert::volume_claim(claim))),
    |id: &ObjectId| VolumeChange::ClaimGone(id.clone()),
    ToString::to_string
);
storage!(
    Volumes,
    PersistentVolume,
    Volumes,
    |ctx, volume| {
        let converted = convert::volume(volume, ctx.provider.label_rules());
        ctx.report.problems(&converted.problems);
        VolumeChange::Volume(Arc::new(converted.view))
    },
    |id: &ObjectId| VolumeChange::VolumeGone(id.name.to_string()),
    |id| id.name.to_string()
);
storage!(
    StorageClasses,
    StorageClass,
    StorageClasses,
    |ctx, class| VolumeChange::Class(Arc::new(convert::storage_class(class, ctx.provider.label_rules()))),
    |id: &ObjectId| VolumeChange::ClassGone(id.name.to_string()),
    |id| id.name.to_string()
);
storage!(
    CsiNodes,
    CSINode,
    CsiNodes,
    |_, node| VolumeChange::CsiNode(Arc::new(convert::csi_node(node))),
    |id: &ObjectId| VolumeChange::CsiNodeGone(id.name.to_string()),
    |id| id.name.to_string()
);
storage!(
    Attachments,
    VolumeAttachment,
    Attachments,
    |_, attachment| VolumeChange::Attachment(Arc::new(convert::attachment(attachment))),
    |id: &ObjectId| VolumeChange::AttachmentGone(id.name.to_string()),
    |id| id.name.to_string()
);
