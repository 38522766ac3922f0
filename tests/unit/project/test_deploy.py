"""The template of `deploy/`: its policies are those of the commands, its settings are valid.

That it fits the schemas of CloudFormation is asked by `make lint`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import pytest
import typer
from ruamel.yaml import YAML
from ruamel.yaml.nodes import Node, ScalarNode, SequenceNode

from compaction.commands.follow import METRICS
from compaction.job.checks import iceberg_table
from compaction.job.settings import load_job_settings
from consumer.monitoring.cloudwatch import COUNTED, GAUGES, OF_STREAM
from consumer.settings.settings import load_with_kcl
from minutebook.cli import app
from minutebook.emf import NAMESPACE
from tests.witness.policies import (
    BUCKET_POLICY,
    CHECKOUT,
    IAM,
    Names,
    Statement,
    bucket_policy,
    command_names,
    command_policy,
)

NAMES: Final = Names(account="111122223333", region="eu-west-1")
_VALUES: Final = {
    "AWS::Partition": "aws",
    "AWS::Region": NAMES.region,
    "AWS::AccountId": NAMES.account,
    "StreamName": NAMES.stream,
    "ApplicationName": NAMES.application,
    "BucketName": NAMES.bucket,
    "Prefix": NAMES.prefix,
    "ExtraProperties": "minutebook.dedupe = claims\nminutebook.eventId = id",
    "ExpireRole.Arn": f"arn:aws:iam::{NAMES.account}:role/expire",
    "NightlyCodeBucket": "code",
    "NightlyCodePrefix": "minutebook/",
}


_NO_VALUE: Final = object()


class _Stack:
    """The template with its functions resolved, for these values of its parameters."""

    def __init__(self, raw: Mapping[str, Any], values: Mapping[str, str]) -> None:
        self._raw = raw
        defaults = {name: str(each["Default"]) for name, each in raw["Parameters"].items() if "Default" in each}
        self._values = {**defaults, **values}
        self._told = {**values}

    def template(self) -> dict[str, Any]:
        """Return it, without the resources whose condition is false."""
        resources = {
            name: each
            for name, each in self._raw["Resources"].items()
            if "Condition" not in each or self._holds(each["Condition"])
        }
        resolved: dict[str, Any] = self._resolved({**self._raw, "Resources": resources, "Conditions": {}})
        return resolved

    def _holds(self, name: str) -> bool:
        return bool(self._truth(self._raw["Conditions"][name]))

    def _truth(self, asked: Mapping[str, Any]) -> bool:
        [(function, value)] = asked.items()
        match function:
            case "Equals":
                left, right = map(self._value, value)
                return left == right
            case "Not":
                return not self._truth(value[0])
            case "And":
                return all(map(self._truth, value))
            case "Condition":
                return self._holds(value)
        raise AssertionError(function)

    def _value(self, given: Any) -> str:  # noqa: ANN401 - YAML
        if not isinstance(given, dict):
            return str(given)
        [(function, argument)] = given.items()
        if function == "Join":  # of a list parameter, which is one text here
            [joint, listed] = argument
            return str(joint).join(self._value(listed).split(","))
        return self._values[argument]

    def _resolved(self, value: Any) -> Any:  # noqa: ANN401, PLR0911 - YAML; a return for each function
        if isinstance(value, list):
            return [each for each in map(self._resolved, value) if each is not _NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(function, given)] = value.items()
            if function == "If":
                return self._resolved(given[1 if self._holds(given[0]) else 2])
            if function == "Ref" and given == "AWS::NoValue":
                return _NO_VALUE
            if function in {"Ref", "GetAtt"}:
                return self._told.get(given, f"<{given}>")
            if function == "Sub":
                text, own = given if isinstance(given, list) else (given, {})
                names = {**self._told, **self._resolved(own)}
                return re.sub(r"\$\{([^}]+)\}", lambda found: names.get(found[1], f"<{found[1]}>"), text)
        pairs = {name: self._resolved(each) for name, each in value.items()}
        return {name: each for name, each in pairs.items() if each is not _NO_VALUE}


def _stack(**parameters: str) -> dict[str, Any]:
    """Read the template; parameters that are not given have their defaults, and are told as <Name>."""
    yaml = YAML(typ="safe", pure=True)

    def keep(loader: Any, suffix: str, node: Node) -> object:  # noqa: ANN401 - ruamel's constructor
        if isinstance(node, SequenceNode):
            return {suffix: loader.construct_sequence(node, deep=True)}
        assert isinstance(node, ScalarNode), node
        return {suffix: str(node.value)}

    yaml.constructor.add_multi_constructor("!", keep)
    raw = yaml.load(CHECKOUT / "deploy" / "cloudformation" / "minutebook.yaml")
    return _Stack(raw, {**_VALUES, **parameters}).template()


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """Return the stack of one stream, with all that it can make."""
    return _stack(WithDedupeTable="true", NightlySubnetIds="subnet-1")


def _same(found: list[Statement], wanted: list[Statement]) -> bool:
    return [_plain(each) for each in found] == [_plain(each) for each in wanted]


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Write a list of one text as IAM also takes it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return value[0] if len(value) == 1 else [_plain(each) for each in value]
    return value


@pytest.mark.parametrize("command", sorted({*command_names()} - {"handover"}))
def test_a_policy_is_that_of_its_command(template: dict[str, Any], command: str) -> None:
    """Statement by statement. That of `handover` names the table of an application which is not the stack's."""
    name = "".join(part.title() for part in command.split("-")) + "Policy"
    document = template["Resources"][name]["Properties"]["PolicyDocument"]
    assert _same(document["Statement"], command_policy(command, NAMES))


def test_no_role_has_other_policies(template: dict[str, Any]) -> None:
    """Beside who runs Spark, starts it, or fetches the image."""
    roles = {name: each for name, each in template["Resources"].items() if each["Type"] == "AWS::IAM::Role"}
    given = {
        name: sorted(text for text in _texts(role["Properties"].get("ManagedPolicyArns", [])) if "Policy>" in text)
        for name, role in roles.items()
    }
    assert given == {
        "WorkerRole": ["<ConsumePolicy>", "<DedupePolicy>"],
        "OperatorRole": ["<DoctorPolicy>", "<RestorePolicy>", "<StatusPolicy>"],
        "ExpireRole": ["<ExpirePolicy>"],
        "NightlyRole": ["<AuditStreamPolicy>", "<CompactPolicy>", "<VacuumPolicy>"],
        "ExecutionRole": [],
        "SchedulerRole": [],
    }
    assert {name for name, role in roles.items() if "Policies" in role["Properties"]} == {
        "NightlyRole",
        "SchedulerRole",
    }


_TABLE: Final = {"DatabaseName": "lake", "TableName": "events", "WarehouseBucket": "house", "WarehousePrefix": "w/"}


def test_a_night_commits_to_the_table_of_the_stack() -> None:
    """By options that the command has, and the catalog's settings for pyiceberg; with the rights to it."""
    resources = _stack(**_TABLE, NightlySubnetIds="subnet-1")["Resources"]
    job = json.loads(resources["CompactSchedule"]["Properties"]["Target"]["Input"])["JobDriver"]["SparkSubmit"]
    options = ["--iceberg", "lake.events", "--iceberg-catalog", "lake"]
    assert job["EntryPointArguments"] == [*NIGHT["CompactSchedule"], *options]
    commands: Any = typer.main.get_command(app)
    commands.commands["compact"].make_context("compact", job["EntryPointArguments"][1:])
    catalog = dict(re.findall(r"driverEnv\.PYICEBERG_CATALOG__LAKE__(\w+)=(\S+)", job["SparkSubmitParameters"]))
    assert catalog == {"TYPE": "glue", "GLUE__REGION": NAMES.region, "WAREHOUSE": "s3://house/w/"}
    assert "<CatalogPolicy>" in resources["NightlyRole"]["Properties"]["ManagedPolicyArns"]
    assert "FollowService" not in resources
    audit = json.loads(resources["AuditSchedule"]["Properties"]["Target"]["Input"])["JobDriver"]["SparkSubmit"]
    assert audit["EntryPointArguments"] == NIGHT["AuditSchedule"]


def test_the_table_is_followed_by_a_service_of_its_own() -> None:
    """With settings that the command reads, into the night's table; the alarm is about a metric that it prints."""
    resources = _stack(**_TABLE, FollowImage="image")["Resources"]
    [container] = resources["FollowTask"]["Properties"]["ContainerDefinitions"]
    variables = {row["Name"]: row["Value"] for row in container["Environment"]}
    settings = load_job_settings(None, variables)
    assert (settings.stream_name, settings.bucket, settings.prefix) == (NAMES.stream, NAMES.bucket, NAMES.prefix)
    assert settings.metrics == "emf"
    assert "minutebook.eventId = id" in variables["MINUTEBOOK_PROPERTIES_TEXT"].splitlines()  # of ExtraProperties
    assert variables["PYICEBERG_CATALOG__LAKE__WAREHOUSE"] == "s3://house/w/"
    command = container["Command"]
    commands: Any = typer.main.get_command(app)
    given = commands.commands["follow"].make_context("follow", command[1:]).params
    assert f":{given['port']}/healthz" in container["HealthCheck"]["Command"][-1]
    role = resources["FollowRole"]["Properties"]
    assert (role["ManagedPolicyArns"], "Policies" in role) == (["<FollowPolicy>", "<CatalogPolicy>"], False)
    alarm = resources["FollowAlarm"]["Properties"]
    table = iceberg_table(given["iceberg"], given["iceberg_catalog"])
    assert alarm["MetricName"] in METRICS
    assert alarm["Dimensions"] == [
        {"Name": "Application", "Value": NAMES.application},
        {"Name": "Table", "Value": table},
    ]


def test_without_a_table_nobody_asks_glue() -> None:
    """Nor does a fleet: each of its streams has a table of its own."""
    made = json.dumps(_stack()["Resources"])
    assert "glue:UpdateTable" not in made
    assert "--iceberg" not in made


def test_the_bucket_is_protected_by_the_policy_of_the_pages(template: dict[str, Any]) -> None:
    """And by one statement more: no request without TLS."""
    statements = template["Resources"]["ArchiveBucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert _same(statements[:-1], bucket_policy(NAMES))
    assert statements[-1]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_nothing_current_expires(template: dict[str, Any]) -> None:
    """A rule that deletes raw objects re-opens their slots."""
    rules = template["Resources"]["ArchiveBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
    assert {name for rule in rules for name in rule} == {
        "Id",
        "Status",
        "NoncurrentVersionExpiration",
        "ExpiredObjectDeleteMarker",
        "AbortIncompleteMultipartUpload",
    }


def test_consume_accepts_the_settings_of_the_task(template: dict[str, Any]) -> None:
    """With lines that a person added; and the task waits as long as Fargate can."""
    [container] = template["Resources"]["TaskDefinition"]["Properties"]["ContainerDefinitions"]
    environment = {row["Name"]: row["Value"] for row in container["Environment"]}
    loaded = load_with_kcl(None, environment)
    settings = loaded.settings

    assert (settings.stream_name, settings.bucket, settings.prefix) == (NAMES.stream, NAMES.bucket, NAMES.prefix)
    assert (settings.dedupe, loaded.kcl["metricsLevel"]) == ("claims", "NONE")
    assert "workerId" not in loaded.kcl, "two tasks would share one"
    assert settings.metrics == "emf"
    assert container["StopTimeout"] == 120


def test_the_health_check_is_that_of_the_page_on_operations(template: dict[str, Any]) -> None:
    """With the patience that the page advises."""
    [container] = template["Resources"]["TaskDefinition"]["Properties"]["ContainerDefinitions"]
    check = container["HealthCheck"]
    advice = f'`["CMD", "minutebook", "health"]`, interval {check["Interval"]}, retries {check["Retries"]}'

    assert check["Command"] == ["CMD", "minutebook", "health"]
    assert f"{advice}, startPeriod {check['StartPeriod']}." in (CHECKOUT / "docs" / "operations.md").read_text()


def test_the_alarms_are_those_of_the_page_on_operations(template: dict[str, Any]) -> None:
    """About metrics that a task prints, with the limits that the page explains."""
    page = (CHECKOUT / "docs" / "operations.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| \w+ \|[^|]*\| ([^|]+) \|$", page, re.MULTILINE))
    alarms = [
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::CloudWatch::Alarm" and each["Properties"]["Namespace"] == NAMESPACE
    ]
    own = [each for each in alarms if "Dimensions" in each and each["MetricName"] != "DaysOpen"]

    assert len(alarms) == len(own) + 2, "the one of the error lines counts what a filter finds; one is the night's"
    assert len(own) == 8
    for alarm in own:
        sign = {"LessThanThreshold": "<", "GreaterThanThreshold": ">"}[alarm["ComparisonOperator"]]
        minutes = alarm["Period"] * alarm["EvaluationPeriods"] // 60
        how = "in" if alarm["Statistic"] == "Sum" else "for"
        limit = str(alarm["Threshold"])
        if limit.startswith("<"):
            limit = str(template["Parameters"][limit.strip("<>")]["Default"])
        sentence = f"{alarm['Statistic']} {sign} {limit} {how} {minutes} minutes"
        assert told[alarm["MetricName"]].startswith(sentence)
        assert alarm["MetricName"] in {*GAUGES, *(row.name for row in COUNTED)}
        stream = [{"Name": "Stream", "Value": NAMES.stream}] if alarm["MetricName"] in OF_STREAM else []
        assert alarm["Dimensions"] == [{"Name": "Application", "Value": NAMES.application}, *stream]


def test_somebody_is_told_of_a_night_that_did_not_run(template: dict[str, Any]) -> None:
    """By the metric of the page on nights, which the job writes to a log that its role may write to."""
    resources = template["Resources"]
    alarm = resources["DaysOpenAlarm"]["Properties"]
    assert (alarm["MetricName"], alarm["TreatMissingData"]) == ("DaysOpen", "breaching")
    assert alarm["Dimensions"] == [
        {"Name": "Application", "Value": NAMES.application},
        {"Name": "Command", "Value": "compact"},
    ]
    page = (CHECKOUT / "docs" / "how-to" / "nightly.md").read_text()
    assert re.search(r"\| `DaysOpen` .*Alarm: Maximum > 0 in 26 of 26 hours, missing data breaching", page)
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (3600, 26, 26)
    target = json.loads(resources["CompactSchedule"]["Properties"]["Target"]["Input"])
    assert "MINUTEBOOK_METRICS=emf" in target["JobDriver"]["SparkSubmit"]["SparkSubmitParameters"]
    logs = target["ConfigurationOverrides"]["MonitoringConfiguration"]["CloudWatchLoggingConfiguration"]
    assert (logs["LogGroupName"], logs["LogTypes"]) == ("<LogGroup>", {"SPARK_DRIVER": ["STDOUT", "STDERR"]})
    [document] = [row["PolicyDocument"] for row in resources["NightlyRole"]["Properties"]["Policies"]]
    assert any("logs:PutLogEvents" in each["Action"] for each in document["Statement"])


def test_without_a_way_to_kinesis_no_night_compares_with_the_stream() -> None:
    """EMR Serverless reaches it through subnets alone; whoever has an application says by it which it has."""
    assert "AuditSchedule" not in _stack()["Resources"]
    assert "NetworkConfiguration" not in _stack()["Resources"]["Spark"]["Properties"]
    made = _stack(NightlySubnetIds="subnet-1")["Resources"]
    assert made["Spark"]["Properties"]["NetworkConfiguration"]["SubnetIds"] == "subnet-1"
    assert "AuditSchedule" in made
    assert "AuditSchedule" in _stack(SparkApplicationId="00fabc")["Resources"]


def test_a_night_may_have_a_file(template: dict[str, Any]) -> None:
    """With the lines that ExtraProperties has for the workers."""
    file = "s3://code/minutebook/my.properties"
    made = _stack(NightlyFile=file)["Resources"]
    job = json.loads(made["CompactSchedule"]["Properties"]["Target"]["Input"])["JobDriver"]["SparkSubmit"]
    assert job["EntryPointArguments"][:2] == ["compact", file]
    assert template["Resources"]["Spark"]["Properties"]["Name"] == "<SparkApplicationName>"


NIGHT: Final = {
    "CompactSchedule": ["compact", "--due", "14d", "--budget", "3h"],
    "AuditSchedule": ["audit", "--date", "yesterday", "--level", "stream"],
}


@pytest.mark.parametrize("name", NIGHT)
def test_the_night_starts_a_command_that_is_there(template: dict[str, Any], name: str) -> None:
    """With settings from the environment, at a time at which the day can be judged.

    EMR ends no run before its budget has: a run that is killed names no day.
    """
    properties = template["Resources"][name]["Properties"]
    target = json.loads(properties["Target"]["Input"])
    job = target["JobDriver"]["SparkSubmit"]
    minute, hour = properties["ScheduleExpression"].removeprefix("cron(").split()[:2]
    words = job["SparkSubmitParameters"].split()

    assert job["EntryPointArguments"] == NIGHT[name]
    commands: Any = typer.main.get_command(app)
    commands.commands[NIGHT[name][0]].make_context(NIGHT[name][0], NIGHT[name][1:])
    assert target["ExecutionTimeoutMinutes"] >= 2 * 3 * 60
    assert int(hour) * 60 + int(minute) >= 20
    driver = "spark.emr-serverless.driverEnv.MINUTEBOOK_"
    given = dict(word.removeprefix(driver).split("=", 1) for word in words if word.startswith(driver))
    settings = load_job_settings(None, {f"MINUTEBOOK_{variable}": value for variable, value in given.items()})
    assert (settings.stream_name, settings.application_name, settings.region) == (
        NAMES.stream,
        NAMES.application,
        NAMES.region,
    )
    assert (settings.bucket, settings.prefix) == (NAMES.bucket, NAMES.prefix)


def _row(command: str) -> str:
    """Return what a command may do, as the page on deploying shows it."""
    columns: dict[str, list[str]] = {"kinesis": [], "s3": [], "dynamodb": []}
    for statement in json.loads((IAM / f"{command}.json").read_text())["Statement"]:
        service = statement["Action"][0].partition(":")[0]
        if service not in columns:  # of AWS's other services; there is no resource to name
            assert statement["Resource"] == "*"
            columns["dynamodb"] += statement["Action"]
            continue
        actions = ", ".join(action.partition(":")[2] for action in statement["Action"])
        resources = [statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"]
        wanted = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        names = [wanted] if wanted else [re.split("BUCKET/|table/|:::", each)[-1] for each in resources]
        where = ", ".join(f"`{name}`" for name in names)
        how = " with `If-None-Match`" if "Null" in statement.get("Condition", {}) else ""
        columns[service].append(actions if service == "kinesis" else f"{actions}{how} on {where}")
    return f"| `{command}` | " + " | ".join("; ".join(texts) or "-" for texts in columns.values()) + " |"


@pytest.mark.parametrize("command", command_names())
def test_the_page_shows_what_a_command_may_do(command: str) -> None:
    """Row by row."""
    assert _row(command) in (CHECKOUT / "docs" / "deploy.md").read_text().splitlines()


def test_the_page_on_operations_has_the_policies_as_they_are() -> None:
    """Of the workers, and of the bucket."""
    blocks = re.findall(r"```json\n(.*?)```", (CHECKOUT / "docs" / "operations.md").read_text(), re.DOTALL)
    documents = [json.loads(block) for block in blocks]

    assert json.loads((IAM / "consume.json").read_text()) in documents
    assert json.loads(BUCKET_POLICY.read_text()) in documents


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - YAML
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)


def test_what_is_there_is_not_made() -> None:
    """Bucket, cluster and EMR application of a company: the service and the night are put into them."""
    names = {"BucketExists": "true", "ClusterName": "ours", "SparkApplicationId": "00spark"}
    made, used = _stack()["Resources"], _stack(**names)["Resources"]
    assert made.keys() - used.keys() == {"ArchiveBucket", "ArchiveBucketPolicy", "Cluster", "Spark"}
    assert used["Service"]["Properties"]["Cluster"] == "ours"
    assert json.loads(used["CompactSchedule"]["Properties"]["Target"]["Input"])["ApplicationId"] == "00spark"
    start = used["SchedulerRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"][0]
    assert start["Resource"].endswith(":/applications/00spark")
    assert used["NightAlarm"]["Properties"]["Dimensions"][0] == {"Name": "ApplicationId", "Value": "00spark"}


_FLEET: Final = {
    "FleetName": "shop",
    "StreamName": "shop-*",
    "ApplicationName": "shop-*",
    "Prefix": "shop/*/",
    "ExtraProperties": "",
}


def test_a_fleet_is_one_service_that_reads_its_files_from_the_image() -> None:
    """Nothing of one stream stands in its environment: that would be refused."""
    resources = _stack(**_FLEET)["Resources"]
    [container] = resources["TaskDefinition"]["Properties"]["ContainerDefinitions"]
    assert container["Command"] == ["consume", "/streams/shop/"]
    assert container["Environment"] == [{"Name": "MINUTEBOOK_REGION_NAME", "Value": NAMES.region}]
    assert "/healthz" in container["HealthCheck"]["Command"][-1]
    alarm = resources["UnhealthyAlarm"]["Properties"]
    assert alarm["Dimensions"] == [{"Name": "Application", "Value": "shop"}]
    night = json.loads(resources["CompactSchedule"]["Properties"]["Target"]["Input"])["JobDriver"]["SparkSubmit"]
    assert night["EntryPointArguments"] == [
        "compact",
        "s3://code/minutebook/streams/shop/",
        *NIGHT["CompactSchedule"][1:],
    ]
    given = re.findall(r"driverEnv\.MINUTEBOOK_(\w+)=", night["SparkSubmitParameters"])
    assert given == ["REGION_NAME"]


@pytest.mark.parametrize("command", ["consume", "compact", "vacuum", "doctor", "dedupe"])
def test_a_fleets_role_may_do_it_for_each_of_its_streams_and_no_other(command: str) -> None:
    """Whatever a policy allows for one stream, the pattern allows for streams of the fleet; not for a stranger's."""
    name = "".join(part.title() for part in command.split("-")) + "Policy"
    resources = _stack(**_FLEET, WithDedupeTable="true")["Resources"]
    statements = resources[name]["Properties"]["PolicyDocument"]["Statement"]
    for prefix, is_ours in (("shop-clicks", True), ("bank-clicks", False)):
        folder = f"{prefix.replace('-', '/')}/"
        names = NAMES._replace(stream=prefix, application=prefix, prefix=folder)
        for theirs, ours in zip(command_policy(command, names), statements, strict=True):
            if theirs["Resource"] == "*":  # AWS knows no resource of the action
                assert theirs["Action"] == ["glue:GetSchemaVersion"]
                continue
            wanted = [each for each in _listed(theirs["Resource"]) if not each.endswith(f":::{NAMES.bucket}")]
            found = [any(fnmatchcase(each, pattern) for pattern in _listed(ours["Resource"])) for each in wanted]
            assert found == [is_ours] * len(wanted), (theirs["Sid"], wanted)
            listed = theirs.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
            if listed is not None:
                assert fnmatchcase(listed, ours["Condition"]["StringLike"]["s3:prefix"]) is is_ours


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
