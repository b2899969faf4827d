"""Operations and services that moto lacks, and public parameters."""

import json
import time
import urllib.parse
from datetime import datetime, timezone

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.iam.responses import IamResponse
from moto.ssm import models as ssm

from . import accounts, templates


def _filtered(rows, filters, fields):
    """Rows that pass EC2 filters; unknown filters let nothing pass, so that a test notices."""
    def passes(row):
        for name, values in filters.items():
            if name.startswith("tag:"):
                found = [t["Value"] for t in row.get("Tags", []) if t["Key"] == name[4:]]
            elif name == "tag-key":
                found = [t["Key"] for t in row.get("Tags", [])]
            elif name in fields:
                found = [row.get(fields[name])]
            else:
                return False
            if not any(v == "*" and found or v in found for v in values):
                return False
        return True
    return [row for row in rows if passes(row)]


def describe_capacity_reservations(self):
    account = accounts.account(self.current_account)
    rows, wanted = account.reservations, self._get_param("CapacityReservationIds", [])
    missing = [i for i in wanted if i not in [r["CapacityReservationId"] for r in rows]]
    if missing:
        raise EC2ClientError("InvalidCapacityReservationId.NotFound", f"The capacity reservation '{missing[0]}' does not exist")
    if wanted:
        rows = [r for r in rows if r["CapacityReservationId"] in wanted]
    fields = {"state": "State", "instance-type": "InstanceType", "owner-id": "OwnerId", "instance-match-criteria": "InstanceMatchCriteria"}
    return ActionResult({"CapacityReservations": _filtered(rows, self._filters_from_querystring(), fields)})


def describe_placement_groups(self):
    account = accounts.account(self.current_account)
    rows = account.placement_groups
    for parameter, key, code in (("GroupIds", "GroupId", "InvalidPlacementGroupId.Malformed"), ("GroupNames", "GroupName", "InvalidPlacementGroup.Unknown")):
        wanted = self._get_param(parameter, [])
        missing = [w for w in wanted if w not in [r.get(key) for r in rows]]
        if missing:
            raise EC2ClientError(code, f"The Placement Group '{missing[0]}' is unknown.")
        if wanted:
            rows = [r for r in rows if r.get(key) in wanted]
    return ActionResult({"PlacementGroups": _filtered(rows, self._filters_from_querystring(), {"state": "State", "strategy": "Strategy", "group-name": "GroupName"})})


def describe_spot_price_history(self):
    account = accounts.account(self.current_account)
    wanted = self._get_param("InstanceTypes", [])
    now = datetime.now(timezone.utc)
    rows = [{"ProductDescription": "Linux/UNIX", "Timestamp": now, **row} for row in account.spot_prices
            if not wanted or row["InstanceType"] in wanted]
    return ActionResult({"SpotPriceHistory": rows})


def describe_launch_templates(original):
    def described(self):
        # moto shows 15 and has no second page.
        if not self._get_param("MaxResults"):
            self.params["MaxResults"] = 1_000_000
        return original(self)
    return described


def delete_launch_template(original):
    def deleted(self):
        name, identifier = self._get_param("LaunchTemplateName"), self._get_param("LaunchTemplateId")
        templates = self.ec2_backend.launch_templates.values()
        if name and name not in [t.name for t in templates]:
            raise EC2ClientError("InvalidLaunchTemplateName.NotFoundException", f"The specified launch template, with template name {name}, does not exist.")
        if identifier and identifier not in [t.id for t in templates]:
            raise EC2ClientError("InvalidLaunchTemplateId.NotFound", f"The specified launch template, with template ID {identifier}, does not exist.")
        return original(self)
    return deleted


def register_image(original):
    def registered(self):
        known = set(self.ec2_backend.amis)
        answer = original(self)
        # moto forgets what it is for.
        for identifier in set(self.ec2_backend.amis) - known:
            self.ec2_backend.amis[identifier].architecture = self._get_param("Architecture") or "x86_64"
        return answer
    return registered


def list_instance_profiles(self):
    # moto forgets the prefix.
    prefix = self._get_param("PathPrefix") or "/"
    return ActionResult({"InstanceProfiles": [p for p in self.backend.get_instance_profiles() if p.path.startswith(prefix)]})


def _seed_parameters():
    original = ssm.ParameterDict._check_loading_status

    def check(self, key):
        original(self, key)
        name = str(key or "")
        value = accounts.account(self.account_id).parameters.get(name)
        if value is None or dict.__contains__(self, name):
            return
        dict.__setitem__(self, name, [ssm.Parameter(
            account_id=self.account_id, name=name, value=value, parameter_type="String", description=None, allowed_pattern=None,
            keyid=None, last_modified_date=time.time(), version=1, data_type="text")])
    ssm.ParameterDict._check_loading_status = check


def pricing(account, request):
    """GetProducts for the instance types that the test has priced."""
    if request.operation != "GetProducts":
        return None
    said = {f["Field"]: f["Value"] for f in request.parameters.get("Filters", [])}
    prices = account.prices
    if "instanceType" in said:
        prices = {t: p for t, p in prices.items() if t == said["instanceType"]}
    if said.get("tenancy") == "dedicated":
        prices = {}
    rows = [json.dumps({
        "product": {"attributes": {"instanceType": t, "regionCode": request.region, "tenancy": said.get("tenancy", "Shared")}},
        "terms": {"OnDemand": {"term": {"priceDimensions": {"rate": {"unit": "Hrs", "pricePerUnit": {"USD": str(p)}}}}}},
    }) for t, p in sorted(prices.items())]
    return {"FormatVersion": "aws_v1", "PriceList": rows}


def zonal_shift(account, request):
    arn = urllib.parse.unquote(request.parameters["path"].removeprefix("/managedresources/"))
    said = account.managed_resources.get(arn)
    if said is None:
        return None
    return {"arn": arn, "name": arn.rsplit("/", 1)[-1], "appliedWeights": {}, "zonalShifts": [], "autoshifts": [], **said}


def install():
    EC2Response.describe_capacity_reservations = describe_capacity_reservations
    EC2Response.describe_placement_groups = describe_placement_groups
    EC2Response.describe_spot_price_history = describe_spot_price_history
    EC2Response.describe_launch_templates = describe_launch_templates(EC2Response.describe_launch_templates)
    EC2Response.delete_launch_template = delete_launch_template(EC2Response.delete_launch_template)
    EC2Response.register_image = register_image(EC2Response.register_image)
    IamResponse.list_instance_profiles = list_instance_profiles
    _seed_parameters()
    templates.install()
