package software.amazon.kinesis.multilang.config;

import minutebook.BoundedAggregatorUtil;
import minutebook.SlicingProcessor;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.processor.ShardRecordProcessorFactory;

/** KCL's scheduler with our bounds. In KCL's package: its multilang daemon has no setting for any of them. */
public final class BoundedScheduler {
    private BoundedScheduler() {}

    /**
     * Builds what {@code configuration.build(factory)} would, with two parts exchanged, and two settings.
     *
     * <p>KCL drops aggregates of another shard's keys only where its list of shards holds the shard, and asks for a
     * younger list after 30 s or 1,000 misses: until then a new child delivers them. Which records a shard has must
     * not depend on that, or two readers would not begin their next segment with the same one. So: at the first miss.
     *
     * <p>A shard takes a step of its life, as to begin or to end, in each turn of KCL's loop: four turns a second
     * instead of one, and a shard that is handed over is read two seconds sooner.
     */
    public static Scheduler build(MultiLangDaemonConfiguration configuration, ShardRecordProcessorFactory factory) {
        MultiLangDaemonConfiguration.ResolvedConfiguration resolved =
                configuration.resolvedConfiguration(() -> new SlicingProcessor(factory.shardRecordProcessor()));
        resolved.getLifecycleConfig().aggregatorUtil(new BoundedAggregatorUtil());
        resolved.getLeaseManagementConfig().maxCacheMissesBeforeReload(0);
        resolved.getCoordinatorConfig().shardConsumerDispatchPollIntervalMillis(250);
        return resolved.build();
    }
}
