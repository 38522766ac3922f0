package software.amazon.kinesis.multilang.config;

import minutebook.BoundedAggregatorUtil;
import minutebook.SlicingProcessor;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.processor.ShardRecordProcessorFactory;

/** KCL's scheduler with our bounds. In KCL's package: its multilang daemon has no setting for either. */
public final class BoundedScheduler {
    private BoundedScheduler() {}

    /** Builds what {@code configuration.build(factory)} would, with two parts exchanged. */
    public static Scheduler build(MultiLangDaemonConfiguration configuration, ShardRecordProcessorFactory factory) {
        MultiLangDaemonConfiguration.ResolvedConfiguration resolved =
                configuration.resolvedConfiguration(() -> new SlicingProcessor(factory.shardRecordProcessor()));
        resolved.getLifecycleConfig().aggregatorUtil(new BoundedAggregatorUtil());
        return resolved.build();
    }
}
