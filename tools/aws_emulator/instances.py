"""Instances that take time: pending before running, unknown to describe calls at first, shutting down before terminated."""

import copy
import time

from moto.core.responses import ActionResult
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import AmiBackend
from moto.ec2.models.instances import Instance, InstanceBackend
from moto.ec2.responses import EC2Response
from moto.ec2.utils import filter_reservations

from . import accounts

_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


def _set(instance, name):
    instance._state.name = name
    instance._state.code = _CODES[name]


def _advance(instance):
    now = time.monotonic()
    if instance.state == "pending" and now >= getattr(instance, "runs_at", 0):
        _set(instance, "running")
    if instance.state == "shutting-down" and now >= getattr(instance, "gone_at", 0):
        _set(instance, "terminated")


def _visible(instance):
    return time.monotonic() >= getattr(instance, "seen_at", 0)


def begin(instance, account):
    """Called for each instance that a fleet launches."""
    now = time.monotonic()
    instance.seen_at = now + account.hidden_for
    if account.pending_for > 0:
        instance.runs_at = now + account.pending_for
        _set(instance, "pending")


def put_into_state(number, identifiers, state):
    changed = []
    for backend in ec2_backends[str(number)].values():
        for reservation in backend.reservations.values():
            for instance in reservation.instances:
                if instance.id in identifiers:
                    if state == "terminated" and instance.state != "terminated":
                        instance.terminate()
                    _set(instance, state)
                    changed.append(instance.id)
    return changed


def _all_reservations(original):
    def all_reservations(self, filters=None):
        reservations = []
        for reservation in original(self):
            for instance in reservation.instances:
                _advance(instance)
            reservation.instances = [i for i in reservation.instances if _visible(i)]
            if reservation.instances:
                reservations.append(reservation)
        if filters is None:
            return reservations
        return filter_reservations(reservations, filters)
    return all_reservations


def _terminate(original):
    def terminate(self):
        account = accounts.account(self.ec2_backend.account_id)
        if self.state in ("shutting-down", "terminated"):
            # moto would take its addresses and volumes away a second time.
            return copy.copy(self._state)
        previous = original(self)
        if account.shutting_down_for > 0:
            self.gone_at = time.monotonic() + account.shutting_down_for
            _set(self, "shutting-down")
        return previous
    return terminate


def _reboot(original):
    def reboot(self):
        launched = accounts.account(self.ec2_backend.account_id).instances.get(self.id)
        if launched is not None:
            launched["boots"] = launched.get("boots", 1) + 1
        return original(self)
    return reboot


def _describe_instance_status(original):
    def describe_instance_status(self):
        answer = original(self)
        statuses = accounts.account(self.current_account).statuses
        rows = []
        for instance in answer.result["InstanceStatuses"]:
            said = statuses.get(instance.id, {})
            rows.append({
                "InstanceId": instance.id,
                "AvailabilityZone": instance.availability_zone,
                "InstanceState": {"Name": instance.state, "Code": instance.state_code},
                "InstanceStatus": said.get("InstanceStatus", instance.instance_status),
                "SystemStatus": said.get("SystemStatus", instance.system_status),
                "AttachedEbsStatus": said.get("AttachedEbsStatus", {"Status": "ok"}),
                "Events": said.get("Events", []),
            })
        return ActionResult({"InstanceStatuses": rows})
    return describe_instance_status


def _describe_images(original):
    def describe_images(self, ami_ids=(), filters=None, exec_users=None, owners=None):
        # Asked for at each launch; moto would hold all of its 1,299 images against the filter.
        if filters and list(filters) == ["image-id"] and not (ami_ids or exec_users or owners):
            wanted = filters["image-id"]
            wanted = [wanted] if isinstance(wanted, str) else wanted
            if not any("*" in name for name in wanted):
                return [self.amis[name] for name in wanted if name in self.amis]
        return original(self, ami_ids=ami_ids, filters=filters, exec_users=exec_users, owners=owners)
    return describe_images


def install():
    AmiBackend.describe_images = _describe_images(AmiBackend.describe_images)
    InstanceBackend.all_reservations = _all_reservations(InstanceBackend.all_reservations)
    Instance.terminate = _terminate(Instance.terminate)
    Instance.reboot = _reboot(Instance.reboot)
    EC2Response.describe_instance_status = _describe_instance_status(EC2Response.describe_instance_status)
