use jiff::Timestamp;

use super::*;

fn price(amount: f64) -> Price {
    Price::new(amount).unwrap()
}

fn item(instance_type: &str, currency: &str, amount: &str) -> String {
    format!(
        r#"{{"product":{{"productFamily":"Compute Instance","attributes":{{"instanceType":"{instance_type}","vcpu":"2"}}}},
        "terms":{{"OnDemand":{{"A.B":{{"priceDimensions":{{"A.B.C":{{"unit":"Hrs","pricePerUnit":{{"{currency}":"{amount}"}}}}}}}}}},"Reserved":{{}}}}}}"#
    )
}

fn listed(region: &str, items: &[String]) -> BTreeMap<String, Price> {
    parse_products(region, items.iter().map(String::as_str))
}

fn spot(instance_type: &str, zone: &str, price: &str) -> SpotPrice {
    SpotPrice {
        instance_type: instance_type.to_owned(),
        zone: zone.to_owned(),
        price: price.to_owned(),
        timestamp: Some(Timestamp::UNIX_EPOCH),
    }
}

/// AWS-204, AWS-209, AC-239, AC-244, AC-245, AC-246, AC-252: the built-in tables, before or without any answer.
#[test]
fn built_in_prices() {
    let book = PriceBook::built_in("us-east-1");
    assert_eq!(book.on_demand("m5.large"), Some(price(0.096)));
    assert_eq!(book.on_demand("c3.2xlarge"), Some(price(0.42)));
    assert_eq!(book.spot("c5.large", "anywhere"), book.on_demand("c5.large"));
    assert!(book.on_demand("c5.large") > Some(Price::ZERO));
    assert_eq!(PriceBook::built_in("ap-south-1"), book, "the table of us-east-1 stands in");
    let government = PriceBook::built_in("us-gov-west-1");
    assert!(government.on_demand("m5.large") > book.on_demand("m5.large"));
    assert_eq!((book.on_demand("x1.nothing"), book.spot("x1.nothing", "a")), (None, None));

    for (region, isolated, want) in [
        ("us-east-1", false, None),
        ("us-east-1", true, Some(ListSkipped::IsolatedVpc)),
        ("us-gov-west-1", false, Some(ListSkipped::GovernmentRegion)),
        ("us-gov-east-1", true, Some(ListSkipped::IsolatedVpc)),
    ] {
        assert_eq!(on_demand_skipped(region, isolated), want, "{region}");
    }
}

/// AWS-205.
#[test]
fn where_prices_are_asked_for() {
    for (region, want) in [
        ("us-west-2", "us-east-1"),
        ("ap-south-1", "ap-south-1"),
        ("ap-northeast-3", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("eu-west-1", "eu-central-1"),
        ("sa-east-1", "us-east-1"),
        ("", "us-east-1"),
    ] {
        assert_eq!(pricing_endpoint_region(region), want, "{region}");
    }
}

/// AWS-206: the two queries.
#[test]
fn price_list_queries() {
    let [shared, metal] = on_demand_queries("eu-west-1");
    let text = |query: &ProductQuery| {
        let filters: Vec<String> = query.filters.iter().map(|(field, value)| format!("{field}={value}")).collect();
        format!("{} {} {}", query.service_code, query.page_size, filters.join(" "))
    };
    let common = "AmazonEC2 100 regionCode=eu-west-1 serviceCode=AmazonEC2 preInstalledSw=NA operatingSystem=Linux \
                  capacitystatus=Used marketoption=OnDemand";
    assert_eq!(text(&shared), format!("{common} tenancy=Shared productFamily=Compute Instance"));
    assert_eq!(text(&metal), format!("{common} tenancy=Dedicated productFamily=Compute Instance (bare metal)"));
}

/// AWS-207, AWS-208, AC-240, AC-241, AC-242, AC-243: items of several pages merge; what they leave out stays.
#[test]
fn price_list() {
    let mut book = PriceBook::built_in("us-east-1");
    let pages = [
        [item("c98.large", "USD", "1.20"), item("c99.large", "USD", "1.23")],
        [item("d98.large", "USD", "2.20"), item("d99.large", "USD", "2.23")],
        [item("e98.large", "USD", "3.20"), item("e99.large", "USD", "3.23")],
    ];
    let shared = listed("us-east-1", pages.as_flattened());
    assert_eq!(shared.len(), 6);
    let metal = || listed("us-east-1", &[item("c98.metal", "USD", "9")]);
    book.merge_on_demand(shared, metal()).unwrap();
    assert_eq!(book.on_demand("c98.large"), Some(price(1.20)));
    assert_eq!(book.on_demand("e99.large"), Some(price(3.23)));
    assert_eq!(book.on_demand("c98.metal"), Some(price(9.0)));
    assert_eq!(book.on_demand("m5.large"), Some(price(0.096)), "not in the answer, not forgotten");
    book.merge_on_demand(listed("us-east-1", &[item("c98.large", "USD", "1.5")]), metal()).unwrap();
    assert_eq!((book.on_demand("c98.large"), book.on_demand("c99.large")), (Some(price(1.5)), Some(price(1.23))));

    let before = book.clone();
    let empty = BTreeMap::new;
    assert_eq!(book.merge_on_demand(empty(), metal()), Err(PriceError::NoProducts("shared")));
    assert_eq!(book.merge_on_demand(metal(), empty()), Err(PriceError::NoProducts("bare metal")));
    assert_eq!(book, before);
}

/// AWS-207, AC-241: currencies, and items that say nothing.
#[test]
fn items_that_count() {
    let chinese = [item("c98.large", "CNY", "8.1"), item("c99.large", "USD", "1.23")];
    assert_eq!(listed("cn-anywhere-1", &chinese), BTreeMap::from([("c98.large".to_owned(), price(8.1))]));
    let odd = [
        item("c1.free", "USD", "0.0000000000"),
        item("c1.odd", "USD", "cheap"),
        item("", "USD", "1"),
        "no JSON".to_owned(),
        "{}".to_owned(),
        item("c1.good", "USD", "1"),
    ];
    assert_eq!(listed("us-east-1", &odd), BTreeMap::from([("c1.good".to_owned(), price(1.0))]));
}

/// AWS-210, AWS-211, AC-247, AC-248, AC-249, AC-251.
#[test]
fn spot_history() {
    let mut book = PriceBook::built_in("us-east-1");
    assert_eq!(book.merge_spot(Vec::new()), Err(PriceError::NoSpotPrices));
    assert!(book.spot("m5.large", "zone-1a").is_some(), "still the built-in price");
    let no_time = SpotPrice { timestamp: None, ..spot("c99.large", "zone-1c", "1") };
    let history = [spot("c99.large", "zone-1a", "1.23"), no_time, spot("c99.large", "zone-1d", "odd")];
    book.merge_spot(parse_spot_prices(history)).unwrap();
    assert_eq!(book.spot("c99.large", "zone-1a"), Some(price(1.23)));
    for (instance_type, zone) in [
        ("c99.large", "zone-1b"),
        ("c99.large", "zone-1c"),
        ("c99.large", "zone-1d"),
        ("m5.large", "zone-1a"),
        ("x", "y"),
    ] {
        assert_eq!(book.spot(instance_type, zone), None, "{instance_type} {zone}");
    }
    let more = [spot("c99.large", "zone-1b", "1.5"), spot("m5.large", "zone-1c", "0.04")];
    book.merge_spot(parse_spot_prices(more)).unwrap();
    assert_eq!(book.spot("c99.large", "zone-1a"), Some(price(1.23)), "not in the answer, not forgotten");
    assert_eq!(book.spot("c99.large", "zone-1b"), Some(price(1.5)));
    assert_eq!(SPOT_PRODUCTS, ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]);
}
