package software.amazon.kinesis.multilang;

import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import minutebook.StreamOfThread;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.multilang.config.BoundedScheduler;

/**
 * One run of one stream's Scheduler. Where KCL's daemon would end the JVM, as when a processor dies, this ends the
 * Scheduler alone, and the other shards of the stream may commit before.
 */
final class FleetStream implements Runnable {
    private static final Logger LOG = LoggerFactory.getLogger(FleetStream.class);
    /** KCL reads all lease tables of a JVM in one thread: one that hangs would hold up all streams for a minute. */
    private static final Duration DYNAMODB_TIMEOUT = Duration.ofSeconds(5);
    /** Names the stream to its processors (consumer/forks/stub.py). */
    private static final String STREAM_VARIABLE = "MINUTEBOOK_FLEET_STREAM";
    /** The processors' file, as consumer/daemon/consume.py sets it for one stream. */
    private static final String FILE_VARIABLE = "MINUTEBOOK_PROPERTIES";

    private final String name;
    private final String file;
    private final long graceMillis;
    private final Map<String, FleetStream> streams;
    private final ThreadGroup group;
    private final Thread thread;
    private final AtomicBoolean isFailed = new AtomicBoolean();
    private volatile Scheduler scheduler;
    private volatile boolean isEnding;
    private boolean isToldToEnd;

    FleetStream(String name, String file, long graceMillis, Map<String, FleetStream> streams) {
        this.name = name;
        this.file = file;
        this.graceMillis = graceMillis;
        this.streams = streams;
        this.group = StreamOfThread.group(name);
        this.thread = new Thread(group, this, "stream-" + name);
    }

    void begin() {
        thread.start();
    }

    /** Asks the processors to commit and leave, and ends the Scheduler then. */
    Future<Boolean> askToStop() {
        Scheduler running = scheduler;
        isEnding = true;
        return running == null ? CompletableFuture.completedFuture(true) : running.startGracefulShutdown();
    }

    /** Ends the Scheduler without asking the processors; at the second call it may not wait for anything any more. */
    void end() {
        if (isToldToEnd) {
            thread.interrupt();
        }
        isToldToEnd = isEnding = true;
        if (scheduler != null) {
            scheduler.shutdown();
        }
    }

    @Override
    public void run() {
        MultiLangDaemonConfig config = null;
        Throwable error = null;
        try {
            config = new MultiLangDaemonConfig(file);
            scheduler = build(config);
            if (!isEnding) {
                scheduler.run();
            }
        } catch (Throwable t) {
            error = t;
            LOG.error("The stream's scheduler has failed", t);
        }
        if (config != null) {
            config.getExecutorService().shutdownNow();
        }
        closeLockClient();
        streams.remove(name, this);
        FleetDaemon.sayEnded(name, error);
    }

    private Scheduler build(MultiLangDaemonConfig config) {
        ObjectMapper mapper = new ObjectMapper();
        return BoundedScheduler.build(
                config.getMultiLangDaemonConfiguration(), () -> new Processor(config, mapper), DYNAMODB_TIMEOUT);
    }

    private void fail() {
        if (isFailed.compareAndSet(false, true)) {
            new Thread(group, this::leave, "leave-" + name).start();
        }
    }

    private void leave() {
        try {
            askToStop().get(graceMillis, TimeUnit.MILLISECONDS);
        } catch (Exception e) {
            LOG.warn("The other shards of the stream have not committed in time", e);
        }
        scheduler.shutdown();
    }

    /**
     * KCL never closes it: each restart would leave threads behind. It belongs to this Scheduler alone. No client of
     * AWS's SDK may be closed: that would close the credentials of all streams.
     */
    private void closeLockClient() {
        try {
            Object decider = scheduler == null ? null : field(scheduler, Scheduler.class, "leaderDecider");
            while (decider != null && !decider.getClass().getSimpleName().startsWith("DynamoDBLock")) {
                decider = field(decider, decider.getClass(), "currentLeaderDecider");
            }
            if (decider != null) {
                ((AmazonDynamoDBLockClient) field(decider, decider.getClass(), "dynamoDBLockClient")).close();
            }
        } catch (Exception e) {
            LOG.warn("The lock client of a stream that has ended cannot be closed: its threads stay", e);
        }
    }

    private static Object field(Object of, Class<?> type, String name) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    /** KCL's processor of a shard; after it has failed it takes nothing more, and answers at once. */
    private final class Processor extends MultiLangShardRecordProcessor {
        private volatile boolean hasFailed;

        Processor(MultiLangDaemonConfig config, ObjectMapper mapper) {
            super(
                    named(new ProcessBuilder(config.getRecordProcessorFactory().getCommandArray())),
                    config.getExecutorService(),
                    mapper,
                    new StreamingMessageWriter(),
                    new MessageReader(),
                    new DrainChildSTDERRTask(),
                    config.getMultiLangDaemonConfiguration());
        }

        @Override
        void exit() {
            hasFailed = true;
            fail();
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            if (!hasFailed) {
                super.processRecords(input);
            }
        }

        @Override
        public void leaseLost(LeaseLostInput input) {
            if (!hasFailed) {
                super.leaseLost(input);
            }
        }

        @Override
        public void shardEnded(ShardEndedInput input) {
            if (!hasFailed) {
                super.shardEnded(input);
            }
        }

        @Override
        public void shutdownRequested(ShutdownRequestedInput input) {
            if (!hasFailed) {
                super.shutdownRequested(input);
            }
        }
    }

    private ProcessBuilder named(ProcessBuilder builder) {
        builder.environment().put(STREAM_VARIABLE, name);
        builder.environment().put(FILE_VARIABLE, file);
        return builder;
    }
}
