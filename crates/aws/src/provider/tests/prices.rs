//! Prices, and the loop that keeps them.

use super::*;

fn product(name: &str, price: f64) -> String {
    json!({
        "product": {"attributes": {"instanceType": name}},
        "terms": {"OnDemand": {"t": {"priceDimensions": {"d": {"pricePerUnit": {"USD": price.to_string()}}}}}},
    })
    .to_string()
}

async fn on_demand(world: &World, name: &str) -> f64 {
    let types = world.provider.instance_types(&pool()).await.unwrap();
    let known = types.iter().find(|one| one.name == name).unwrap();
    let offering = known.offerings.iter().find(|one| one.capacity_type() == Some("on-demand")).unwrap();
    offering.price.per_hour()
}

/// AWS-204, AWS-208, AWS-210, AWS-212, AC-239, AC-240, AC-243, AC-250, AC-251: built-in prices until the list says otherwise; a failure changes nothing.
#[tokio::test(start_paused = true)]
async fn refreshes() {
    let world = World::new().await;
    assert!((on_demand(&world, "m5.large").await - 0.096).abs() < 1e-9);
    world.account.fail("GetProducts", &ApiError::new("InternalError", "x"), 2);
    assert!(world.provider.refresh_on_demand_prices().await.is_err());
    assert!(world.provider.refresh_on_demand_prices().await.is_err(), "an empty list");
    assert!((on_demand(&world, "m5.large").await - 0.096).abs() < 1e-9);
    world.account.lock().products = vec![product("m5.large", 1.2), product("c5.large", 1.3)];
    world.account.lock().metal_products = vec![product("m5.metal", 9.9)];
    assert_eq!(world.provider.refresh_on_demand_prices().await.unwrap(), Refreshed::Done);
    for (name, price) in [("m5.large", 1.2), ("c5.large", 1.3), ("m5.metal", 9.9)] {
        assert!((on_demand(&world, name).await - price).abs() < 1e-9, "{name}");
    }
    world.account.lock().products = vec![product("m5.large", 1.1)];
    world.provider.refresh_on_demand_prices().await.unwrap();
    assert!((on_demand(&world, "c5.large").await - 1.3).abs() < 1e-9, "the last price stays");

    let before = world.now();
    world.provider.refresh_spot_prices().await.unwrap();
    assert!(*world.account.lock().spot_prices_since.last().unwrap() >= before);
    world.account.lock().spot_prices.clear();
    assert!(world.provider.refresh_spot_prices().await.is_err());
    world.launched(&claim("a", &["m5.large"], &["spot"])).await;
}

/// AWS-209, AWS-281, AC-244, AC-245: no price list in isolated networks and government regions; spot all the same.
#[tokio::test(start_paused = true)]
async fn no_price_list() {
    for (isolated_vpc, region, why) in [
        (true, "us-west-2", crate::pricing::ListSkipped::IsolatedVpc),
        (false, "us-gov-west-1", crate::pricing::ListSkipped::GovernmentRegion),
    ] {
        let mut settings = settings();
        (settings.isolated_vpc, settings.sizing.region) = (isolated_vpc, region.to_owned());
        let world = World::with(settings, &["m5.large"]).await;
        assert_eq!(world.provider.refresh_on_demand_prices().await.unwrap(), Refreshed::Skipped(why));
        assert_eq!((world.account.calls("GetProducts"), world.account.calls("DescribeSpotPriceHistory")), (0, 1));
        let price = on_demand(&world, "m5.large").await;
        assert!(if isolated_vpc { (price - 0.096).abs() < 1e-9 } else { price > 0.096 }, "{price}");
    }
}

/// AWS-112, AWS-212, AC-181: the loop refreshes twice a day, sooner after a failure, and tidies up.
#[tokio::test(start_paused = true)]
async fn the_loop() {
    let world = World::new().await;
    world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    world.account.lock().products = vec![product("m5.large", 1.2)];
    world.account.lock().metal_products = vec![product("m5.metal", 9.9)];
    world.account.fail("DescribeSpotPriceHistory", &ApiError::new("RequestLimitExceeded", "x"), 2);
    world.account.forget_calls();
    let provider = world.provider.clone();
    let running = tokio::spawn(async move { provider.run().await });
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.account.calls("DescribeSpotPriceHistory"), 3, "at once and until it is answered");
    assert_eq!(world.account.calls("DescribeInstanceTypes"), 0, "just discovered");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.account.templates().len(), 0);
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert_eq!(world.account.calls("DescribeSpotPriceHistory"), 5);
    assert_eq!(
        (world.account.calls("DescribeInstanceTypes"), world.account.calls("DescribeInstanceTypeOfferings")),
        (2, 2)
    );
    running.abort();
}
