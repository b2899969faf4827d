//! Selector terms: terms are alternatives, the fields inside a term all apply.

use super::super::schema::{Schema, list, map, object, string, undescribed};

fn tags() -> Schema {
    map("Tags that the resource must have; the value `*` stands for any.", undescribed(string("")))
        .max_properties(20)
        .rule("empty tag keys or values aren't supported", "self.all(k, k != '' && self[k] != '')")
}

fn terms(description: &str, term: Schema) -> Schema {
    list(description, term).max_items(30)
}

/// CEL: each term has at least one of `fields`. An empty tag map selects everything and does not count.
fn at_least_one(fields: &[&str]) -> (String, String) {
    let names = fields.iter().map(|f| format!("'{f}'")).collect::<Vec<_>>().join(", ");
    let any = fields
        .iter()
        .map(|f| if *f == "tags" { "(has(x.tags) && size(x.tags) > 0)".to_owned() } else { format!("has(x.{f})") })
        .collect::<Vec<_>>()
        .join(" || ");
    (format!("expected at least one, got none, [{names}]"), format!("self.all(x, {any})"))
}

/// CEL: `field` together with one of `others`, for a term `x`.
fn mixed(field: &str, others: &[&str]) -> String {
    let others = others.iter().map(|f| format!("has(x.{f})")).collect::<Vec<_>>().join(" || ");
    format!("has(x.{field}) && ({others})")
}

/// CEL that fires only when every term mixes fields. A list with one clean term is let through, as it always was.
fn not_all_mixed(field: &str, others: &[&str]) -> String {
    format!("self.size() == 0 || !self.all(x, {})", mixed(field, others))
}

pub(super) fn subnets() -> Schema {
    let (message, rule) = at_least_one(&["tags", "id"]);
    terms(
        "Selects the subnets that nodes are launched into.",
        object("One way to select subnets.")
            .field("id", string("Id of a subnet. Excludes `tags`.").pattern("subnet-[0-9a-z]+"))
            .field("tags", tags()),
    )
    .rule("subnetSelectorTerms cannot be empty", "self.size() != 0")
    .rule(&message, rule)
    .rule(
        "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
        not_all_mixed("id", &["tags"]),
    )
}

pub(super) fn security_groups() -> Schema {
    let (message, rule) = at_least_one(&["tags", "id", "name"]);
    terms(
        "Selects the security groups of the nodes.",
        object("One way to select security groups.")
            .field("id", string("Id of a security group. Excludes the other fields.").pattern("sg-[0-9a-z]+"))
            .field(
                "name",
                string("Name of a security group (not its `Name` tag). Excludes the other fields."),
            )
            .field("tags", tags()),
    )
    .rule("securityGroupSelectorTerms cannot be empty", "self.size() != 0")
    .rule(&message, rule)
    .rule(
        "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
        not_all_mixed("id", &["tags", "name"]),
    )
    .rule(
        "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
        not_all_mixed("name", &["tags", "id"]),
    )
}

pub(super) fn capacity_reservations() -> Schema {
    let (message, rule) = at_least_one(&["tags", "id", "instanceMatchCriteria"]);
    terms(
        "Selects capacity reservations that nodes of capacity type `reserved` may use.",
        object("One way to select capacity reservations.")
            .field("id", string("Id of a capacity reservation. Excludes the other fields.").pattern("^cr-[0-9a-z]+$"))
            .field(
                "instanceMatchCriteria",
                string("Whether the reservation takes any matching instance or only those that name it.")
                    .one_of(&["open", "targeted"]),
            )
            .field("ownerID", string("Account that owns the reservation.").pattern("^[0-9]{12}$"))
            .field("tags", tags()),
    )
    .rule(&message, rule)
    .rule(
        "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
        not_all_mixed("id", &["tags", "instanceMatchCriteria", "ownerID"]),
    )
}

pub(super) fn amis() -> Schema {
    let (message, rule) = at_least_one(&["tags", "id", "name", "alias", "ssmParameter"]);
    terms(
        "Selects the machine images of the nodes; the newest that suits the instance type is used.",
        object("One way to select machine images.")
            .field("alias", alias())
            .field("id", string("Id of an image. Excludes the other fields.").pattern("ami-[0-9a-z]+"))
            .field("name", string("Name of the image; `*` stands for any characters."))
            .field(
                "owner",
                string(
                    "Owner of the image: an account id, `self`, `amazon` or `aws-marketplace`. Not enough by itself.",
                ),
            )
            .field("ssmParameter", string("Name or ARN of an SSM parameter that holds an image id."))
            .field("tags", tags()),
    )
    .min_items(1)
    .rule(&message, rule)
    .rule(
        "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        format!("!self.exists(x, {})", mixed("id", &["alias", "tags", "name", "owner"])),
    )
    .rule(
        "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        format!("!self.exists(x, {})", mixed("alias", &["id", "tags", "name", "owner"])),
    )
    .rule(
        "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
        "self.size() == 1 || !self.exists(x, has(x.alias))",
    )
}

fn alias() -> Schema {
    string(
        "A family of images published for EKS and its version, as in `al2023@latest` or `bottlerocket@1.20.0`. Must be alone in \
         its term, and its term alone in the list.",
    )
    .max_length(30)
    .rule("'alias' is improperly formatted, must match the format 'family@version'", "self.matches('^[a-zA-Z0-9]+@.+$')")
    .rule(
        "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'",
        "self.split('@')[0] in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",
    )
    .rule(
        "windows families may only specify version 'latest'",
        "self.split('@')[0] in ['windows2019', 'windows2022', 'windows2025'] ? self.matches('^[^@]+@latest$') : true",
    )
}

pub(super) fn placement_group() -> Schema {
    object("Selects the placement group that nodes are launched into.")
        .field("id", string("Id of the placement group. Excludes `name`.").pattern("^pg-[0-9a-z]+$"))
        .field("name", string("Name of the placement group. Excludes `id`.").min_length(1))
        .rule("expected at least one, got none, ['name', 'id']", "has(self.name) || has(self.id)")
        .rule("'name' and 'id' are mutually exclusive", "!(has(self.name) && has(self.id))")
}
