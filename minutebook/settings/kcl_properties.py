"""KCL's own property names under the MultiLangDaemon: type, unit, range, default, and which of them do nothing.

KCL silently ignores unknown names, and values equal to Java's default for the type (MultiLangDaemonConfiguration
and ConfigurationSettableUtils in amazon-kinesis-client-multilang). Both are errors here.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from minutebook.format.minute import DAY_MS
from minutebook.properties_file import flag
from minutebook.settings.values import (
    Parse,
    credentials_providers,
    duration,
    endpoint,
    name,
    one_of,
    region,
    threads,
    whole,
    word,
)

_INT: Final = 2_147_483_647


class KclProperty(NamedTuple):
    """One property. `zero_is_ignored`: KCL skips a 0 and uses its own default."""

    parse: Parse
    default: str
    zero_is_ignored: bool = False


def _number(default: int | None, unit: str, low: int = 0, high: int = _INT) -> KclProperty:
    ignored = low == 0 and default != 0
    return KclProperty(whole(low, high, unit), "unset" if default is None else str(default), ignored)


def _millis(default: int | None, low: int = 0, high: int = DAY_MS) -> KclProperty:
    return _number(default, "milliseconds", low, high)


def _flag(*, default: bool) -> KclProperty:
    return KclProperty(flag, "true" if default else "false")


def _word(default: str = "unset") -> KclProperty:
    return KclProperty(word, default)


_BILLING: Final = KclProperty(one_of("PAY_PER_REQUEST", "PROVISIONED"), "PAY_PER_REQUEST")
_PROVIDERS: Final = KclProperty(credentials_providers, "unset")

KCL_PROPERTIES: Final[Mapping[str, KclProperty]] = {
    # identity
    "executableName": _word(),
    # The application's name becomes the name of a DynamoDB table.
    "applicationName": KclProperty(name(255, 3), "unset"),
    "streamName": KclProperty(name(128), "unset"),
    "streamArn": _word(),
    "AwsCredentialsProvider": _PROVIDERS,
    "AwsCredentialsProviderDynamoDB": _PROVIDERS,
    "AwsCredentialsProviderCloudWatch": _PROVIDERS,
    "regionName": KclProperty(region, "unset"),
    "workerId": _word("a random UUID"),
    "tableName": KclProperty(name(255, 3), "applicationName"),
    "kinesisEndpoint": KclProperty(endpoint, "unset"),
    "dynamoDBEndpoint": KclProperty(endpoint, "unset"),
    # daemon
    "processingLanguage": _word(),
    "maxActiveThreads": KclProperty(threads, "0"),
    "timeoutInSeconds": _number(None, "seconds", 1),
    "shutdownGraceMillis": _millis(0, 1000, 600_000),
    "logWarningForTaskAfterMillis": _millis(None, 1),
    # position
    "initialPositionInStream": KclProperty(one_of("TRIM_HORIZON"), "LATEST"),
    "initialPositionInStreamExtended": _number(None, "seconds since the epoch", 1, 253_402_300_799),
    # retrieval
    "retrievalMode": KclProperty(one_of("DEFAULT", "FANOUT", "POLLING"), "DEFAULT"),
    "maxRecords": _number(10_000, "records", 1, 10_000),
    "idleTimeBetweenReadsInMillis": _millis(1500, 200),
    "retryGetRecordsInSeconds": _number(None, "seconds", 1),
    "maxGetRecordsThreadPool": _number(None, "threads", 1),
    "millisBehindLatestThresholdForReducedTps": _millis(0),
    "consumerArn": _word(),
    "consumerName": _word("applicationName"),
    "maxDescribeStreamSummaryRetries": _number(10, "tries"),
    "maxDescribeStreamConsumerRetries": _number(10, "tries"),
    "registerStreamConsumerRetries": _number(10, "tries"),
    "retryBackoffMillis": _millis(1000),
    # processing
    "callProcessRecordsEvenForEmptyRecordList": _flag(default=False),
    "taskBackoffTimeMillis": _millis(500),
    # leases
    "failoverTimeMillis": _millis(10_000, 1000),
    "leaseAssignmentIntervalMillis": _millis(20_000, 500),
    "shardSyncIntervalMillis": _millis(60_000),
    "ignoreUnexpectedChildShards": _flag(default=False),
    "maxLeasesForWorker": _number(_INT, "leases", 1),
    "maxLeasesToStealAtOneTime": _number(1, "leases", 1),
    "enablePriorityLeaseAssignment": _flag(default=True),
    "initialLeaseTableReadCapacity": _number(10, "units", 1),
    "initialLeaseTableWriteCapacity": _number(10, "units", 1),
    "leaseTableDeletionProtectionEnabled": _flag(default=False),
    "leaseTablePitrEnabled": _flag(default=False),
    "maxLeaseRenewalThreads": _number(20, "threads", 1),
    "listShardsBackoffTimeInMillis": _millis(1500),
    "maxListShardsRetryAttempts": _number(50, "tries"),
    "isGracefulLeaseHandoffEnabled": _flag(default=True),
    "gracefulLeaseHandoffTimeoutMillis": _millis(30_000, 5000),
    # coordinator
    "clientVersionConfig": KclProperty(
        one_of("CLIENT_VERSION_CONFIG_3X", "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X"), "CLIENT_VERSION_CONFIG_3X"
    ),
    "parentShardPollIntervalMillis": _millis(10_000),
    "schedulerInitializationBackoffTimeMillis": _millis(1000),
    "coordinatorStateTableName": _word("<applicationName>-CoordinatorState"),
    "coordinatorStateBillingMode": _BILLING,
    "coordinatorStateReadCapacity": _number(None, "units", 1),
    "coordinatorStateWriteCapacity": _number(None, "units", 1),
    "coordinatorStatePointInTimeRecoveryEnabled": _flag(default=False),
    "coordinatorStateDeletionProtectionEnabled": _flag(default=False),
    "coordinatorStateTags": _word(),
    # worker balance
    "disableWorkerMetrics": _flag(default=False),
    "inMemoryWorkerMetricsCaptureFrequencyMillis": _millis(1000),
    "workerMetricsReporterFreqInMillis": _millis(30_000),
    "noOfPersistedMetricsPerWorkerMetrics": _number(10, "values", 1),
    "maxThroughputPerHostKBps": _number(None, "KB/s", 1),
    "dampeningPercentage": _number(60, "percent", 1, 100),
    "reBalanceThresholdPercentage": _number(10, "percent", 1, 100),
    "allowThroughputOvershoot": _flag(default=True),
    "varianceBalancingFrequency": _number(3, "runs", 1),
    "workerMetricsEMAAlpha": _word("0.5"),
    "staleWorkerMetricsEntryCleanupDuration": KclProperty(duration, "P1D"),
    "workerMetricsTableName": _word("<applicationName>-WorkerMetricStats"),
    "workerMetricsBillingMode": _BILLING,
    "workerMetricsReadCapacity": _number(None, "units", 1),
    "workerMetricsWriteCapacity": _number(None, "units", 1),
    "workerMetricsPointInTimeRecoveryEnabled": _flag(default=False),
    "workerMetricsDeletionProtectionEnabled": _flag(default=False),
    "workerMetricsTags": _word(),
    # metrics
    "metricsLevel": KclProperty(one_of("DETAILED", "SUMMARY", "NONE"), "DETAILED"),
    "metricsBufferTimeMillis": _millis(10_000),
    "metricsMaxQueueSize": _number(10_000, "entries", 1),
    "metricsEnabledDimensions": _word(),
    # one table for all rows: KCL 3.5 and later; earlier ones ignore the names
    "migrateAllEntitiesToLeaseTable": _flag(default=False),
    "tableMigrationCompleteBakeTimeSeconds": _number(86_400, "seconds", 3600, 604_800),
    "leaseTableScanTotalSegments": _number(None, "segments", 1),
}

INEFFECTIVE: Final[Mapping[str, str]] = {
    "validateSequenceNumberBeforeCheckpointing": "KCL 3 never reads it: remove the line",
    "processingLanguage": "KCL 3 never reads it: remove the line",
    "initialLeaseTableReadCapacity": "the lease table is on demand: remove the line",
    "initialLeaseTableWriteCapacity": "the lease table is on demand: remove the line",
    "cleanupLeasesUponShardCompletion": "the daemon ignores false and keeps true: remove the line",
    "shardPrioritization": "the daemon takes no text for it, and dies: remove the line",
    "skipShardSyncAtWorkerInitializationIfLeasesExist": "it turns off KCL's check of aggregated records "
    "after a reshard: remove the line",
}
"""Properties without effect, or with a harmful one, each with what to do instead."""


def refuse(key: str, text: str) -> str | None:
    """Return why the KCL property `key` may not be set to `text`; None if it may.

    `key` must be in `KCL_PROPERTIES` or `INEFFECTIVE`.
    """
    if key in INEFFECTIVE:
        return f"{key} is ineffective: {INEFFECTIVE[key]}"
    if key == "initialPositionInStream" and text != "TRIM_HORIZON":
        return (
            f"initialPositionInStream={text} is refused: each shard would start when a worker first sees it; "
            "use minutebook.start=oldest, now or a time"
        )
    prop = KCL_PROPERTIES[key]
    try:
        value = prop.parse(text)
    except ValueError as exc:
        return f"{key} {exc} (default {prop.default})"
    if prop.zero_is_ignored and value == 0:
        return f"{key}=0 is ineffective: KCL skips a zero and takes its default {prop.default}"
    return None
