package software.amazon.kinesis.multilang;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/**
 * Writes the records of a batch straight into the pipe, as the same JSON: docs/decisions/0029-the-daemons-share.md.
 *
 * <p>KCL's writer makes an object of each record, one string of them all, the bytes of the string, and the bytes once
 * more to log their number. All other messages stay with it: they are short, and only one is on its way at a time.
 */
final class StreamingMessageWriter extends MessageWriter {
    /** What a processor lets its pipe hold (consumer/pipe/capacity.py): it is woken for each of them. */
    private static final int BUFFER_BYTES = 1 << 17;

    private OutputStream stream;
    private ObjectMapper mapper;
    private ExecutorService executor;

    @Override
    MessageWriter initialize(OutputStream stream, String shardId, ObjectMapper mapper, ExecutorService executor) {
        this.stream = stream;
        this.mapper = mapper;
        this.executor = executor;
        return super.initialize(stream, shardId, mapper, executor);
    }

    /** False from the future: the processor does not read any more. */
    @Override
    Future<Boolean> writeProcessRecordsMessage(ProcessRecordsInput input) {
        if (!isOpen()) {
            return super.writeProcessRecordsMessage(input); // it says so
        }
        return executor.submit(() -> write(input));
    }

    private boolean write(ProcessRecordsInput input) throws IOException {
        // Not closed: the pipe goes on, and the generator would close it.
        OutputStream buffered = new BufferedOutputStream(stream, BUFFER_BYTES);
        JsonGenerator json = mapper.getFactory().createGenerator(buffered);
        json.disable(JsonGenerator.Feature.AUTO_CLOSE_JSON_CONTENT);
        try {
            json.writeStartObject();
            json.writeStringField("action", "processRecords");
            json.writeArrayFieldStart("records");
            for (KinesisClientRecord record : input.records()) {
                write(record, json);
            }
            json.writeEndArray();
            if (input.millisBehindLatest() == null) {
                json.writeNullField("millisBehindLatest");
            } else {
                json.writeNumberField("millisBehindLatest", input.millisBehindLatest());
            }
            json.writeEndObject();
            json.writeRaw('\n');
            json.flush();
        } catch (IOException e) {
            close();
        }
        return isOpen();
    }

    private static void write(KinesisClientRecord record, JsonGenerator json) throws IOException {
        json.writeStartObject();
        json.writeStringField("action", "record");
        json.writeFieldName("data");
        if (record.data() == null) {
            json.writeNull();
        } else {
            byte[] text = base64(record.data());
            json.writeRawUTF8String(text, 0, text.length);
        }
        json.writeStringField("partitionKey", encodable(record.partitionKey()));
        json.writeStringField("sequenceNumber", record.sequenceNumber());
        if (record.approximateArrivalTimestamp() == null) {
            json.writeNullField("approximateArrivalTimestamp");
        } else {
            json.writeNumberField("approximateArrivalTimestamp", record.approximateArrivalTimestamp().toEpochMilli());
        }
        json.writeNumberField("subSequenceNumber", record.subSequenceNumber());
        json.writeEndObject();
    }

    /** As KCL's writer sends it: half a surrogate pair becomes a question mark. The generator would refuse it. */
    private static String encodable(String text) {
        if (text == null || text.chars().noneMatch(c -> Character.isSurrogate((char) c))) {
            return text;
        }
        return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
    }

    private static byte[] base64(ByteBuffer data) {
        ByteBuffer encoded = Base64.getEncoder().encode(data.duplicate());
        // Its array holds the text from the beginning, and nothing else.
        return encoded.array().length == encoded.remaining() ? encoded.array() : bytes(encoded);
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] copy = new byte[buffer.remaining()];
        buffer.get(copy);
        return copy;
    }
}
