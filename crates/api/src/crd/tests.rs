use super::*;

#[test]
fn names_are_unique_and_found_again() {
    for crd in definitions() {
        let found = find(crd.group, crd.version, crd.kind).unwrap();
        assert_eq!(found.name(), crd.name());
        assert_eq!(crd.manifest["metadata"]["name"], crd.name());
    }
    assert!(find("karpenter.sh", "v1beta1", "NodePool").is_none());
}
