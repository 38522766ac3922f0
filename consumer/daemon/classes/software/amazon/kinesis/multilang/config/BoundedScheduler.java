package software.amazon.kinesis.multilang.config;

import java.time.Duration;
import minutebook.BoundedAggregatorUtil;
import minutebook.PatientShardDetector;
import minutebook.SlicingProcessor;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.leases.LeaseManagementConfig;
import software.amazon.kinesis.processor.ShardRecordProcessorFactory;

/** KCL's scheduler with our bounds. In KCL's package: its multilang daemon has no setting for any of them. */
public final class BoundedScheduler {
    private BoundedScheduler() {}

    /**
     * Builds what {@code configuration.build(factory)} would, with three parts exchanged, and a setting.
     *
     * <p>KCL drops aggregates of another shard's keys only where its list of shards holds the shard. Which records a
     * shard has must not depend on that, or two readers would not begin their next segment with the same one.
     *
     * <p>A shard takes a step of its life, as to begin or to end, in each turn of KCL's loop: four turns a second
     * instead of one, and a shard that is handed over is read two seconds sooner.
     */
    public static Scheduler build(MultiLangDaemonConfiguration configuration, ShardRecordProcessorFactory factory) {
        return build(configuration, factory, LeaseManagementConfig.DEFAULT_REQUEST_TIMEOUT);
    }

    /** The same with a bound for each of KCL's requests to DynamoDB, which its configuration cannot set. */
    public static Scheduler build(
            MultiLangDaemonConfiguration configuration,
            ShardRecordProcessorFactory factory,
            Duration dynamoDbRequestTimeout) {
        MultiLangDaemonConfiguration.ResolvedConfiguration resolved =
                configuration.resolvedConfiguration(() -> new SlicingProcessor(factory.shardRecordProcessor()));
        resolved.getLifecycleConfig().aggregatorUtil(new BoundedAggregatorUtil());
        LeaseManagementConfig leases = resolved.getLeaseManagementConfig();
        leases.dynamoDbRequestTimeout(dynamoDbRequestTimeout);
        leases.customShardDetectorProvider(stream -> new PatientShardDetector(
                leases.kinesisClient(),
                stream.streamIdentifier(),
                leases.listShardsBackoffTimeInMillis(),
                leases.maxListShardsRetryAttempts(),
                leases.listShardsCacheAllowedAgeInSeconds(),
                leases.cacheMissWarningModulus(),
                LeaseManagementConfig.DEFAULT_REQUEST_TIMEOUT));
        resolved.getCoordinatorConfig().shardConsumerDispatchPollIntervalMillis(250);
        return resolved.build();
    }
}
