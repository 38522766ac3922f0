package minutebook;

import java.util.ArrayList;
import java.util.List;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/**
 * Hands a batch on in slices of a MiB: docs/decisions/0029-the-daemons-share.md.
 *
 * <p>A slice is one line of the pipe, and the processor holds a line whole; a few aggregates can make a batch larger
 * than GetRecords ever answers. Every checkpoint inside the batch is allowed in each slice. That nothing lies behind
 * the batch is told with its last slice alone.
 */
public final class SlicingProcessor implements ShardRecordProcessor {
    static final long MAX_COST = 1L << 20;

    private final ShardRecordProcessor processor;

    public SlicingProcessor(ShardRecordProcessor processor) {
        this.processor = processor;
    }

    @Override
    public void processRecords(ProcessRecordsInput input) {
        List<List<KinesisClientRecord>> slices = slices(input.records());
        Long behind = input.millisBehindLatest();
        for (int at = 0; at < slices.size(); at++) {
            boolean isLast = at == slices.size() - 1;
            processor.processRecords(input.toBuilder()
                    .records(slices.get(at))
                    .millisBehindLatest(isLast || behind == null || behind > 0 ? behind : null)
                    .build());
        }
    }

    /** Cuts records into slices, at least one; a slice holds more than the bound only when it is one record. */
    static List<List<KinesisClientRecord>> slices(List<KinesisClientRecord> records) {
        List<List<KinesisClientRecord>> slices = new ArrayList<>();
        int from = 0;
        long cost = 0;
        for (int at = 0; at < records.size(); at++) {
            KinesisClientRecord record = records.get(at);
            long more = BoundedAggregatorUtil.RECORD_COST + record.data().remaining() + record.partitionKey().length();
            if (cost + more > MAX_COST && at > from) {
                slices.add(records.subList(from, at));
                from = at;
                cost = 0;
            }
            cost += more;
        }
        slices.add(records.subList(from, records.size()));
        return slices;
    }

    @Override
    public void initialize(InitializationInput input) {
        processor.initialize(input);
    }

    @Override
    public void leaseLost(LeaseLostInput input) {
        processor.leaseLost(input);
    }

    @Override
    public void shardEnded(ShardEndedInput input) {
        processor.shardEnded(input);
    }

    @Override
    public void shutdownRequested(ShutdownRequestedInput input) {
        processor.shutdownRequested(input);
    }
}
