//! What a class selects: images, subnets, groups, reservations and placement groups, as EC2 describes them.

use jiff::Timestamp;

/// A filter of a describe call: any of the values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    pub name: String,
    pub values: Vec<String>,
}

impl Filter {
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), values: values.into_iter().map(Into::into).collect() }
    }
}

/// A DescribeImages call; deprecated images are always asked for, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageQuery {
    pub filters: Vec<Filter>,
    pub owners: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageInfo {
    pub id: String,
    pub name: String,
    /// `x86_64`, `arm64`, ….
    pub architecture: String,
    pub created: Option<Timestamp>,
    pub deprecated: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubnetInfo {
    pub id: String,
    pub zone: String,
    pub zone_id: Option<String>,
    pub free_addresses: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecurityGroupInfo {
    pub id: String,
    pub name: Option<String>,
}

/// A DescribeCapacityReservations call: by one id, or by filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationQuery {
    pub id: Option<String>,
    pub filters: Vec<Filter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReservationInfo {
    pub id: String,
    pub zone: String,
    pub instance_type: String,
    pub owner_id: String,
    /// `open` or `targeted`.
    pub match_criteria: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    pub interruptible: Option<bool>,
    pub ends: Option<Timestamp>,
    pub available: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementGroupInfo {
    pub id: String,
    pub name: String,
    pub strategy: String,
    pub partitions: Option<u32>,
}
