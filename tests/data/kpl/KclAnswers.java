import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import software.amazon.kinesis.retrieval.AggregatorUtil;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/** Asks the AggregatorUtil that is named first, KCL's or ours: "data in base64, first hash key, last hash key" a line. */
final class KclAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        AggregatorUtil util = (AggregatorUtil) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        Base64.Encoder base64 = Base64.getEncoder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            KinesisClientRecord record = KinesisClientRecord.builder()
                    .data(ByteBuffer.wrap(Base64.getDecoder().decode(parts[0].equals("=") ? "" : parts[0])))
                    .partitionKey("outer").sequenceNumber("1").subSequenceNumber(0)
                    .approximateArrivalTimestamp(Instant.EPOCH).build();
            StringBuilder answer = new StringBuilder();
            try {
                List<KinesisClientRecord> given = new ArrayList<>();
                given.add(record);
                for (KinesisClientRecord user : util.deaggregate(
                        given, new BigInteger(parts[1]), new BigInteger(parts[2]))) {
                    byte[] data = new byte[user.data().remaining()];
                    user.data().get(data);
                    answer.append(answer.length() == 0 ? "" : " ").append(user.subSequenceNumber()).append(',')
                            .append(base64.encodeToString(user.partitionKey().getBytes(StandardCharsets.UTF_8)))
                            .append(',').append(base64.encodeToString(data));
                }
            } catch (Throwable thrown) {
                answer.append("thrown ").append(thrown.getClass().getName());
            }
            out.println("> " + answer);
        }
        out.flush();
    }
}
