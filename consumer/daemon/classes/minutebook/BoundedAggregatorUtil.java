package minutebook;

import com.google.protobuf.InvalidProtocolBufferException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import software.amazon.kinesis.retrieval.AggregatorUtil;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
import software.amazon.kinesis.retrieval.kpl.Messages;

/**
 * KCL's de-aggregation, except for aggregates that would become many times their size.
 *
 * <p>A key stands once in an aggregate and is repeated with each of its user records: one megabyte becomes gigabytes
 * in memory and on the way to the processor. Such an aggregate is delivered as it is, as one record.
 * {@code minutebook/format/aggregate.py} knows the same bound: docs/decisions/0015-poison-aggregates.md.
 */
public final class BoundedAggregatorUtil extends AggregatorUtil {
    static final long MAX_COST = 32L << 20;
    /** What a user record costs beside its bytes: its JSON around them, and its Java objects. */
    static final long RECORD_COST = 256;
    /** Java reads a number in time that grows with the square of its length. */
    static final long HASH_KEY_FACTOR = 64;

    private static final int DIGEST_SIZE = 16;
    private static final Logger LOG = LoggerFactory.getLogger(BoundedAggregatorUtil.class);

    @Override
    public List<KinesisClientRecord> deaggregate(
            List<KinesisClientRecord> records, BigInteger startingHashKey, BigInteger endingHashKey) {
        List<KinesisClientRecord> result = new ArrayList<>(records.size());
        for (KinesisClientRecord record : records) {
            long cost = cost(record.data());
            if (cost > MAX_COST) {
                LOG.warn("Aggregate delivered as one record: its user records would take {} bytes. Sequence number: {}",
                        cost, record.sequenceNumber());
                result.add(record);
            } else {
                result.addAll(super.deaggregate(Collections.singletonList(record), startingHashKey, endingHashKey));
            }
        }
        return result;
    }

    /** Returns what delivering an aggregate's user records would cost; 0 for what is no aggregate. */
    static long cost(ByteBuffer data) {
        ByteBuffer message = data.duplicate();
        byte[] magic = new byte[AGGREGATED_RECORD_MAGIC.length];
        if (message.remaining() <= magic.length + DIGEST_SIZE) {
            return 0;
        }
        message.get(magic);
        if (!java.util.Arrays.equals(magic, AGGREGATED_RECORD_MAGIC)) {
            return 0;
        }
        message.limit(message.limit() - DIGEST_SIZE);
        try {
            return cost(Messages.AggregatedRecord.parseFrom(message));
        } catch (InvalidProtocolBufferException e) {
            return 0;
        }
    }

    private static long cost(Messages.AggregatedRecord aggregate) {
        long cost = 0;
        for (Messages.Record record : aggregate.getRecordsList()) {
            int key = (int) record.getPartitionKeyIndex();
            int hashKey = (int) record.getExplicitHashKeyIndex();
            if (key < 0 || key >= aggregate.getPartitionKeyTableCount()
                    || record.hasExplicitHashKeyIndex()
                            && (hashKey < 0 || hashKey >= aggregate.getExplicitHashKeyTableCount())) {
                break; // KCL gets no further
            }
            cost += RECORD_COST + record.getData().size() + aggregate.getPartitionKeyTableBytes(key).size();
            if (record.hasExplicitHashKeyIndex()) {
                cost += HASH_KEY_FACTOR * aggregate.getExplicitHashKeyTableBytes(hashKey).size();
            }
        }
        return cost;
    }
}
