use karpenter_model::example;
use karpenter_model::instance_type::{Offering, Overhead, Overrides};
use karpenter_model::labels::LabelRules;
use karpenter_model::overlay::{OverlayView, PoolTypes, PriceChange, evaluate};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirements;

use super::*;
use crate::NodeClassKind;

const SLOTS: &str = "example.com/slots";

fn sort(name: &str, cpu: i64, price: f64) -> InstanceType {
    let offering = |zone: &str, price: f64| Offering {
        requirements: [Requirement::any_of(labels::ZONE, [zone]), Requirement::any_of(labels::CAPACITY_TYPE, ["spot"])]
            .into_iter()
            .collect(),
        price: Price::new(price).unwrap(),
        available: true,
        reservation_capacity: None,
        overrides: Overrides::default(),
    };
    InstanceType {
        name: name.to_owned(),
        requirements: [
            Requirement::any_of(labels::INSTANCE_TYPE, [name]),
            Requirement::any_of(labels::ZONE, ["a", "b"]),
        ]
        .into_iter()
        .collect(),
        offerings: vec![offering("a", price), offering("b", price + 0.01)],
        capacity: Resources::new().with("cpu", Quantity::units(cpu)),
        overhead: Overhead::default(),
        attachment_limits: BTreeMap::new(),
        devices: karpenter_model::devices::TypeDevices::default(),
    }
}

/// Sells what it is asked for, the cheapest first, except what is sold out.
#[derive(Debug)]
struct Shop {
    rules: LabelRules,
    types: Arc<Vec<InstanceType>>,
    sold_out: Vec<&'static str>,
    asked: Mutex<Vec<String>>,
    broken: bool,
}

impl Shop {
    fn new(sold_out: Vec<&'static str>) -> Arc<Self> {
        let types = Arc::new(vec![sort("small", 2, 1.0), sort("medium", 4, 2.0), sort("large", 8, 4.0)]);
        Arc::new(Self { rules: LabelRules::core(), types, sold_out, asked: Mutex::default(), broken: false })
    }
}

#[async_trait]
impl CloudProvider for Shop {
    fn name(&self) -> &'static str {
        "shop"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &[]
    }

    fn label_rules(&self) -> &LabelRules {
        &self.rules
    }

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        let named = claim.requirements.get(labels::INSTANCE_TYPE).cloned().unwrap();
        let sold = self.types.iter().filter(|known| named.has(&known.name)).find_map(|known| {
            let offered = known.launchable_offerings(&claim.requirements, &self.rules);
            let zone = offered.first()?.zone()?.to_owned();
            Some((known, zone))
        });
        let (known, zone) = sold.ok_or_else(|| CreateError::InsufficientCapacity("nothing asked for".into()))?;
        self.asked.lock().unwrap().push(format!("{} {zone} {}", known.name, claim.requests));
        if self.sold_out.contains(&&*known.name) {
            return Err(CreateError::InsufficientCapacity(known.name.clone()));
        }
        Ok(Instance {
            provider_id: "shop://1".to_owned(),
            image_id: None,
            labels: BTreeMap::from([(labels::INSTANCE_TYPE.to_owned(), known.name.clone())]),
            annotations: BTreeMap::new(),
            capacity: known.capacity.clone(),
            allocatable: known.capacity.clone(),
            terminating: false,
        })
    }

    async fn delete(&self, _: &ClaimView) -> Result<(), InstanceError> {
        Ok(())
    }

    async fn get(&self, _: &str) -> Result<Instance, InstanceError> {
        Err(InstanceError::NotFound("x".into()))
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        Ok(Vec::new())
    }

    async fn instance_types(&self, _: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        if self.broken {
            return Err(CallError::new("DescribeInstanceTypes", "boom").into());
        }
        Ok(self.types.clone())
    }
}

fn overlay(name: &str, on: &[&str], price: &str, slots: Option<i64>) -> OverlayView {
    let capacity = slots.map(|slots| Resources::new().with(SLOTS, Quantity::units(slots))).unwrap_or_default();
    OverlayView {
        name: name.to_owned(),
        weight: 1,
        requirements: [Requirement::any_of(labels::INSTANCE_TYPE, on.iter().copied())].into_iter().collect(),
        price: PriceChange::parse(price).unwrap(),
        capacity,
        invalid: None,
    }
}

fn evaluated(shop: &Shop, overlays: &[OverlayView]) -> Overlays {
    let pool = example::pool("blue");
    let all = [PoolTypes { pool: &pool, instance_types: &shop.types }];
    let published = Overlays::default();
    published.publish(evaluate(overlays, &all, &shop.rules).store);
    published
}

fn claim(requests: Resources) -> ClaimView {
    let requirements: Requirements =
        [Requirement::any_of(labels::INSTANCE_TYPE, ["small", "medium", "large"])].into_iter().collect();
    ClaimView { pool: Some("blue".to_owned()), requirements: requirements.into(), requests, ..example::claim("c") }
}

/// API-95, SCH-174, SC-272, V15-107: no pool has types before it was evaluated; errors name their pool.
#[tokio::test]
async fn pools_wait_for_their_evaluation() {
    let shop = Shop::new(vec![]);
    let overlays = Arc::new(evaluated(&shop, &[]));
    let provider = Overlaid::new(shop.clone(), overlays);
    assert!(provider.instance_types(&example::pool("blue")).await.is_ok());
    let waiting = provider.instance_types(&example::pool("red")).await.unwrap_err();
    assert!(matches!(&waiting, InstanceTypesError::UnevaluatedNodePool(name) if name == "red"), "{waiting}");
    assert!(waiting.is_quiet());
    let broken = Arc::new(Shop {
        broken: true,
        types: shop.types.clone(),
        rules: LabelRules::core(),
        sold_out: vec![],
        asked: Mutex::default(),
    });
    let provider = Overlaid::new(broken, Arc::new(Overlays::default()));
    let error = provider.instance_types(&example::pool("blue")).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.to_string().contains("nodepool blue"), "{source}");
}

/// SCH-177, API-96: types are copies, the same ones until something changes, and all at once afterwards.
#[tokio::test]
async fn types_are_the_same_until_something_changes() {
    let shop = Shop::new(vec![]);
    let overlays = Arc::new(evaluated(&shop, &[overlay("dear", &["small"], "+9", None)]));
    let provider = Overlaid::new(shop.clone(), overlays.clone());
    let pool = example::pool("blue");
    let (first, again) = (provider.instance_types(&pool).await.unwrap(), provider.instance_types(&pool).await.unwrap());
    assert!(Arc::ptr_eq(&first, &again));
    let prices =
        |types: &[InstanceType]| -> Vec<f64> { types.iter().map(|t| t.offerings[0].price.per_hour()).collect() };
    assert_eq!((prices(&first), prices(&shop.types)), (vec![10.0, 2.0, 4.0], vec![1.0, 2.0, 4.0]));
    overlays.publish(OverlayStore::clone(&evaluated(&shop, &[]).in_force()));
    let plain = provider.instance_types(&pool).await.unwrap();
    assert!(Arc::ptr_eq(&plain, &shop.types), "nothing is laid over, so nothing is copied");
}

/// SC-276: what is launched is the cheapest by the overlaid prices, then the next; the cloud chooses when a few are sold out.
#[tokio::test]
async fn overlaid_prices_decide_what_is_launched() {
    let dear = [overlay("dear", &["small"], "+9", None)];
    let small = Resources::new().with("cpu", Quantity::units(1));
    for (sold_out, overlays, want) in [
        (vec![], &dear[..], vec!["medium a cpu: 1"]),
        (vec![], &[][..], vec!["small a cpu: 1"]),
        (vec!["medium"], &dear[..], vec!["medium a cpu: 1", "medium b cpu: 1", "large a cpu: 1"]),
    ] {
        let shop = Shop::new(sold_out);
        let provider = Overlaid::new(shop.clone(), Arc::new(evaluated(&shop, overlays)));
        provider.instance_types(&example::pool("blue")).await.unwrap();
        provider.create(&claim(small.clone())).await.unwrap();
        assert_eq!(*shop.asked.lock().unwrap(), want);
    }
    let shop = Shop::new(vec!["small", "medium", "large"]);
    let provider = Overlaid::new(shop.clone(), Arc::new(evaluated(&shop, &dear)));
    provider.instance_types(&example::pool("blue")).await.unwrap();
    assert!(provider.create(&claim(small)).await.is_err());
    assert_eq!(shop.asked.lock().unwrap().len(), TRIES + 1);
}

/// SCH-179: a machine has what is laid over its type.
#[tokio::test]
async fn machines_have_what_overlays_say() {
    let shop = Shop::new(vec![]);
    let provider =
        Overlaid::new(shop.clone(), Arc::new(evaluated(&shop, &[overlay("slots", &["medium"], "", Some(4))])));
    let types = provider.instance_types(&example::pool("blue")).await.unwrap();
    assert_eq!(types[1].capacity.to_string(), "cpu: 4, example.com/slots: 4");
    let wants = Resources::new().with("cpu", Quantity::units(1)).with(SLOTS, Quantity::units(3));
    let made = provider.create(&claim(wants)).await.unwrap();
    assert_eq!(made.allocatable.to_string(), "cpu: 4, example.com/slots: 4");
    assert_eq!(*shop.asked.lock().unwrap(), ["medium a cpu: 1, example.com/slots: 4"]);
}
