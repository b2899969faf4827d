"""What the emulator adds to moto, seen through the official client. AWS-249 lists what it must do."""

import json
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from itertools import count
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

_number = count(200000000001)


def setUpModule():
    global server, url
    server = subprocess.Popen([sys.executable, "-m", "aws_emulator"], cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    assert line.startswith("listening on "), line
    url = line.removeprefix("listening on ").strip()


def tearDownModule():
    server.terminate()
    server.wait()
    server.stdout.close()


class EmulatorTest(unittest.TestCase):
    """Each test has an account of its own, chosen by the access key."""

    def setUp(self):
        self.number = str(next(_number))
        self.ec2 = self.client("ec2")
        self.subnets = self.ec2.describe_subnets()["Subnets"]

    def client(self, service, retries=0):
        return boto3.client(service, endpoint_url=url, region_name="us-west-2", aws_access_key_id=f"TEST{self.number}",
                            aws_secret_access_key="secret", config=Config(retries={"total_max_attempts": retries + 1}))

    def control(self, what="", value=None):
        data = None if value is None else json.dumps(value).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/_test/{self.number}{what}", data=data)) as answer:
            return json.load(answer)

    def change(self, **settings):
        return self.control(value=settings)

    def template(self, name="karpenter.k8s.aws/1", tags=None, **data):
        specification = [{"ResourceType": "launch-template", "Tags": [{"Key": k, "Value": v} for k, v in (tags or {}).items()]}] if tags else []
        self.ec2.create_launch_template(LaunchTemplateName=name, TagSpecifications=specification,
                                        LaunchTemplateData={"ImageId": "ami-12345678", **data})

    def fleet(self, types=("m5.large", "m5.xlarge"), zones=2, n=1, capacity_type="on-demand", template="karpenter.k8s.aws/1", tags=None, **more):
        overrides = [{"InstanceType": t, "SubnetId": s["SubnetId"]} for t in types for s in self.subnets[:zones]]
        tags = [{"Key": k, "Value": v} for k, v in (tags or {"karpenter.sh/nodepool": "default"}).items()]
        return self.ec2.create_fleet(
            Type="instant", TargetCapacitySpecification={"TotalTargetCapacity": n, "DefaultTargetCapacityType": capacity_type},
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Latest"}, "Overrides": overrides}],
            TagSpecifications=[{"ResourceType": kind, "Tags": tags} for kind in ("instance", "fleet")], **more)

    def instance(self, answer):
        identifier = answer["Instances"][0]["InstanceIds"][0]
        return self.ec2.describe_instances(InstanceIds=[identifier])["Reservations"][0]["Instances"][0]

    def code(self, call, *arguments, **more):
        with self.assertRaises(ClientError) as caught:
            call(*arguments, **more)
        return caught.exception.response["Error"]["Code"]


class Fleets(EmulatorTest):
    def test_the_cheapest_override_with_capacity_is_launched_and_the_others_reported(self):
        self.template()
        first = self.subnets[0]["AvailabilityZone"]
        self.change(prices={"m5.large": 0.096, "m5.xlarge": 0.192}, no_capacity=[{"instance_type": "m5.large", "zone": first}])
        answer = self.fleet(types=("m5.xlarge", "m5.large"))
        self.assertEqual(answer["Instances"][0]["InstanceType"], "m5.large")
        self.assertEqual(answer["Instances"][0]["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"], self.subnets[1]["SubnetId"])
        self.assertEqual([e["ErrorCode"] for e in answer["Errors"]], ["InsufficientInstanceCapacity"])
        self.assertEqual(answer["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"], self.subnets[0]["SubnetId"])

    def test_without_any_capacity_there_are_only_errors(self):
        self.template()
        self.change(no_capacity=[{}])
        answer = self.fleet()
        self.assertEqual(answer["Instances"], [])
        self.assertEqual(len(answer["Errors"]), 4)

    def test_single_overrides_fail_with_any_code(self):
        self.template()
        self.change(fleet_errors=[{"instance_type": "m5.large", "code": "VcpuLimitExceeded", "message": "more than your limit"}])
        answer = self.fleet(types=("m5.large",))
        self.assertEqual({e["ErrorCode"] for e in answer["Errors"]}, {"VcpuLimitExceeded"})

    def test_a_fleet_of_many_has_that_many_instances(self):
        self.template()
        answer = self.fleet(n=7)
        self.assertEqual(sum(len(i["InstanceIds"]) for i in answer["Instances"]), 7)

    def test_one_client_token_is_one_launch(self):
        self.template()
        one, two = self.fleet(ClientToken="claim-1"), self.fleet(ClientToken="claim-1")
        self.assertEqual(one["Instances"], two["Instances"])
        self.assertEqual(len(self.ec2.describe_instances()["Reservations"]), 1)
        self.assertEqual(self.code(self.fleet, n=2, ClientToken="claim-1"), "IdempotentParameterMismatch")

    def test_an_instance_is_as_its_template_says(self):
        group = self.ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=self.subnets[0]["VpcId"])["GroupId"]
        self.template(SecurityGroupIds=[group], IamInstanceProfile={"Name": "profile"}, UserData="aGVsbG8=",
                      MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
                      BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "VolumeType": "gp3"}}],
                      TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "team", "Value": "a"}]}])
        instance = self.instance(self.fleet())
        self.assertEqual([g["GroupId"] for g in instance["SecurityGroups"]], [group])
        self.assertTrue(instance["IamInstanceProfile"]["Arn"].endswith(":instance-profile/profile"))
        self.assertEqual(instance["MetadataOptions"]["HttpTokens"], "required")
        volume = self.ec2.describe_volumes(VolumeIds=[instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]])["Volumes"][0]
        self.assertEqual((volume["Size"], volume["Tags"]), (20, [{"Key": "team", "Value": "a"}]))
        self.assertIn({"Key": "karpenter.sh/nodepool", "Value": "default"}, instance["Tags"])

    def test_spot_instances_have_a_request(self):
        self.template()
        instance = self.instance(self.fleet(capacity_type="spot"))
        self.assertEqual(instance["InstanceLifecycle"], "spot")
        self.assertTrue(instance["SpotInstanceRequestId"].startswith("sir-"))

    def test_a_reservation_is_used_up(self):
        self.change(reservations=[{"CapacityReservationId": "cr-1", "InstanceType": "m5.large", "State": "active", "AvailableInstanceCount": 1,
                                   "AvailabilityZone": self.subnets[0]["AvailabilityZone"], "OwnerId": self.number, "Tags": [{"Key": "a", "Value": "b"}]}])
        self.template(CapacityReservationSpecification={"CapacityReservationPreference": "capacity-reservations-only",
                                                        "CapacityReservationTarget": {"CapacityReservationId": "cr-1"}})
        instance = self.instance(self.fleet(types=("m5.large",), zones=1))
        self.assertEqual(instance["CapacityReservationId"], "cr-1")
        answer = self.fleet(types=("m5.large",), zones=1)
        self.assertEqual([e["ErrorCode"] for e in answer["Errors"]], ["ReservationCapacityExceeded"])
        found = self.ec2.describe_capacity_reservations(Filters=[{"Name": "tag:a", "Values": ["b"]}])["CapacityReservations"]
        self.assertEqual(found[0]["AvailableInstanceCount"], 0)
        self.assertEqual(self.ec2.describe_capacity_reservations(Filters=[{"Name": "tag:a", "Values": ["c"]}])["CapacityReservations"], [])

    def test_a_dry_run_launches_nothing(self):
        self.template()
        self.assertEqual(self.code(self.fleet, DryRun=True), "DryRunOperation")
        self.assertEqual(self.ec2.describe_instances()["Reservations"], [])


class Instances(EmulatorTest):
    def state(self, identifier):
        return self.ec2.describe_instances(InstanceIds=[identifier])["Reservations"][0]["Instances"][0]["State"]["Name"]

    def wait(self, identifier, state):
        until = time.monotonic() + 60
        while self.state(identifier) != state:
            self.assertLess(time.monotonic(), until, f"{identifier} never was {state}")
            time.sleep(0.05)

    def test_an_instance_is_pending_then_running_then_shutting_down_then_terminated(self):
        self.template()
        self.change(pending_for=1.5, shutting_down_for=1.5)
        instance = self.instance(self.fleet())["InstanceId"]
        self.assertEqual(self.state(instance), "pending")
        self.wait(instance, "running")
        self.ec2.terminate_instances(InstanceIds=[instance])
        self.assertEqual(self.state(instance), "shutting-down")
        self.ec2.terminate_instances(InstanceIds=[instance])
        self.wait(instance, "terminated")

    def test_an_instance_is_not_seen_at_first(self):
        self.template()
        self.change(hidden_for=3600)
        answer = self.fleet()
        self.assertEqual(self.code(self.ec2.describe_instances, InstanceIds=answer["Instances"][0]["InstanceIds"]), "InvalidInstanceID.NotFound")
        self.assertEqual(self.ec2.describe_instances()["Reservations"], [])

    def test_an_instance_can_vanish(self):
        self.template()
        instance = self.instance(self.fleet())["InstanceId"]
        self.assertEqual(self.control("/stop", {"instance_ids": [instance]})["changed"], [instance])
        self.assertEqual(self.state(instance), "terminated")

    def test_statuses_are_what_the_test_says(self):
        self.template()
        instance = self.instance(self.fleet())["InstanceId"]
        self.change(statuses={instance: {"SystemStatus": {"Status": "impaired", "Details": []}}})
        row = self.ec2.describe_instance_status(InstanceIds=[instance])["InstanceStatuses"][0]
        self.assertEqual((row["SystemStatus"]["Status"], row["InstanceStatus"]["Status"]), ("impaired", "ok"))


class Services(EmulatorTest):
    def test_parameters_prices_and_shifts_are_what_the_test_says(self):
        arn = f"arn:aws:eks:us-west-2:{self.number}:cluster/one"
        self.change(parameters={"/aws/service/eks/x": "ami-1"}, prices={"m5.large": 0.096},
                    spot_prices=[{"InstanceType": "m5.large", "AvailabilityZone": "us-west-2a", "SpotPrice": "0.03"}],
                    managed_resources={arn: {"autoshifts": [{"appliedStatus": "APPLIED", "awayFrom": "usw2-az1", "startTime": 1.0}]}})
        self.assertEqual(self.client("ssm").get_parameter(Name="/aws/service/eks/x")["Parameter"]["Value"], "ami-1")
        price = json.loads(self.client("pricing").get_products(ServiceCode="AmazonEC2")["PriceList"][0])
        self.assertEqual(price["product"]["attributes"]["instanceType"], "m5.large")
        self.assertEqual(self.ec2.describe_spot_price_history()["SpotPriceHistory"][0]["SpotPrice"], "0.03")
        shifts = self.client("arc-zonal-shift")
        self.assertEqual(shifts.get_managed_resource(resourceIdentifier=arn)["autoshifts"][0]["awayFrom"], "usw2-az1")
        self.assertEqual(self.code(shifts.get_managed_resource, resourceIdentifier=arn + "2"), "ResourceNotFoundException")

    def test_placement_groups_are_found_by_name(self):
        self.change(placement_groups=[{"GroupName": "near", "GroupId": "pg-1", "State": "available", "Strategy": "cluster"}])
        self.assertEqual(self.ec2.describe_placement_groups(GroupNames=["near"])["PlacementGroups"][0]["GroupId"], "pg-1")
        self.assertEqual(self.code(self.ec2.describe_placement_groups, GroupNames=["far"]), "InvalidPlacementGroup.Unknown")

    def test_all_templates_are_listed_and_a_missing_one_is_said_to_be(self):
        for n in range(20):
            self.template(name=f"t{n}")
        self.assertEqual(len(self.ec2.describe_launch_templates()["LaunchTemplates"]), 20)
        self.assertEqual(self.code(self.ec2.delete_launch_template, LaunchTemplateName="none"), "InvalidLaunchTemplateName.NotFoundException")

    def test_profiles_are_listed_by_path(self):
        iam = self.client("iam")
        for name, path in (("a", "/karpenter/us-west-2/one/x/"), ("b", "/")):
            iam.create_instance_profile(InstanceProfileName=name, Path=path)
        found = iam.list_instance_profiles(PathPrefix="/karpenter/us-west-2/one/")["InstanceProfiles"]
        self.assertEqual([p["InstanceProfileName"] for p in found], ["a"])

    def test_accounts_do_not_see_each_other(self):
        self.template()
        self.number = str(next(_number))
        self.assertEqual(self.client("ec2").describe_launch_templates()["LaunchTemplates"], [])


class Faults(EmulatorTest):
    def test_a_fault_comes_as_often_as_asked_and_clients_retry(self):
        self.change(faults=[{"operation": "DescribeSubnets", "code": "RequestLimitExceeded", "status": 503, "times": 2}])
        answer = self.client("ec2", retries=3).describe_subnets()
        self.assertEqual(answer["ResponseMetadata"]["RetryAttempts"], 2)

    def test_a_call_can_be_carried_out_and_its_answer_lost(self):
        self.template()
        self.change(faults=[{"operation": "CreateFleet", "code": "InternalError", "applied": True}])
        self.assertEqual(self.code(self.fleet, ClientToken="claim-1"), "InternalError")
        self.assertEqual(len(self.ec2.describe_instances()["Reservations"]), 1)
        self.fleet(ClientToken="claim-1")
        self.assertEqual(len(self.ec2.describe_instances()["Reservations"]), 1)

    def test_errors_have_the_form_of_their_service(self):
        for service, operation, call in (
            ("iam", "GetRole", lambda c: c.get_role(RoleName="x")), ("sqs", "GetQueueUrl", lambda c: c.get_queue_url(QueueName="x")),
            ("ssm", "GetParameter", lambda c: c.get_parameter(Name="x")), ("eks", "DescribeCluster", lambda c: c.describe_cluster(name="x")),
        ):
            self.change(faults=[{"operation": operation, "code": "Strange", "status": 400}])
            self.assertEqual(self.code(call, self.client(service)), "Strange", service)

    def test_pages_without_anything_come_first(self):
        self.change(empty_pages={"DescribeSubnets": 2})
        sizes = [len(page.get("Subnets", [])) for page in self.ec2.get_paginator("describe_subnets").paginate()]
        self.assertEqual(sizes, [0, 0, len(self.subnets)])

    def test_pods_and_instances_learn_who_and_where_they_are(self):
        self.assertEqual(self.control("/credentials")["AccessKeyId"], f"POD{self.number}")
        asked = urllib.request.Request(f"{url}/latest/api/token", method="PUT")
        with urllib.request.urlopen(asked) as answer:
            token = answer.read().decode()
        asked = urllib.request.Request(f"{url}/latest/meta-data/placement/region", headers={"x-aws-ec2-metadata-token": token})
        with urllib.request.urlopen(asked) as answer:
            self.assertEqual(answer.read(), b"us-west-2")

    def test_any_call_can_be_made_without_a_client(self):
        said = self.control("/call", {"service": "sqs", "operation": "create_queue", "parameters": {"QueueName": "q"}})
        self.assertTrue(said["QueueUrl"].endswith(f"{self.number}/q"), said)

    def test_an_unknown_setting_is_refused(self):
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.change(no_such_thing=1)
        self.assertIn("no_such_thing", caught.exception.read().decode())
        caught.exception.close()

    def test_calls_are_counted(self):
        self.control("/calls?clear=1")
        self.ec2.describe_subnets()
        self.assertEqual([c["operation"] for c in self.control("/calls")], ["DescribeSubnets"])


class Authoriser(EmulatorTest):
    """AC-281 and AC-282 rest on this: it lets through what statements allow and nothing else."""

    OWNED = {"kubernetes.io/cluster/one": "owned", "eks:eks-cluster-name": "one", "karpenter.sh/nodepool": "default"}

    def allow(self, *statements):
        self.change(policy=[{"Effect": "Allow", **s} for s in statements])

    def test_what_no_statement_allows_is_refused_and_noted(self):
        self.allow({"Action": "ec2:Describe*", "Resource": "*", "Condition": {"StringEquals": {"aws:RequestedRegion": "us-west-2"}}})
        self.ec2.describe_subnets()
        self.assertEqual(self.code(self.ec2.create_launch_template, LaunchTemplateName="x", LaunchTemplateData={"ImageId": "ami-1"}), "UnauthorizedOperation")
        self.assertEqual(self.control("/denials")[0]["action"], "ec2:CreateLaunchTemplate")

    def test_creation_needs_its_request_tags(self):
        kinds = [f"arn:aws:ec2:us-west-2:*:{k}/*" for k in ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")]
        tags = {"StringEquals": {"aws:RequestTag/kubernetes.io/cluster/one": "owned", "aws:RequestTag/eks:eks-cluster-name": "one"},
                "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"}}
        self.allow({"Action": ["ec2:CreateLaunchTemplate", "ec2:CreateFleet"], "Resource": kinds, "Condition": tags},
                   {"Action": "ec2:CreateTags", "Resource": kinds, "Condition": {**tags, "StringEquals": {
                       **tags["StringEquals"], "ec2:CreateAction": ["CreateFleet", "CreateLaunchTemplate"]}}},
                   {"Action": "ec2:CreateFleet", "Resource": "arn:aws:ec2:us-west-2:*:subnet/*"},
                   {"Action": "ec2:CreateFleet", "Resource": "arn:aws:ec2:us-west-2:*:launch-template/*", "Condition": {
                       "StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/one": "owned"}, "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"}}})
        self.assertEqual(self.code(self.template, name="bare"), "UnauthorizedOperation")
        self.template(tags=self.OWNED)
        self.assertEqual(self.code(self.fleet), "UnauthorizedOperation")
        self.assertEqual(len(self.fleet(tags=self.OWNED)["Instances"]), 1)

    def test_deletion_needs_the_tags_of_what_goes(self):
        self.template(name="other")
        self.template(name="ours", tags=self.OWNED)
        self.allow({"Action": "ec2:DeleteLaunchTemplate", "Resource": "arn:aws:ec2:us-west-2:*:launch-template/*",
                    "Condition": {"StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"}}})
        self.assertEqual(self.code(self.ec2.delete_launch_template, LaunchTemplateName="other"), "UnauthorizedOperation")
        self.ec2.delete_launch_template(LaunchTemplateName="ours")

    def test_tagging_is_limited_to_keys(self):
        self.template()
        instance = self.instance(self.fleet(tags=self.OWNED))["InstanceId"]
        self.allow({"Action": "ec2:CreateTags", "Resource": "arn:aws:ec2:us-west-2:*:instance/*",
                    "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "karpenter.sh/nodeclaim"]},
                                  "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": "one"}}})
        self.ec2.create_tags(Resources=[instance], Tags=[{"Key": "Name", "Value": "x"}])
        self.assertEqual(self.code(self.ec2.create_tags, Resources=[instance], Tags=[{"Key": "other", "Value": "x"}]), "UnauthorizedOperation")

    def test_a_role_is_passed_only_where_allowed(self):
        iam = self.client("iam")
        iam.create_role(RoleName="node", AssumeRolePolicyDocument="{}")
        iam.create_instance_profile(InstanceProfileName="p", Tags=[{"Key": "karpenter.k8s.aws/ec2nodeclass", "Value": "default"}])
        add = {"Action": "iam:AddRoleToInstanceProfile", "Resource": f"arn:aws:iam::{self.number}:instance-profile/*",
               "Condition": {"StringLike": {"aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"}}}
        self.allow(add)
        self.assertEqual(self.code(iam.add_role_to_instance_profile, InstanceProfileName="p", RoleName="node"), "AccessDenied")
        self.allow(add, {"Action": "iam:PassRole", "Resource": f"arn:aws:iam::{self.number}:role/node",
                         "Condition": {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com"]}}})
        iam.add_role_to_instance_profile(InstanceProfileName="p", RoleName="node")

    def test_whoever_launches_with_a_profile_passes_its_role(self):
        iam = self.client("iam")
        iam.create_role(RoleName="node", AssumeRolePolicyDocument="{}")
        iam.create_instance_profile(InstanceProfileName="p")
        iam.add_role_to_instance_profile(InstanceProfileName="p", RoleName="node")
        self.template(IamInstanceProfile={"Name": "p"})
        self.allow({"Action": "ec2:*", "Resource": "*"})
        self.assertEqual(self.code(self.fleet), "UnauthorizedOperation")
        self.assertEqual(self.control("/denials?clear=1")[0]["action"], "iam:PassRole")
        self.allow({"Action": "ec2:*", "Resource": "*"}, {"Action": "iam:PassRole", "Resource": f"arn:aws:iam::{self.number}:role/node"})
        self.assertEqual(len(self.fleet()["Instances"]), 1)
        self.assertEqual(self.control("/denials"), [])

    def test_the_owner_is_neither_refused_nor_disturbed(self):
        self.change(policy=[], faults=[{"operation": "DescribeSubnets", "times": 1}])
        call = {"service": "ec2", "operation": "describe_subnets", "parameters": {}}
        self.assertTrue(self.control("/call", call)["Subnets"])
        self.assertEqual(self.control("/denials"), [])
        self.assertEqual(self.control("")["faults"][0]["times"], 1)
        there = self.control("/call", {**call, "region": "ap-south-1"})["Subnets"]
        self.assertEqual({s["AvailabilityZone"][:-1] for s in there}, {"ap-south-1"})

    def test_the_controllers_policy_and_what_is_said_besides(self):
        denied = {"Effect": "Deny", "Action": "ec2:DescribeSubnets", "Resource": "*"}
        self.change(policy_of={"cluster": "one", "account": self.number}, policy=[denied])
        self.assertEqual(self.code(self.ec2.describe_subnets), "UnauthorizedOperation")
        self.change(policy_of={"cluster": "one", "account": self.number})
        self.ec2.describe_subnets()


if __name__ == "__main__":
    unittest.main()
