//! What is in the account.

use std::collections::{BTreeMap, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};

use super::{Death, Pace, Refusal};
use crate::cloud::{
    ApiError, ClusterInfo, FleetAnswer, FleetRequest, ImageInfo, InstanceInfo, InstanceProfileInfo, InstanceTypeInfo,
    LaunchTemplateRequest, PlacementGroupInfo, QueueMessage, ReservationInfo, SecurityGroupInfo, SubnetInfo, Tags,
    TemplateRef, TypeOffering,
};
use crate::fixtures::{ZONES, type_info};
use crate::interruption::status::InstanceStatusInfo;
use crate::pricing::{PriceBook, SpotPrice};
use crate::zonal_shift::ShiftInfo;

/// An instance and its times.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(super) info: InstanceInfo,
    pub shown_at: Timestamp,
    pub running_at: Timestamp,
    pub ending_since: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub boots: u32,
}

impl Machine {
    /// As it is now.
    pub fn info(&self, now: Timestamp) -> InstanceInfo {
        let state = match (self.ending_since, self.ended_at) {
            (Some(_), Some(ended)) if ended <= now => "terminated",
            (Some(_), _) => "shutting-down",
            _ if self.info.state != "pending" => &self.info.state,
            _ if self.running_at <= now => "running",
            _ => "pending",
        };
        InstanceInfo { state: state.to_owned(), ..self.info.clone() }
    }

    pub fn change(&mut self, change: impl FnOnce(&mut InstanceInfo)) {
        change(&mut self.info);
    }
}

#[derive(Debug)]
pub struct State {
    pub calls: Vec<&'static str>,
    pub(super) faults: BTreeMap<&'static str, VecDeque<ApiError>>,
    pub(super) death: Option<Death>,
    pub(super) dead: bool,
    pub pace: Pace,
    /// The cluster whose tags every request needs.
    pub cluster_name: String,
    pub types: Vec<InstanceTypeInfo>,
    pub offerings: Vec<TypeOffering>,
    pub spot_prices: Vec<SpotPrice>,
    /// Since when prices were asked for, each time.
    pub spot_prices_since: Vec<Timestamp>,
    pub images: Vec<(ImageInfo, Tags)>,
    pub subnets: Vec<(SubnetInfo, Tags)>,
    pub security_groups: Vec<(SecurityGroupInfo, Tags)>,
    pub reservations: Vec<(ReservationInfo, Tags)>,
    pub placement_groups: Vec<PlacementGroupInfo>,
    pub machines: BTreeMap<String, Machine>,
    pub(super) templates: BTreeMap<String, (TemplateRef, LaunchTemplateRequest)>,
    /// By token.
    pub(super) fleets: BTreeMap<String, (FleetRequest, FleetAnswer)>,
    /// All requests, in order.
    pub fleet_requests: Vec<FleetRequest>,
    /// Who gets nothing, and why.
    pub refusals: Vec<Refusal>,
    /// Fleets answer without an instance and without a word.
    pub silent_fleets: bool,
    pub statuses: Vec<InstanceStatusInfo>,
    pub profiles: BTreeMap<String, (InstanceProfileInfo, String, Tags)>,
    /// Roles that exist; any if empty.
    pub roles: Vec<String>,
    pub parameters: BTreeMap<String, String>,
    pub products: Vec<String>,
    pub metal_products: Vec<String>,
    pub cluster: Option<ClusterInfo>,
    pub shifts: Vec<ShiftInfo>,
    pub queue: VecDeque<QueueMessage>,
    pub(super) in_flight: Vec<QueueMessage>,
    pub(super) made: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            faults: BTreeMap::new(),
            death: None,
            dead: false,
            pace: Pace {
                shown_after: SignedDuration::ZERO,
                running_after: SignedDuration::from_secs(5),
                ended_after: SignedDuration::from_secs(20),
            },
            cluster_name: "test-cluster".to_owned(),
            types: Vec::new(),
            offerings: Vec::new(),
            spot_prices: Vec::new(),
            spot_prices_since: Vec::new(),
            images: Vec::new(),
            subnets: subnets(),
            security_groups: ["sg-test1", "sg-test2"].map(group).to_vec(),
            reservations: Vec::new(),
            placement_groups: Vec::new(),
            machines: BTreeMap::new(),
            templates: BTreeMap::new(),
            fleets: BTreeMap::new(),
            fleet_requests: Vec::new(),
            refusals: Vec::new(),
            silent_fleets: false,
            statuses: Vec::new(),
            profiles: BTreeMap::new(),
            roles: Vec::new(),
            parameters: BTreeMap::new(),
            products: Vec::new(),
            metal_products: Vec::new(),
            cluster: Some(ClusterInfo {
                arn: "arn:aws:eks:us-west-2:123456789012:cluster/test-cluster".to_owned(),
                endpoint: "https://test-cluster".to_owned(),
                version: "1.35".to_owned(),
                service_cidr: Some("10.100.0.0/16".to_owned()),
            }),
            shifts: Vec::new(),
            queue: VecDeque::new(),
            in_flight: Vec::new(),
            made: 0,
        }
    }
}

/// As the classes of the fixtures have them: one in each of three zones.
fn subnets() -> Vec<(SubnetInfo, Tags)> {
    let subnet = |(at, (zone, id)): (usize, &(&str, &str))| {
        let info = SubnetInfo {
            id: format!("subnet-test{}", at + 1),
            zone: (*zone).to_owned(),
            zone_id: Some((*id).to_owned()),
            free_addresses: 1000,
        };
        (info, Tags::from([("Name".to_owned(), format!("test-subnet-{}", at + 1))]))
    };
    ZONES[..3].iter().enumerate().map(subnet).collect()
}

fn group(id: &str) -> (SecurityGroupInfo, Tags) {
    let name = Some(format!("name-of-{id}"));
    (SecurityGroupInfo { id: id.to_owned(), name }, Tags::from([("Name".to_owned(), id.to_owned())]))
}

impl State {
    /// The process has ended at one of its calls.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Nothing is broken any more.
    pub fn calm(&mut self) {
        self.faults.clear();
        self.refusals.clear();
        self.pace.shown_after = SignedDuration::ZERO;
    }

    /// User data of all launch templates, as it was before base64.
    pub fn user_data(&self) -> Vec<String> {
        let texts = self.templates.values().map(|(_, request)| STANDARD.decode(&request.data.user_data));
        texts.flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
    }

    pub fn template_ids(&self) -> Vec<String> {
        self.templates.values().map(|(known, _)| known.id.clone()).collect()
    }

    pub(super) fn next(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}-{:017x}", self.made)
    }

    /// Types as they are in the catalogue, in three zones, on spot at half the price.
    pub fn sell(&mut self, names: &[&str]) {
        let prices = PriceBook::built_in("us-east-1");
        for name in names {
            self.types.push(type_info(name));
            for (zone, _) in &ZONES[..3] {
                let (instance_type, zone) = ((*name).to_owned(), (*zone).to_owned());
                self.offerings.push(TypeOffering { instance_type: instance_type.clone(), zone: zone.clone() });
                let Some(price) = prices.on_demand(name) else { continue };
                let price = (price.per_hour() / 2.0).to_string();
                self.spot_prices.push(SpotPrice { instance_type, zone, price, timestamp: Some(Timestamp::UNIX_EPOCH) });
            }
        }
    }
}
