package minutebook;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.awssdk.services.kinesis.model.Shard;
import software.amazon.kinesis.common.StreamIdentifier;
import software.amazon.kinesis.leases.KinesisShardDetector;

/**
 * KCL's list of shards, except that a shard's row is waited for: docs/decisions/0015-poison-aggregates.md.
 *
 * <p>KCL asks for the row (ProcessTask alone does) before it takes a batch apart, and without it delivers aggregates of
 * another shard's keys, which it drops with it. Then two deliveries of the same records differ. So this asks until it
 * has the row, while the batch waits, and keeps it for good: the hash keys of a shard never change.
 */
public final class PatientShardDetector extends KinesisShardDetector {
    private static final long PAUSE_MILLIS = 1000;
    private static final Logger LOG = LoggerFactory.getLogger(PatientShardDetector.class);

    private final Map<String, Shard> known = new ConcurrentHashMap<>();

    /** As KCL's, but for the number of misses before it asks for a younger list: none. */
    public PatientShardDetector(
            KinesisAsyncClient client,
            StreamIdentifier stream,
            long backoffMillis,
            int maxAttempts,
            long allowedAgeSeconds,
            int warningModulus,
            Duration requestTimeout) {
        super(client, stream, backoffMillis, maxAttempts, allowedAgeSeconds, 0, warningModulus, requestTimeout);
    }

    /** Returns the shard's row, never null. */
    @Override
    public Shard shard(String shardId) {
        Shard shard = known.get(shardId);
        while (shard == null) {
            shard = ask(shardId);
            if (shard == null) {
                pause(shardId);
            }
        }
        known.put(shardId, shard);
        return shard;
    }

    private Shard ask(String shardId) {
        try {
            return super.shard(shardId);
        } catch (RuntimeException e) {
            LOG.warn("ListShards failed for {}: {}", shardId, e.toString());
            return null;
        }
    }

    private static void pause(String shardId) {
        LOG.warn("ListShards does not name {}: its records wait until it does", shardId);
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while " + shardId + " waited for its row", e);
        }
    }
}
