package software.amazon.kinesis.multilang;

import com.fasterxml.jackson.databind.ObjectMapper;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.processor.ShardRecordProcessorFactory;

/** Makes KCL's multilang processors, with a {@link StreamingMessageWriter} each. */
final class StreamingProcessorFactory implements ShardRecordProcessorFactory {
    private final MultiLangDaemonConfig config;
    private final ObjectMapper mapper = new ObjectMapper();

    StreamingProcessorFactory(MultiLangDaemonConfig config) {
        this.config = config;
    }

    @Override
    public ShardRecordProcessor shardRecordProcessor() {
        return new MultiLangShardRecordProcessor(
                new ProcessBuilder(config.getRecordProcessorFactory().getCommandArray()),
                config.getExecutorService(),
                mapper,
                new StreamingMessageWriter(),
                new MessageReader(),
                new DrainChildSTDERRTask(),
                config.getMultiLangDaemonConfiguration());
    }
}
