//! Resource amounts, read in the simplest way that is right.

use std::collections::BTreeMap;

use serde_json::Value;

/// Thousandths by resource.
pub(super) type Amounts = BTreeMap<String, i128>;

/// In thousandths, rounded up; what cannot be read is nothing.
fn thousandths(text: &str) -> i128 {
    const UNITS: [(&str, i128); 13] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("Ei", 1 << 60),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000),
        ("", 1),
    ];
    if let Some(milli) = text.strip_suffix('m') {
        return milli.parse().unwrap_or(0);
    }
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let Some((unit, factor)) = unit else { return 0 };
    let number = &text[..text.len() - unit.len()];
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let scale = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(0).min(9));
    let digits: i128 = format!("{whole}{}", &fraction[..fraction.len().min(9)]).parse().unwrap_or(0);
    let product = digits * factor * 1000;
    product / scale + i128::from(product % scale != 0)
}

pub(super) fn read(amounts: &Value) -> Amounts {
    let entries = amounts.as_object().into_iter().flatten();
    entries
        .map(|(name, amount)| {
            let text = amount.as_str().map_or_else(|| amount.to_string(), ToOwned::to_owned);
            (name.clone(), thousandths(&text))
        })
        .collect()
}

pub(super) fn allocatable(node: &Value) -> Amounts {
    read(&node["status"]["allocatable"])
}

/// The sum of the containers or the largest of those that run before them, and what the pod itself costs.
pub(super) fn requests(pod: &Value) -> Amounts {
    let list = |member: &str| pod["spec"][member].as_array().cloned().unwrap_or_default();
    let mut sum = Amounts::new();
    let add = |sum: &mut Amounts, more: Amounts| {
        for (name, amount) in more {
            *sum.entry(name).or_default() += amount;
        }
    };
    for container in list("containers") {
        add(&mut sum, read(&container["resources"]["requests"]));
    }
    // Those that restart for ever run beside all that come after them.
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let own = read(&container["resources"]["requests"]);
        let mut now = sidecars.clone();
        add(&mut now, own.clone());
        if container["restartPolicy"] == "Always" {
            sidecars = now.clone();
        }
        for (name, amount) in now {
            let entry = largest.entry(name).or_default();
            *entry = amount.max(*entry);
        }
    }
    add(&mut sum, sidecars);
    for (name, amount) in largest {
        let entry = sum.entry(name).or_default();
        *entry = amount.max(*entry);
    }
    add(&mut sum, read(&pod["spec"]["overhead"]));
    sum.insert("pods".to_owned(), 1000);
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_read() {
        for (text, want) in [
            ("1", 1000),
            ("100m", 100),
            ("1.5", 1500),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("2k", 2_000_000),
            ("0", 0),
            ("odd", 0),
        ] {
            assert_eq!(thousandths(text), want, "{text}");
        }
    }

    #[test]
    fn requests_of_a_pod() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("200m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {
            "containers": [container("1"), container("500m")],
            "initContainers": [sidecar, container("3")],
            "overhead": {"cpu": "10m"},
        }});
        assert_eq!(requests(&pod), Amounts::from([("cpu".to_owned(), 3210), ("pods".to_owned(), 1000)]));
    }
}
