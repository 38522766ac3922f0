"""KCL's names: those that do nothing are errors, and the daemon's own table of names agrees with ours."""

import zipfile

import pytest

from consumer.preflight.java import find_jars
from minutebook.settings.kcl_properties import INEFFECTIVE, KCL_PROPERTIES, refuse
from minutebook.settings.values import PROVIDERS

_BEANS = (
    "MultiLangDaemonConfiguration",
    "PollingConfigBean",
    "FanoutConfigBean",
    "CoordinatorStateTableConfigBean",
    "WorkerMetricStatsTableConfigBean",
    "GracefulLeaseHandoffConfigBean",
    "WorkerUtilizationAwareAssignmentConfigBean",
)
_READ_ELSEWHERE = {
    "executableName",
    "processingLanguage",
    "maxActiveThreads",
    "AwsCredentialsProvider",
    "AwsCredentialsProviderDynamoDB",
    "AwsCredentialsProviderCloudWatch",
    "regionName",
    "workerId",
    "kinesisEndpoint",
    "dynamoDBEndpoint",
    "initialPositionInStream",
}
"""Names that are not fields: setters, and what MultiLangDaemonConfig reads itself."""
_SINCE_3_5 = {
    "migrateAllEntitiesToLeaseTable",
    "tableMigrationCompleteBakeTimeSeconds",
    "leaseTableScanTotalSegments",
}
"""Names that the installed daemon does not have yet: a file that is written for both is not wrong."""


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("validateSequenceNumberBeforeCheckpointing", "true", "ineffective"),
        ("cleanupLeasesUponShardCompletion", "false", "ineffective"),
        ("skipShardSyncAtWorkerInitializationIfLeasesExist", "true", "ineffective"),
        ("taskBackoffTimeMillis", "0", "KCL skips a zero and takes its default 500"),
        ("initialPositionInStream", "LATEST", "use minutebook.start"),
        ("initialPositionInStream", "AT_TIMESTAMP", "use minutebook.start"),
        ("maxRecords", "10001", "must be from 1 to 10000 records"),
        ("idleTimeBetweenReadsInMillis", "100", "must be from 200"),
        ("retrievalMode", "polling", "must be one of DEFAULT, FANOUT, POLLING"),
        ("ignoreUnexpectedChildShards", "TRUE", "must be true or false"),
        ("kinesisEndpoint", "localhost:4567", "must be an address such as"),
        ("streamName", "", "must be 1 to 128"),
        ("applicationName", "a/b", "must be 3 to 255"),
        ("maxActiveThreads", "4", "block each other"),
        ("regionName", "", "is empty"),
        ("tableMigrationCompleteBakeTimeSeconds", "60", "must be from 3600 to 604800 seconds"),
        ("leaseTableScanTotalSegments", "0", "must be from 1"),
        ("AwsCredentialsProvider", "DefaultAWSCredentialsProviderChain", "of AWS's SDK for Java 2 (DefaultCred"),
        ("AwsCredentialsProviderDynamoDB", "ProfileCredentialsProvider|a,Nope|b", "not 'Nope'"),
        ("AwsCredentialsProvider", "DefaultCredentialsProvider,", "not ''"),
        ("staleWorkerMetricsEntryCleanupDuration", "a day", "must be a duration such as P1D"),
        ("staleWorkerMetricsEntryCleanupDuration", "PT", "must be a duration"),
        ("shardPrioritization", "NoOpShardPrioritization", "the daemon takes no text for it"),
    ],
)
def test_refused(name: str, text: str, part: str) -> None:
    """A value that would be ignored, or that breaks the protocol, is refused by name."""
    refusal = refuse(name, text)

    assert refusal is not None
    assert name in refusal
    assert part in refusal


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("initialPositionInStream", "TRIM_HORIZON"),
        ("maxActiveThreads", "0"),
        ("failoverTimeMillis", "2000"),
        ("migrateAllEntitiesToLeaseTable", "true"),
        ("tableMigrationCompleteBakeTimeSeconds", "3600"),
        ("leaseTableScanTotalSegments", "16"),
        ("staleWorkerMetricsEntryCleanupDuration", "P1DT12H"),
        ("AwsCredentialsProvider", "com.example.Vault|a, EnvironmentVariableCredentialsProvider"),
    ],
)
def test_taken(name: str, text: str) -> None:
    """What KCL takes as written is taken; a zero that is the default does no harm."""
    assert refuse(name, text) is None


def test_names_exist_in_the_installed_daemon() -> None:
    """Each name in our table is a field of the daemon's configuration, or is known to be read elsewhere."""
    jar = next(path for path in find_jars() if path.name.startswith("amazon-kinesis-client-multilang-"))
    with zipfile.ZipFile(jar) as classes:
        code = b"".join(classes.read(f"software/amazon/kinesis/multilang/config/{bean}.class") for bean in _BEANS)

    assert {name for name in KCL_PROPERTIES if name.encode() not in code} <= _READ_ELSEWHERE | _SINCE_3_5


def test_providers_of_credentials_exist_in_the_installed_daemon() -> None:
    """Where it looks for short names: in its own package, and in the SDK's; one name stands for its own."""
    found = set()
    for path in find_jars():
        if path.name.startswith(("amazon-kinesis-client-multilang-", "auth-")):
            with zipfile.ZipFile(path) as classes:
                found |= {name.rpartition("/")[2].removesuffix(".class") for name in classes.namelist()}

    assert set(PROVIDERS) - {"StsAssumeRoleCredentialsProvider"} <= found


def test_ineffective_names_say_what_to_do() -> None:
    """Each ends in an instruction."""
    assert all("remove the line" in text for text in INEFFECTIVE.values())
