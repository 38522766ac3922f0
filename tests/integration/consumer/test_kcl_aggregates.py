"""Our reader of aggregates and our shim against KCL's own code, where there is a javac to ask it with."""

import base64
import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from consumer.preflight.java import OLDEST_JAVA, find_jars, find_java, find_shims
from minutebook.format.aggregate import HashRange, deaggregate
from tests.data.kpl.ask_kcl import HERE, JAVAC, OUTER_KEY, THROWN, Answer, as_kept, ask_kcl
from tests.fakes.aggregates import LARGEST_HASH_KEY, SHAPES, Shape, random_aggregate

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="javac is missing")
_RANGES = ((0, LARGEST_HASH_KEY), (5, 6), (0, LARGEST_HASH_KEY // 2))
_LOGGING = """
package minutebook;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.encoder.JsonEncoder;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.ConsoleAppender;
import java.util.concurrent.Executors;
import java.util.concurrent.ExecutorService;
import org.slf4j.LoggerFactory;
class Logging {
    public static void main(String[] none) throws Exception {
        LoggerContext context = (LoggerContext) LoggerFactory.getILoggerFactory();
        ch.qos.logback.classic.Logger log = context.getLogger("ROOT");
        log.detachAndStopAllAppenders();
        JsonEncoder encoder = new JsonEncoder();
        encoder.setContext(context);
        encoder.start();
        ConsoleAppender<ILoggingEvent> appender = new ConsoleAppender<>();
        appender.setContext(context);
        appender.setEncoder(encoder);
        appender.start();
        log.addAppender(appender);
        context.addTurboFilter(new StreamOfThread());
        Thread stream = new Thread(StreamOfThread.group("orders"), () -> {
            ExecutorService pool = Executors.newSingleThreadExecutor();
            pool.submit(() -> log.info("of a stream"));
            pool.shutdown();
        });
        stream.start();
        stream.join();
        Thread.sleep(500);
        log.info("of none");
        log.error("Raw data " + "x".repeat(1 << 18) + " Sequence number: 7");
    }
}
"""
_CALLER = """
package minutebook;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import software.amazon.kinesis.lifecycle.events.*;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
class Caller {
    public static void main(String[] sizes) {
        for (int size = 0; size < 200; size++) {
            byte[] bytes = new byte[size];
            new java.util.Random(size).nextBytes(bytes);
            String raw = java.util.HexFormat.of().formatHex(bytes);
            System.out.println(raw + ":" + javax.xml.bind.DatatypeConverter.printBase64Binary(bytes));
        }
        List<KinesisClientRecord> records = new ArrayList<>();
        for (String size : sizes) {
            ByteBuffer data = ByteBuffer.allocate(Integer.parseInt(size));
            records.add(KinesisClientRecord.builder().data(data).partitionKey("").build());
        }
        for (int count = 0; count <= records.size(); count++) {
            for (List<KinesisClientRecord> slice : SlicingProcessor.slices(records.subList(0, count))) {
                System.out.print(slice.size() + " ");
            }
            System.out.println();
        }
        for (Long behind : new Long[] {null, 0L, 7L}) {
            new SlicingProcessor(new Told()).processRecords(
                ProcessRecordsInput.builder().records(records).millisBehindLatest(behind).build());
        }
    }
    static class Told implements ShardRecordProcessor {
        @Override public void processRecords(ProcessRecordsInput input) {
            System.out.println("behind=" + input.millisBehindLatest());
        }
        @Override public void initialize(InitializationInput input) {}
        @Override public void leaseLost(LeaseLostInput input) {}
        @Override public void shardEnded(ShardEndedInput input) {}
        @Override public void shutdownRequested(ShutdownRequestedInput input) {}
    }
}
"""

_DETECTING = """
package minutebook;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.awssdk.services.kinesis.model.*;
import software.amazon.kinesis.common.StreamIdentifier;
class Detecting {
    static int asked = 0;
    public static void main(String[] none) {
        KinesisAsyncClient client = (KinesisAsyncClient) Proxy.newProxyInstance(
            Detecting.class.getClassLoader(), new Class<?>[] {KinesisAsyncClient.class}, (proxy, method, given) ->
                method.getName().equals("listShards") ? answer() : null);
        PatientShardDetector detector = new PatientShardDetector(
            client, StreamIdentifier.singleStreamInstance("s"), 1, 1, 30, 100, Duration.ofSeconds(5));
        for (int time = 0; time < 2; time++) {
            System.out.println("to " + detector.shard("child").hashKeyRange().endingHashKey() + ", asked " + asked);
        }
    }
    static CompletableFuture<ListShardsResponse> answer() {
        asked++;
        if (asked == 1) {
            return CompletableFuture.failedFuture(KinesisException.builder().message("down").build());
        }
        List<Shard> shards = new ArrayList<>();
        shards.add(row("parent", "9"));
        if (asked > 2) {
            shards.add(row("child", "4"));
        }
        return CompletableFuture.completedFuture(ListShardsResponse.builder().shards(shards).build());
    }
    static Shard row(String id, String last) {
        return Shard.builder().shardId(id)
            .hashKeyRange(HashKeyRange.builder().startingHashKey("0").endingHashKey(last).build()).build();
    }
}
"""

_ENDING = """
package minutebook;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.awssdk.services.kinesis.model.*;
import software.amazon.kinesis.checkpoint.ShardRecordProcessorCheckpointer;
import software.amazon.kinesis.common.StreamIdentifier;
import software.amazon.kinesis.leases.LeaseStatsRecorder;
import software.amazon.kinesis.leases.ShardInfo;
import software.amazon.kinesis.lifecycle.ProcessTask;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.*;
import software.amazon.kinesis.retrieval.ThrottlingReporter;
import software.amazon.kinesis.retrieval.kpl.ExtendedSequenceNumber;
class Ending {
    static int asked = 0;
    public static void main(String[] none) throws InterruptedException {
        KinesisAsyncClient client = made(KinesisAsyncClient.class);
        PatientShardDetector detector = new PatientShardDetector(
            client, StreamIdentifier.singleStreamInstance("s"), 1, 1, 30, 100, Duration.ofSeconds(5));
        detector.pauseMillis = 1;
        for (int time = 0; time < 2; time++) {
            ShardInfo shard = new ShardInfo("parent", "token", Set.of(), ExtendedSequenceNumber.LATEST);
            ProcessTask task = new ProcessTask(shard, made(ShardRecordProcessor.class),
                new ShardRecordProcessorCheckpointer(shard, made(Checkpointer.class)), 1, false, detector,
                new ThrottlingReporter(5, "parent"),
                ProcessRecordsInput.builder().records(new ArrayList<>()).isAtShardEnd(true).build(), true, 1,
                new BoundedAggregatorUtil(), new NullMetricsFactory(), null,
                new LeaseStatsRecorder(1000L, System::currentTimeMillis));
            System.out.println("at its end " + task.call().isShardEndReached() + ", asked " + asked);
        }
        asked = 0;
        List<Thread> waiting = new ArrayList<>();
        for (int number = 0; number < 40; number++) {
            String shard = "gone-" + number;
            waiting.add(new Thread(() -> detector.shard(shard)));
        }
        waiting.forEach(Thread::start);
        for (Thread thread : waiting) {
            thread.join();
        }
        System.out.println("forty asked " + (asked < 400 ? "together" : "each " + asked));
    }
    static <T> T made(Class<T> kind) {
        return kind.cast(Proxy.newProxyInstance(Ending.class.getClassLoader(), new Class<?>[] {kind},
            (proxy, method, given) -> method.getName().equals("listShards") ? answer() : null));
    }
    static CompletableFuture<ListShardsResponse> answer() {
        asked++;
        return asked % 2 == 0
            ? CompletableFuture.failedFuture(KinesisException.builder().message("down").build())
            : CompletableFuture.completedFuture(ListShardsResponse.builder().shards(
                Shard.builder().shardId("child").build()).build());
    }
}
"""


@pytest.fixture(scope="module", params=["shipped", "compiled"])
def classes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return our Java classes: as they are shipped, and as their sources become them."""
    if request.param == "shipped":
        return find_shims()
    folder = tmp_path_factory.mktemp("classes")
    sources = [str(source) for source in find_shims().rglob("*.java")]
    class_path = os.pathsep.join(map(str, find_jars()))
    subprocess.run([*JAVAC, "--release", "11", "-cp", class_path, "-d", str(folder), *sources], check=True)
    return folder


@pytest.fixture(scope="module")
def drawn() -> list[Shape]:
    """Draw aggregates with odd fields, flipped bytes and wrong digests, on shards of any size."""
    rng = random.Random(343)
    return [Shape(random_aggregate(rng), *rng.choice(_RANGES)) for _ in range(2_000)]


@pytest.fixture(scope="module")
def answers(classes: Path, drawn: list[Shape]) -> list[Answer]:
    """Ask once: a Java takes its time to start."""
    return ask_kcl([*SHAPES.values(), *drawn], classes)


def test_kcl_still_answers_as_recorded(answers: list[Answer]) -> None:
    """The fixture is what the installed jars do with our classes."""
    found = {name: as_kept(name, answer) for name, answer in zip(SHAPES, answers, strict=False)}
    assert found == {name: row["answer"] for name, row in _recorded().items()}


def test_kcl_alone_still_fails_as_recorded() -> None:
    """Once it does not any more, our classes can go."""
    bare = ask_kcl(SHAPES.values(), None)
    thrown = {name for name, answer in zip(SHAPES, bare, strict=True) if answer == THROWN}
    assert thrown == {name for name, row in _recorded().items() if row.get("without_shims") == THROWN}


def test_our_reader_agrees_on_drawn_aggregates(answers: list[Answer], drawn: list[Shape]) -> None:
    """Whatever a producer sends: the same user records under the same numbers."""
    pairs = zip(drawn, answers[len(SHAPES) :], strict=True)
    assert [(shape.data.hex(), answer) for shape, answer in pairs if _ours(shape) != answer] == []


def test_base64_and_slices(classes: Path, tmp_path: Path) -> None:
    """The converter prints what Python does; slices hold every record once, in order, up to the bound."""
    mib = 1 << 20
    sizes = [2 * mib, 10, mib // 2 - 600, mib // 2 - 600, mib // 2, 3 * mib, 1]
    told = _run_java(classes, tmp_path, "Caller", _CALLER, *map(str, sizes))
    pairs = [line.split(":") for line in told if ":" in line]
    assert [base64.b64encode(bytes.fromhex(raw)).decode() for raw, _ in pairs] == [text for _, text in pairs]
    lines = [line for line in told if ":" not in line]
    slices = [[int(size) for size in line.split()] for line in lines if "=" not in line]
    assert (len(pairs), slices[0], slices[-1]) == (200, [0], [1, 3, 1, 1, 1])
    assert [sum(part) for part in slices] == list(range(len(sizes) + 1))
    # A processor that is told 0 has all that there is.
    behind = [line.partition("=")[2] for line in lines if "=" in line]
    assert behind == [*["null"] * 5, *["null"] * 4, "0", *["7"] * 5]


def test_a_batch_is_taken_apart_by_the_hash_keys_of_its_shard_alone(classes: Path, tmp_path: Path) -> None:
    """ListShards fails, then lacks the shard: KCL would deliver another shard's aggregates that it drops later.

    The row is waited for, and asked for no more.
    """
    lines = _run_java(classes, tmp_path, "Detecting", _DETECTING)
    assert [line for line in lines if line.startswith("to ")] == ["to 4, asked 3"] * 2


def test_a_shard_that_is_listed_no_more_comes_to_its_end(classes: Path, tmp_path: Path) -> None:
    """It closed longer ago than the retention. KCL asks for its row before it says so: its children wait for that.

    Lists that fail prove nothing. One list answers for all shards that wait: forty are as soon done as one.
    """
    lines = _run_java(classes, tmp_path, "Ending", _ENDING)
    assert lines[-1] == "forty asked together"
    assert [line for line in lines if line.startswith("at its end")] == [
        "at its end true, asked 119",
        "at its end true, asked 121",
    ]


def test_a_line_of_the_log_names_its_stream_and_is_not_too_long(classes: Path, tmp_path: Path) -> None:
    """Of a thread that a stream's thread made, by a pool of Java, as KCL's are; the end of a long line stays."""
    own, other, long = map(json.loads, _run_java(classes, tmp_path, "Logging", _LOGGING))
    assert (own["mdc"], other["mdc"]) == ({"properties": "orders"}, {})
    assert len(long["message"]) <= 1 << 17
    assert long["message"].startswith("Raw data")
    assert long["message"].endswith("Sequence number: 7")
    assert " characters cut] " in long["message"]


@pytest.mark.parametrize("path", sorted(find_shims().rglob("*.class")), ids=lambda path: path.stem)
def test_our_classes_run_on_the_oldest_java(path: Path) -> None:
    """A class file's version is that of its Java plus 44."""
    version = int.from_bytes(path.read_bytes()[6:8], "big")
    assert version - 44 <= OLDEST_JAVA


def _run_java(classes: Path, folder: Path, name: str, source: str, *arguments: str) -> list[str]:
    """Compile a class beside ours, run it, and return its lines."""
    (folder / f"{name}.java").write_text(source)
    path = os.pathsep.join([str(classes), str(folder), *map(str, find_jars())])
    subprocess.run([*JAVAC, "-cp", path, "-d", str(folder), str(folder / f"{name}.java")], check=True)
    java = find_java(os.environ).program
    command = [java, "-cp", path, f"minutebook.{name}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def _recorded() -> dict[str, dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = json.loads((HERE / "answers.json").read_text())
    return kept


def _ours(shape: Shape) -> Answer:
    """Return our reader's answer in KCL's form."""
    hash_range = HashRange(shape.first_hash_key, shape.last_hash_key)
    return [
        (user.sub, user.partition_key, base64.b64encode(user.data).decode())
        for user in deaggregate(OUTER_KEY, shape.data, hash_range).delivered
    ]
