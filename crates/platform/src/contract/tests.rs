//! The suite itself: a small provider passes it, and each way of breaking it is noticed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use karpenter_model::claim::Status;
use karpenter_model::example;
use karpenter_model::instance_type::{InstanceType, Offering, Overhead, Overrides, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::overlay::{PoolTypes, evaluate};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};

use super::*;
use crate::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    NamesNothing,
    TypesWithoutRegion,
    OffersTwice,
    ReservesWithoutCount,
    PoliciesWithoutFallback,
    LeavesZoneOpen,
    JoinsUnguarded,
    LaunchesTwice,
    TakesAnyZone,
    ForgetsInList,
    FindsAnything,
    FindsOfOthers,
    FindsWhatWas,
    NeverEnds,
    KeepsInList,
    DriftsAtOnce,
    RebootsTwice,
}

#[derive(Debug, Default)]
struct Machines {
    by_uid: BTreeMap<String, Instance>,
    ever: BTreeMap<String, Instance>,
    boots: BTreeMap<String, Vec<String>>,
    claims: usize,
}

#[derive(Debug)]
struct Small {
    defect: Defect,
    rules: LabelRules,
    classes: Vec<NodeClassKind>,
    machines: Mutex<Machines>,
}

impl Small {
    fn with(defect: Defect) -> Arc<Self> {
        let class = ["example.com", "v1", "Class", "classes"].map(ToOwned::to_owned);
        let [group, version, kind, plural] = class;
        let classes =
            if defect == Defect::NamesNothing { vec![] } else { vec![NodeClassKind { group, version, kind, plural }] };
        Arc::new(Self { defect, rules: LabelRules::core(), classes, machines: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Machines> {
        self.machines.lock().unwrap()
    }

    fn only_type(&self) -> InstanceType {
        let reserved = self.defect == Defect::ReservesWithoutCount;
        let offering = Offering {
            requirements: Requirements::from_iter([
                Requirement::any_of(labels::ZONE, ["a"]),
                Requirement::any_of(labels::CAPACITY_TYPE, [if reserved { "reserved" } else { "spot" }]),
            ]),
            price: Price::ZERO,
            available: true,
            reservation_capacity: None,
            overrides: Overrides::default(),
        };
        let mut requirements: Requirements = [
            Requirement::any_of(labels::INSTANCE_TYPE, ["only"]),
            Requirement::any_of(labels::ZONE, ["a"]),
            Requirement::any_of(labels::CAPACITY_TYPE, ["spot", "reserved"]),
            Requirement::any_of(labels::ARCH, ["amd64"]),
            Requirement::any_of(labels::OS, ["linux"]),
            Requirement::does_not_exist(labels::WINDOWS_BUILD),
        ]
        .into_iter()
        .collect();
        if self.defect != Defect::TypesWithoutRegion {
            requirements.add(Requirement::does_not_exist(labels::REGION));
        }
        let times = if self.defect == Defect::OffersTwice { 2 } else { 1 };
        let four = |names: [&str; 3]| names.iter().map(|n| (n.to_string(), Quantity::units(4))).collect();
        InstanceType {
            name: "only".to_owned(),
            requirements,
            offerings: vec![offering; times],
            capacity: four(["cpu", "memory", "pods"]),
            overhead: Overhead::default(),
            attachment_limits: BTreeMap::new(),
            devices: karpenter_model::devices::TypeDevices::default(),
        }
    }
}

#[async_trait]
impl CloudProvider for Small {
    fn name(&self) -> &'static str {
        "small"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &self.classes
    }

    fn label_rules(&self) -> &LabelRules {
        &self.rules
    }

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        let only = self.only_type();
        let usable =
            !only.usable_offerings(&claim.requirements, &self.rules).is_empty() || self.defect == Defect::TakesAnyZone;
        if !usable || !claim.requests.fits(&only.allocatable()) {
            return Err(CreateError::InsufficientCapacity("none".to_owned()));
        }
        let mut machines = self.lock();
        if let Some(known) = machines.by_uid.get(&claim.uid) {
            return Ok(known.clone());
        }
        let number = machines.by_uid.len();
        let resolved =
            [("node.kubernetes.io/instance-type", "only"), (labels::ZONE, "a"), (labels::CAPACITY_TYPE, "spot")];
        let resolved = resolved.into_iter().chain([(labels::ARCH, "amd64"), (labels::OS, "linux")]);
        let instance = Instance {
            provider_id: format!("small://{}-{number}", claim.uid),
            image_id: None,
            labels: resolved
                .filter(|(key, _)| self.defect != Defect::LeavesZoneOpen || *key != labels::ZONE)
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            annotations: BTreeMap::new(),
            capacity: only.capacity.clone(),
            allocatable: only.allocatable(),
            terminating: false,
        };
        let key = if self.defect == Defect::LaunchesTwice { number.to_string() } else { claim.uid.clone() };
        machines.ever.insert(claim.uid.clone(), instance.clone());
        machines.by_uid.insert(key, instance.clone());
        Ok(instance)
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        if self.defect == Defect::NeverEnds {
            return Ok(());
        }
        let id = claim.provider_id.clone().unwrap();
        if self.defect != Defect::KeepsInList {
            self.lock().by_uid.retain(|_, known| known.provider_id != id);
        }
        Err(InstanceError::NotFound(id))
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        let machines = self.lock();
        let mut known = machines.by_uid.values();
        let found = known.find(|known| known.provider_id == provider_id || self.defect == Defect::FindsAnything);
        found.cloned().ok_or_else(|| InstanceError::NotFound(provider_id.to_owned()))
    }

    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        let machines = self.lock();
        Ok(match self.defect {
            Defect::FindsOfOthers => machines.by_uid.values().next().cloned(),
            Defect::FindsWhatWas => machines.ever.get(&claim.uid).cloned(),
            _ => machines.by_uid.get(&claim.uid).cloned(),
        })
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        Ok(if self.defect == Defect::ForgetsInList { vec![] } else { self.lock().by_uid.values().cloned().collect() })
    }

    async fn instance_types(&self, _: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        Ok(Arc::new(vec![self.only_type()]))
    }

    async fn drift(&self, _: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        Ok((self.defect == Defect::DriftsAtOnce).then(|| DriftReason::new("Old").unwrap()))
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        let expression = if self.defect == Defect::PoliciesWithoutFallback { ".*" } else { "" };
        vec![RepairPolicy {
            condition_type: "Ready".to_owned(),
            condition_status: Status::False,
            reason_expression: expression.to_owned(),
            toleration: Duration::ZERO,
            termination_grace_period: None,
            priority: 0,
            action: RepairAction::ReplaceNode,
        }]
    }

    async fn reboot(&self, claim: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        let id = claim.provider_id.clone().unwrap();
        let mut machines = self.lock();
        if !machines.by_uid.values().any(|known| known.provider_id == id) {
            return Err(RebootError::NotFound(id));
        }
        let operations = machines.boots.entry(id).or_default();
        if self.defect == Defect::RebootsTwice || !operations.iter().any(|known| known == operation_id) {
            operations.push(operation_id.to_owned());
        }
        Ok(())
    }
}

/// The provider itself, and the same one as the controllers have it.
struct SmallSubject(Arc<Small>, Arc<dyn CloudProvider>);

impl SmallSubject {
    fn plain(defect: Defect) -> Self {
        let small = Small::with(defect);
        Self(small.clone(), small)
    }

    fn wrapped(wrap: impl FnOnce(Arc<dyn CloudProvider>) -> Arc<dyn CloudProvider>) -> Self {
        let small = Small::with(Defect::None);
        Self(small.clone(), wrap(small))
    }
}

#[derive(Debug)]
struct Deaf;

impl CallObserver for Deaf {
    fn call_ended(&self, _: Call<'_>) {}
}

#[async_trait]
impl Subject for SmallSubject {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.1.clone()
    }

    fn pool(&self) -> PoolView {
        PoolView { node_class: claim_view("", "").node_class, ..example::pool("default") }
    }

    async fn new_claim(&self) -> ClaimView {
        self.0.lock().claims += 1;
        claim_view("claim", &format!("uid-{}", self.0.lock().claims))
    }

    async fn joined(&self, claim: &ClaimView, _: &Instance) -> ClaimView {
        claim.clone()
    }

    async fn taints(&self, _: &ClaimView) -> Vec<Taint> {
        if self.0.defect == Defect::JoinsUnguarded { vec![] } else { vec![Taint::unregistered()] }
    }

    async fn boot_id(&self, claim: &ClaimView) -> Option<String> {
        let machines = self.0.lock();
        machines.boots.get(claim.provider_id.as_ref()?).map(|operations| operations.len().to_string())
    }

    async fn pause(&self, _: Duration) {}

    fn patience(&self) -> Duration {
        Duration::from_mins(1)
    }
}

/// Each defect is found under the rule that it breaks, and a provider without one passes.
#[tokio::test]
async fn defects_are_found() {
    for (defect, want) in [
        (Defect::NamesNothing, "API-237"),
        (Defect::TypesWithoutRegion, "API-258"),
        (Defect::OffersTwice, "API-266"),
        (Defect::ReservesWithoutCount, "API-269"),
        (Defect::PoliciesWithoutFallback, "V15-27"),
        (Defect::LeavesZoneOpen, "API-238"),
        (Defect::JoinsUnguarded, "API-240"),
        (Defect::LaunchesTwice, "API-239"),
        (Defect::TakesAnyZone, "API-241"),
        (Defect::ForgetsInList, "API-244"),
        (Defect::FindsAnything, "API-244"),
        (Defect::FindsOfOthers, "LIF-130"),
        (Defect::FindsWhatWas, "LIF-130"),
        (Defect::NeverEnds, "API-242"),
        (Defect::KeepsInList, "API-242"),
        (Defect::DriftsAtOnce, "API-247"),
        (Defect::RebootsTwice, "V15-72"),
    ] {
        let found = violations(&SmallSubject::plain(defect)).await;
        assert!(found.iter().any(|broken| broken.starts_with(want)), "{defect:?}: {found:#?}");
    }
    assert_eq!(violations(&SmallSubject::plain(Defect::None)).await, Vec::<String>::new());
}

/// API-204, API-252, V15-117: a provider that is measured, and one with overlays over that, keep the contract as it does itself; of
/// what they say of themselves nothing is lost.
#[tokio::test]
async fn wrapped_providers_keep_the_contract() {
    let measured = |inner| Arc::new(Measured::new(inner, Arc::new(Deaf))) as Arc<dyn CloudProvider>;
    let overlaid = |inner| {
        let (rules, pool) = (LabelRules::core(), SmallSubject::plain(Defect::None).pool());
        let evaluation = evaluate(&[], &[PoolTypes { pool: &pool, instance_types: &[] }], &rules);
        let overlays = Arc::new(Overlays::default());
        overlays.publish(evaluation.store);
        Arc::new(Overlaid::new(inner, overlays)) as Arc<dyn CloudProvider>
    };
    for subject in [SmallSubject::wrapped(measured), SmallSubject::wrapped(|inner| overlaid(measured(inner)))] {
        assert_eq!(violations(&subject).await, Vec::<String>::new());
        assert_eq!(subject.1.repair_policies(), subject.0.repair_policies());
        assert_eq!((subject.1.name(), subject.1.node_classes()), (subject.0.name(), subject.0.node_classes()));
    }
}
