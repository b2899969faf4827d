"""Instant fleets as EC2 makes them: the best override that has capacity, an error for each that has none, everything that
the launch template says, and one answer per client token."""

import json

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec, random_fleet_id, random_spot_request_id

from . import accounts, instances


def _template(backend, specification):
    """The template's data and the specification as EC2 echoes it."""
    if specification.get("LaunchTemplateId"):
        template = backend.get_launch_template(template_id=specification["LaunchTemplateId"])
    else:
        template = backend.get_launch_template_by_name(name=specification["LaunchTemplateName"])
    version = specification.get("Version", "$Default")
    number = {"$Latest": template.latest_version_number, "$Default": template.default_version_number}.get(version, version)
    echoed = {"LaunchTemplateId": template.id, "LaunchTemplateName": template.name, "Version": str(number)}
    return template.get_version(number).data, echoed


def _zone(backend, override):
    if override.get("SubnetId"):
        return backend.get_subnet(override["SubnetId"]).availability_zone
    return override.get("AvailabilityZone", backend.region_name + "a")


def _why_not(account, backend, capacity_type, override, zone, data):
    """(code, message) of what keeps this override from being launched, or None."""
    row = account.fleet_error(capacity_type, override["InstanceType"], zone)
    if row:
        return row["code"], row.get("message", row["code"])
    if account.lacks_capacity(capacity_type, override["InstanceType"], zone):
        return ("InsufficientInstanceCapacity", f"We currently do not have sufficient {override['InstanceType']} capacity in the "
                f"Availability Zone you requested ({zone}).")
    wanted = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget", {}).get("CapacityReservationId")
    if wanted:
        reservation = next((r for r in account.reservations if r["CapacityReservationId"] == wanted), None)
        if reservation is None:
            return "InvalidCapacityReservationId.NotFound", f"The capacity reservation '{wanted}' does not exist"
        if reservation.get("AvailableInstanceCount", 0) <= 0:
            return "ReservationCapacityExceeded", "Requested capacity exceeds the capacity of the reservation"
    if override.get("SubnetId") and backend.get_subnet(override["SubnetId"])._available_ip_addresses <= 0:
        return ("InsufficientFreeAddressesInSubnet", f"There are not enough free addresses in subnet '{override['SubnetId']}' to "
                "satisfy the requested number of instances.")
    return None


def _launch(response, account, data, override, lifecycle, tags, fleet):
    backend = response.ec2_backend
    groups, nics = list(data.get("SecurityGroupIds") or []), data.get("NetworkInterfaces") or []
    for nic in nics:
        groups.extend(g for g in nic.get("Groups") or [] if g not in groups)
    template_tags = convert_tag_spec(data.get("TagSpecifications") or [])
    merged = {kind: {**template_tags.get(kind, {}), **tags.get(kind, {})} for kind in {*template_tags, *tags}}
    reservation = backend.run_instances(
        image_id=override.get("ImageId") or data.get("ImageId"),
        count=1,
        user_data=data.get("UserData"),
        security_group_names=[],
        security_group_ids=groups,
        instance_type=override["InstanceType"],
        # Keeps moto from looking through all types for this one, to no effect.
        is_instance_type_default=True,
        region_name=backend.region_name,
        subnet_id=override.get("SubnetId"),
        tags=merged,
        metadata_options=data.get("MetadataOptions") or {},
        monitoring_state="enabled" if (data.get("Monitoring") or {}).get("Enabled") else "disabled",
        block_device_mappings=[b for b in data.get("BlockDeviceMappings") or [] if b.get("Ebs")],
        ebs_optimized=data.get("EbsOptimized", False),
        fleet_id=None,
        lifecycle="spot" if lifecycle == "spot" else None,
    )
    instance = reservation.instances[0]
    if lifecycle == "spot":
        instance.spot_instance_request_id = random_spot_request_id()
        instance.instance_lifecycle = "spot"
    placement = data.get("Placement") or {}
    instance.placement.tenancy = placement.get("Tenancy", "default")
    instance.placement.group_name = placement.get("GroupName", "")
    instance.placement.group_id = placement.get("GroupId")
    profile = data.get("IamInstanceProfile") or {}
    name = profile.get("Name")
    if name:
        instance.iam_instance_profile = {
            "Arn": f"arn:aws:iam::{response.current_account}:instance-profile/{name}", "Id": "AIPA" + name.upper()[:17]}
    specification = data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget", {}).get("CapacityReservationId")
    instance.capacity_reservation_specification = {
        "CapacityReservationPreference": specification.get("CapacityReservationPreference", "open"),
        **({"CapacityReservationTarget": {"CapacityReservationId": target}} if target else {})}
    if target:
        instance.capacity_reservation_id = target
        for row in account.reservations:
            if row["CapacityReservationId"] == target:
                row["AvailableInstanceCount"] -= 1
                kind = row.get("ReservationType")
                if kind == "capacity-block":
                    instance.instance_lifecycle = "capacity-block"
    for nic in instance.nics.values():
        nic.add_tags(merged.get("network-interface", {}))
    account.instances[instance.id] = {
        "launch_template": data.get("_name"), "user_data": data.get("UserData"), "network_interfaces": nics,
        "metadata_options": data.get("MetadataOptions"), "block_device_mappings": data.get("BlockDeviceMappings"),
        "instance_profile": name, "placement": placement, "fleet": fleet, "lifecycle": lifecycle,
        "cpu_options": data.get("CpuOptions")}
    instances.begin(instance, account)
    return instance


def _order(candidates, strategy, account, capacity_type):
    """EC2's order: by priority where that is asked for, else by price; chance decides among equals as it does there."""
    def price(c):
        zone, override = c["zone"], c["override"]
        if capacity_type == "spot":
            for row in account.spot_prices:
                if row["InstanceType"] == override["InstanceType"] and row.get("AvailabilityZone") == zone:
                    return float(row["SpotPrice"])
        if override["InstanceType"] in account.prices:
            return float(account.prices[override["InstanceType"]])
        return float(override.get("Priority") or 0.0)
    if "prioritized" in (strategy or ""):
        return sorted(candidates, key=lambda c: float(c["override"].get("Priority") or 0.0))
    return sorted(candidates, key=price)


def create_fleet(self):
    self.error_on_dryrun()
    account = accounts.account(self.current_account)
    backend = self.ec2_backend
    token = self._get_param("ClientToken")
    request = json.dumps(self.params, sort_keys=True, default=str)
    with account.lock:
        if token and token in account.tokens:
            before, answer = account.tokens[token]
            if before != request:
                raise EC2ClientError("IdempotentParameterMismatch", f"Arguments on this idempotent request are inconsistent with arguments used in previous request(s). ({token})")
            return ActionResult(answer)
        answer = _create(self, account, backend)
        if token:
            account.tokens[token] = (request, answer)
        return ActionResult(answer)


def _create(self, account, backend):
    target = self._get_param("TargetCapacitySpecification", {})
    capacity_type = target.get("DefaultTargetCapacityType") or "on-demand"
    options = self._get_param("SpotOptions" if capacity_type == "spot" else "OnDemandOptions", {})
    tags = convert_tag_spec(self._get_param("TagSpecifications", []))
    fleet = random_fleet_id()
    candidates, errors = [], []
    for config in self._get_param("LaunchTemplateConfigs", []):
        data, echoed = _template(backend, config["LaunchTemplateSpecification"])
        data = {**data, "_name": echoed["LaunchTemplateName"]}
        for override in config.get("Overrides") or []:
            zone = _zone(backend, override)
            candidates.append({"data": data, "echoed": echoed, "override": override, "zone": zone})
    launched = {}
    wanted = int(target.get("TotalTargetCapacity", 1))
    usable = _order(candidates, options.get("AllocationStrategy"), account, capacity_type)
    failed = set()
    for _ in range(wanted):
        for n, candidate in enumerate(usable):
            if n in failed:
                continue
            why = _why_not(account, backend, capacity_type, candidate["override"], candidate["zone"], candidate["data"])
            if why is None:
                lifecycle = "spot" if capacity_type == "spot" else "on-demand"
                instance = _launch(self, account, candidate["data"], candidate["override"], lifecycle, tags, fleet)
                launched.setdefault(n, []).append(instance)
                break
            failed.add(n)
            errors.append({
                "LaunchTemplateAndOverrides": {"LaunchTemplateSpecification": candidate["echoed"], "Overrides": candidate["override"]},
                "Lifecycle": "spot" if capacity_type == "spot" else "on-demand", "ErrorCode": why[0], "ErrorMessage": why[1]})
    return {
        "FleetId": fleet,
        "Errors": errors,
        "Instances": [{
            "LaunchTemplateAndOverrides": {"LaunchTemplateSpecification": usable[n]["echoed"], "Overrides": usable[n]["override"]},
            "Lifecycle": "spot" if capacity_type == "spot" else "on-demand",
            "InstanceIds": [i.id for i in made],
            "InstanceType": usable[n]["override"]["InstanceType"],
        } for n, made in launched.items()],
    }


def install():
    EC2Response.create_fleet = create_fleet
