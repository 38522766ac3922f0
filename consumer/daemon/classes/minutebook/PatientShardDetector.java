package minutebook;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
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
 *
 * <p>A shard that closed longer ago than the retention is named no more, and delivers nothing but its end. KCL makes
 * that end of the answer that there is no such shard, and asks for the row before it tells the processor. So a shard
 * that many lists in a row lack has none.
 */
public final class PatientShardDetector extends KinesisShardDetector {
    /** A new shard is named within seconds. */
    private static final int LISTS = 60;

    private static final Logger LOG = LoggerFactory.getLogger(PatientShardDetector.class);

    /** Between two lists; tests wait less. */
    long pauseMillis = 1000;

    private final Map<String, Shard> known = new ConcurrentHashMap<>();
    /** Complete lists that have come; written under the lock. */
    private volatile long lists;
    /** Shards that as many lists have lacked: asked for once each time, and not waited for. */
    private final Set<String> gone = ConcurrentHashMap.newKeySet();

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

    /** Returns the shard's row; null if the stream has no such shard any more. */
    @Override
    public Shard shard(String shardId) {
        long seen = lists;
        long lacking = 0;
        while (!known.containsKey(shardId)) {
            long newest = ask(seen, shardId);
            lacking += newest > seen ? 1 : 0; // once a round, however many lists others have asked for
            seen = newest;
            if (known.containsKey(shardId)) {
                break;
            }
            if (lacking >= LISTS || (lacking > 0 && gone.contains(shardId))) {
                if (gone.add(shardId)) {
                    LOG.warn("{} lists of shards in a row lack {}: it is gone", lacking, shardId);
                }
                return null;
            }
            pause(shardId);
        }
        return known.get(shardId);
    }

    /** Asks for a list, unless one has come since; returns how many have come. One list answers all that wait. */
    private synchronized long ask(long seen, String shardId) {
        if (lists > seen || known.containsKey(shardId)) {
            return lists;
        }
        List<Shard> shards;
        try {
            shards = listShards();
        } catch (RuntimeException e) {
            LOG.warn("ListShards failed for {}: {}", shardId, e.toString());
            return lists;
        }
        if (shards != null && !shards.isEmpty()) { // else it was throttled, or there is no stream
            shards.forEach(shard -> known.putIfAbsent(shard.shardId(), shard));
            lists++;
        }
        return lists;
    }

    private void pause(String shardId) {
        LOG.warn("ListShards does not name {}: its records wait until it does", shardId);
        try {
            Thread.sleep(pauseMillis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while " + shardId + " waited for its row", e);
        }
    }
}
