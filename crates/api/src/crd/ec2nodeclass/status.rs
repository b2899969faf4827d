//! What the controller resolved from the selectors.

use super::super::fragments;
use super::super::schema::{Schema, boolean, date_time, list, object, string, undescribed};

pub(super) fn status() -> Schema {
    object("What the selectors resolved to, and whether the class can be used.")
        .field("amis", list("Machine images, newest first.", ami()))
        .field("capacityReservations", list("Capacity reservations, by id.", capacity_reservation()))
        .field("conditions", fragments::conditions())
        .field("instanceProfile", string("Instance profile that instances get."))
        .field(
            "securityGroups",
            list(
                "Security groups, by id.",
                object("A security group.")
                    .required("id", string("Id of the security group."))
                    .field("name", string("Name of the security group.")),
            ),
        )
        .field(
            "subnets",
            list(
                "Subnets, those with the most free addresses first.",
                object("A subnet.")
                    .required("id", string("Id of the subnet."))
                    .required("zone", string("Availability zone of the subnet."))
                    .field("zoneID", string("Id of the availability zone, the same in every account.")),
            ),
        )
}

fn ami() -> Schema {
    object("A machine image and the nodes that it suits.")
        .field("deprecated", boolean("Whether the image's owner has deprecated it."))
        .required("id", string("Id of the image."))
        .field("name", string("Name of the image."))
        .required(
            "requirements",
            list(
                "Constraints on the instance types that the image suits.",
                object("A constraint on one node label.")
                    .required("key", string("The node label."))
                    .required("operator", string("How the label relates to `values`."))
                    .field(
                        "values",
                        list("The values that `operator` compares with.", undescribed(string(""))).atomic_list(),
                    ),
            ),
        )
}

fn capacity_reservation() -> Schema {
    object("A capacity reservation.")
        .required("availabilityZone", string("Zone that the capacity is in."))
        .field("endTime", date_time("When the reservation ends; unset if it has no end."))
        .required("id", string("Id of the reservation.").pattern("^cr-[0-9a-z]+$"))
        .required(
            "instanceMatchCriteria",
            string("Whether the reservation takes any matching instance or only those that name it.")
                .one_of(&["open", "targeted"]),
        )
        .required("instanceType", string("Instance type that is reserved."))
        .field("interruptible", boolean("Whether the owner may take the capacity back."))
        .required("ownerID", string("Account that owns the reservation.").pattern("^[0-9]{12}$"))
        .required(
            "reservationType",
            string("An open-ended reservation or a capacity block with a fixed end.")
                .one_of(&["default", "capacity-block"])
                .default("default"),
        )
        .required(
            "state",
            string("Whether the reservation can be used, or is about to end.")
                .one_of(&["active", "expiring"])
                .default("active"),
        )
}
