package minutebook;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.turbo.TurboFilter;
import ch.qos.logback.core.spi.FilterReply;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.MDC;
import org.slf4j.Marker;

/**
 * Says in each line of KCL's log which stream it is of, and cuts lines that are too long for a log of many streams.
 *
 * <p>KCL's lines name a shard at most, and shards of two streams have the same ids. A thread belongs to the group of
 * the thread that created it, so every thread of a stream's Scheduler is in the stream's group. The log's encoder
 * writes the MDC, which is filled here, in the thread that logs.
 *
 * <p>KCL logs a malformed aggregate in up to 20 MB, and all threads of all streams wait for the appender.
 */
public final class StreamOfThread extends TurboFilter {
    public static final String KEY = "properties";
    /** The SDK's event loops serve all clients, and are in the group of the first one. */
    private static final String SHARED = "aws-java-sdk-NettyEventLoop";

    static final int LONGEST = 1 << 17;

    private static final Map<String, ThreadGroup> GROUPS = new ConcurrentHashMap<>();

    private static final class StreamGroup extends ThreadGroup {
        StreamGroup(String name) {
            super(name);
        }
    }

    /** Returns a group whose threads, and those that they create, are of the stream. */
    public static ThreadGroup group(String stream) {
        return GROUPS.computeIfAbsent(stream, StreamGroup::new);
    }

    @Override
    public FilterReply decide(
            Marker marker, Logger logger, Level level, String format, Object[] parameters, Throwable error) {
        if (format == null) {
            return FilterReply.NEUTRAL; // nothing is logged: whether it would be is asked
        }
        String stream = ofThisThread();
        if (stream != null && MDC.get(KEY) == null) {
            MDC.put(KEY, stream);
        }
        if (format.length() <= LONGEST) {
            return FilterReply.NEUTRAL;
        }
        logger.log(marker, Logger.FQCN, Level.toLocationAwareLoggerInteger(level), cut(format), parameters, error);
        return FilterReply.DENY;
    }

    /** Returns the first and the last part: the sequence number stands at the end. */
    static String cut(String text) {
        int half = LONGEST / 2 - 100;
        int left = text.length() - 2 * half;
        return text.substring(0, half) + " [" + left + " characters cut] " + text.substring(text.length() - half);
    }

    private static String ofThisThread() {
        if (Thread.currentThread().getName().startsWith(SHARED)) {
            return null;
        }
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group != null && !(group instanceof StreamGroup)) {
            group = group.getParent();
        }
        return group == null ? null : group.getName();
    }
}
