//! What AWS answers, as plain values, and the narrow traits through which it is asked.
//!
//! An adapter over an SDK fills the traits; tests fill them by hand. Names and texts are as AWS spells them, and what AWS
//! may add one day (types, states, classes) is text, never an enum that could not hold it (AWS-250).

mod calls;
mod error;
mod instance_type;
mod instances;
mod launch;
mod resources;
mod services;

pub use calls::{Call, CallObserver, Unobserved};
pub use error::ApiError;
pub use instance_type::{
    Accelerator, AttachmentLimit, Gpu, InstanceStorage, InstanceTypeInfo, NetworkCard, NetworkInfo, NeuronDevice,
    Processor, TypeOffering,
};
pub use instances::InstanceInfo;
pub use launch::{
    BlockDeviceSpec, ConnectionTrackingSpec, EbsSpec, FleetAnswer, FleetConfig, FleetError, FleetInstance,
    FleetOverride, FleetRequest, InterfaceSpec, LaunchTemplateData, LaunchTemplateRequest, MetadataSpec, PlacementSpec,
    ReservationSpec, TagSpecification, Tags,
};
pub use resources::{
    Filter, ImageInfo, ImageQuery, PlacementGroupInfo, ReservationInfo, ReservationQuery, SecurityGroupInfo, SubnetInfo,
};
pub use services::{
    ClusterInfo, Ec2Reads, Ec2Writes, Iam, InstanceProfileInfo, Lookups, Queue, QueueMessage, Run, TemplateRef,
};
