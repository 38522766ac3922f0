package software.amazon.kinesis.multilang;

import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.multilang.config.BoundedScheduler;

/**
 * KCL's MultiLangDaemon with a bound on what one aggregate may become: docs/decisions/0015-poison-aggregates.md.
 *
 * <p>{@code MultiLangDaemon.main} cannot be given another daemon, so its steps are repeated here.
 */
public final class BoundedMultiLangDaemon extends MultiLangDaemon {
    @Override
    Scheduler buildScheduler(MultiLangDaemonConfig config) {
        return BoundedScheduler.build(config.getMultiLangDaemonConfiguration(), new StreamingProcessorFactory(config));
    }

    public static void main(String[] args) {
        BoundedMultiLangDaemon daemon = new BoundedMultiLangDaemon();
        MultiLangDaemonArguments arguments = new MultiLangDaemonArguments();
        int exitCode = 1;
        try {
            daemon.buildJCommanderAndParseArgs(arguments, args);
            String properties = daemon.validateAndGetPropertiesFileName(arguments);
            daemon.configureLogging(arguments.logConfiguration);
            MultiLangDaemonConfig config = daemon.buildMultiLangDaemonConfig(properties);
            MultiLangRunner runner = new MultiLangRunner(daemon.buildScheduler(config));
            daemon.setupShutdownHook(Runtime.getRuntime(), runner, config);
            exitCode = daemon.submitRunnerAndWait(config, runner);
        } catch (Throwable t) {
            t.printStackTrace(System.err);
        }
        daemon.exit(exitCode);
    }
}
