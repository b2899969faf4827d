//! How the account sells instances.

use jiff::Timestamp;

use super::{Machine, State};
use crate::cloud::{
    ApiError, FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetRequest, InstanceInfo,
    LaunchTemplateRequest, Tags,
};

/// Overrides that get nothing; `None` stands for any.
#[derive(Debug, Clone, Default)]
pub struct Refusal {
    pub code: String,
    pub message: String,
    pub instance_type: Option<String>,
    pub zone: Option<String>,
    /// As the request says: `on-demand`, `spot`, ….
    pub capacity_type: Option<String>,
    /// The error does not say what it is about.
    pub anonymous: bool,
}

impl Refusal {
    pub fn all(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), ..Self::default() }
    }

    pub fn of(code: &str, instance_type: &str, zone: &str) -> Self {
        let (instance_type, zone) = (Some(instance_type.to_owned()), Some(zone.to_owned()));
        Self { instance_type, zone, ..Self::all(code, "no") }
    }

    fn is_about(&self, one: &FleetOverride, capacity_type: &str) -> bool {
        let fits = |asked: &Option<String>, is: &str| asked.as_deref().is_none_or(|asked| asked == is);
        fits(&self.instance_type, &one.instance_type)
            && fits(&self.zone, &one.zone)
            && fits(&self.capacity_type, capacity_type)
    }
}

/// What the published policy asks of the tags of whatever is created (AWS-241).
pub(super) fn allowed(tags: &Tags, cluster: &str) -> Result<(), ApiError> {
    let has = |key: &str, value: &str| tags.get(key).is_some_and(|is| is == value);
    let fine = has(&format!("kubernetes.io/cluster/{cluster}"), "owned")
        && has("eks:eks-cluster-name", cluster)
        && tags.contains_key("karpenter.sh/nodepool");
    if fine { Ok(()) } else { Err(ApiError::new("UnauthorizedOperation", "no identity-based policy allows it")) }
}

/// What the policy asks of the tags of what is changed or deleted.
pub(super) fn owned(tags: &Tags, cluster: &str) -> Result<(), ApiError> {
    let owned = tags.get(&format!("kubernetes.io/cluster/{cluster}")).is_some_and(|value| value == "owned");
    if owned && tags.contains_key("karpenter.sh/nodepool") {
        Ok(())
    } else {
        Err(ApiError::new("UnauthorizedOperation", "no identity-based policy allows it"))
    }
}

impl State {
    pub(super) fn fleet(
        &mut self,
        request: &FleetRequest,
        token: &str,
        now: Timestamp,
    ) -> Result<FleetAnswer, ApiError> {
        if let Some((known, answer)) = self.fleets.get(token) {
            let mismatch =
                || ApiError::new("IdempotentParameterMismatch", "the client token was used for another request");
            return if known == request { Ok(answer.clone()) } else { Err(mismatch()) };
        }
        for kind in ["instance", "volume", "fleet"] {
            let tags = request.tags.iter().find(|one| one.resource_type == kind);
            let none = Tags::new();
            allowed(tags.map_or(&none, |one| &one.tags), &self.cluster_name)?;
        }
        if let Some(lost) = request.configs.iter().find(|config| !self.templates.contains_key(&config.template_name)) {
            let message = format!("launch template {} does not exist", lost.template_name);
            return Err(ApiError::new("InvalidLaunchTemplateName.NotFoundException", &message));
        }
        self.fleet_requests.push(request.clone());
        let mut answer = FleetAnswer::default();
        for _ in 0..if self.silent_fleets { 0 } else { request.target_capacity } {
            self.sell_one(request, &mut answer, now);
        }
        self.fleets.insert(token.to_owned(), (request.clone(), answer.clone()));
        Ok(answer)
    }

    /// The cheapest override that is not refused.
    fn sell_one(&mut self, request: &FleetRequest, answer: &mut FleetAnswer, now: Timestamp) {
        let mut ways: Vec<(&FleetConfig, &FleetOverride)> =
            request.configs.iter().flat_map(|config| config.overrides.iter().map(move |one| (config, one))).collect();
        ways.sort_by(|a, b| a.1.priority.total_cmp(&b.1.priority));
        for (config, one) in ways {
            let template = self.templates[&config.template_name].1.clone();
            let Some((code, message, anonymous)) = self.refused(request, &template, one) else {
                answer.instances.push(self.launch(request, &template, one, now));
                return;
            };
            let text = |text: &str| if anonymous { String::new() } else { text.to_owned() };
            answer.errors.push(FleetError {
                code,
                message,
                instance_type: text(&one.instance_type),
                zone: text(&one.zone),
                subnet_id: text(&one.subnet_id),
                template_name: text(&config.template_name),
            });
        }
    }

    fn refused(
        &mut self,
        request: &FleetRequest,
        template: &LaunchTemplateRequest,
        one: &FleetOverride,
    ) -> Option<(String, String, bool)> {
        if let Some(refusal) = self.refusals.iter().find(|refusal| refusal.is_about(one, request.default_capacity_type))
        {
            return Some((refusal.code.clone(), refusal.message.clone(), refusal.anonymous));
        }
        let no = |code: &str| Some((code.to_owned(), "no".to_owned(), false));
        if let Some(target) = template.data.reservation.as_ref().and_then(|spec| spec.target.as_ref()) {
            let left = self.reservations.iter_mut().map(|(info, _)| info).find(|info| info.id == *target);
            match left.filter(|info| info.available > 0) {
                Some(info) => info.available -= 1,
                None => return no("ReservationCapacityExceeded"),
            }
        }
        let subnet = self.subnets.iter_mut().map(|(info, _)| info).find(|info| info.id == one.subnet_id);
        match subnet {
            None => no("InvalidSubnetID.NotFound"),
            Some(info) if info.free_addresses <= 0 => no("InsufficientFreeAddressesInSubnet"),
            Some(info) => {
                info.free_addresses -= 1;
                None
            }
        }
    }

    fn launch(
        &mut self,
        request: &FleetRequest,
        template: &LaunchTemplateRequest,
        one: &FleetOverride,
        now: Timestamp,
    ) -> FleetInstance {
        let id = self.next("i");
        let data = &template.data;
        let tags = request.tags.iter().find(|tags| tags.resource_type == "instance");
        let spot = request.default_capacity_type == "spot";
        let info = InstanceInfo {
            id: id.clone(),
            state: "pending".to_owned(),
            image_id: one.image_id.clone(),
            instance_type: one.instance_type.clone(),
            zone: one.zone.clone(),
            subnet_id: one.subnet_id.clone(),
            security_groups: data.interfaces.iter().flat_map(|one| one.security_groups.clone()).collect(),
            launched: Some(now),
            tags: tags.map(|tags| tags.tags.clone()).unwrap_or_default(),
            spot_request_id: spot.then(|| format!("sir-{id}")),
            reservation_id: data.reservation.as_ref().and_then(|spec| spec.target.clone()),
            reservation_preference: data.reservation.as_ref().map(|spec| spec.preference.to_owned()),
            lifecycle: data.market.map(str::to_owned).or_else(|| spot.then(|| "spot".to_owned())),
            tenancy: Some(data.placement.tenancy.clone()),
            has_efa: data.interfaces.iter().any(|one| one.kind.as_deref().is_some_and(|kind| kind.starts_with("efa"))),
            partition: data.placement.partition,
        };
        let later = |by| now.saturating_add(by).unwrap_or(Timestamp::MAX);
        let machine = Machine {
            info,
            shown_at: later(self.pace.shown_after),
            running_at: later(self.pace.running_after),
            ending_since: None,
            ended_at: None,
            boots: 1,
        };
        self.machines.insert(id.clone(), machine);
        FleetInstance {
            id,
            instance_type: one.instance_type.clone(),
            zone: one.zone.clone(),
            subnet_id: one.subnet_id.clone(),
            template_name: template.name.clone(),
        }
    }
}
