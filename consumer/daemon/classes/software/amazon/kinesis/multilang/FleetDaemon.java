package software.amazon.kinesis.multilang;

import ch.qos.logback.classic.LoggerContext;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import minutebook.StreamOfThread;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One JVM for several streams: an ordinary Scheduler of KCL for each (docs/decisions/0051-a-fleet.md).
 *
 * <p>The supervisor decides what runs. Its commands are lines of stdin, and our answers are lines of stdout, between
 * those of the log:
 *
 * <pre>
 * {"act": "start", "stream": NAME, "file": PROPERTIES}    run a Scheduler for the stream
 * {"act": "end", "stream": NAME}                          end it without asking its processors; once more: interrupt it
 * {"event": "fleet_ready", "heap_bytes": N}               commands are read; the most that the heap may become
 * {"event": "stream_ended", "stream": NAME, "error": ""}  its Scheduler has ended; the stream may be started again
 * </pre>
 *
 * <p>SIGTERM asks all processors to commit and leave, and waits for at most {@code GRACE_MILLIS} for all of them.
 */
public final class FleetDaemon {
    private static final Logger LOG = LoggerFactory.getLogger(FleetDaemon.class);
    private static final ObjectMapper MAPPER = new ObjectMapper();
    /** Its pools are static: created by a stream's thread, they would be taken for that stream's. */
    private static final String SHARED = "software.amazon.kinesis.coordinator.assignment.LeaseAssignmentManager";

    private final Map<String, FleetStream> streams = new ConcurrentHashMap<>();
    private final long graceMillis;

    private FleetDaemon(long graceMillis) {
        this.graceMillis = graceMillis;
    }

    /** Arguments: the file of the log's configuration, and GRACE_MILLIS. */
    public static void main(String[] args) throws Exception {
        FleetDaemon daemon = new FleetDaemon(Long.parseLong(args[1]));
        new MultiLangDaemon().configureLogging(args[0]);
        ((LoggerContext) LoggerFactory.getILoggerFactory()).addTurboFilter(new StreamOfThread());
        Class.forName(SHARED);
        Runtime.getRuntime().addShutdownHook(new Thread(daemon::stop, "fleet-stop"));
        say(MAPPER.createObjectNode()
                .put("event", "fleet_ready")
                .put("heap_bytes", Runtime.getRuntime().maxMemory()));
        daemon.obey();
    }

    /** Prints a line; a PrintStream prints each line whole. */
    static void say(ObjectNode line) {
        System.out.println(line);
    }

    static void sayEnded(String stream, Throwable error) {
        say(MAPPER.createObjectNode()
                .put("event", "stream_ended")
                .put("stream", stream)
                .put("error", error == null ? "" : error.toString()));
    }

    private void obey() throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = commands.readLine()) != null) {
            JsonNode command = MAPPER.readTree(line);
            String name = command.get("stream").asText();
            if ("start".equals(command.get("act").asText())) {
                FleetStream stream = new FleetStream(name, command.get("file").asText(), graceMillis, streams);
                if (streams.putIfAbsent(name, stream) != null) {
                    throw new IllegalStateException("the stream " + name + " runs already");
                }
                stream.begin();
            } else {
                FleetStream stream = streams.get(name);
                if (stream != null) {
                    stream.end();
                }
            }
        }
        // The supervisor is gone; the kernel sends us SIGTERM (consumer/daemon/parent_death.py).
        Thread.currentThread().join();
    }

    private void stop() {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(graceMillis);
        List<Future<Boolean>> ends = new ArrayList<>();
        for (FleetStream stream : streams.values()) {
            ends.add(stream.askToStop());
        }
        for (Future<Boolean> end : ends) {
            try {
                end.get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (Exception e) {
                LOG.error("A stream has not stopped in time", e);
            }
        }
    }
}
