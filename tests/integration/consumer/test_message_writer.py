"""What our writer puts into a processor's pipe against what KCL's own does, where there is a javac to ask it with."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from consumer.preflight.java import find_jars, find_java, find_shims

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="javac is missing")
_CALLER = """
package software.amazon.kinesis.multilang;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
class Caller {
    static final String[] KEYS = {
        "", "p1", "a\\"b\\\\c", "\\u0000\\n\\u001f", "\\u00e9\\u20ac", "\\ud83d\\ude00",
        "\\ud83d", "x\\ude00y", "\\u2028</script>", "k".repeat(256)
    };
    static List<ProcessRecordsInput> batches() {
        List<ProcessRecordsInput> made = new ArrayList<>();
        Random random = new Random(1);
        int[] counts = {0, 1, 3, 700};
        for (int count : counts) {
            List<KinesisClientRecord> records = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                byte[] bytes = new byte[count == 1 ? 1 << 20 : random.nextInt(60)];
                random.nextBytes(bytes);
                ByteBuffer data = ByteBuffer.wrap(bytes);
                if (number % 3 == 0) data = data.asReadOnlyBuffer();
                Instant arrival = number % 7 == 1 ? null : Instant.ofEpochMilli(1795256161790L + number);
                records.add(KinesisClientRecord.builder().data(data).partitionKey(KEYS[number % KEYS.length])
                    .sequenceNumber("4968000000000000000000000000000000000000000000000000" + (1000 + number))
                    .subSequenceNumber(number).approximateArrivalTimestamp(arrival).build());
            }
            Long behind = count == 3 ? null : 7L;
            made.add(ProcessRecordsInput.builder().records(records).millisBehindLatest(behind).build());
        }
        return made;
    }
    static byte[] told(MessageWriter writer, ExecutorService executor) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        writer.initialize(out, "shardId-0", new ObjectMapper(), executor);
        for (ProcessRecordsInput batch : batches()) {
            if (!writer.writeProcessRecordsMessage(batch).get()) throw new IOException("not written");
            writer.writeLeaseLossMessage(LeaseLostInput.builder().build()).get();
        }
        return out.toByteArray();
    }
    public static void main(String[] words) throws Exception {
        ExecutorService executor = Executors.newCachedThreadPool(Caller::daemonic);
        Path folder = Path.of(words[0]);
        Files.write(folder.resolve("kcl"), told(new MessageWriter(), executor));
        Files.write(folder.resolve("ours"), told(new StreamingMessageWriter(), executor));
        MessageWriter deaf = new StreamingMessageWriter();
        deaf.initialize(new OutputStream() {
            @Override public void write(int b) throws IOException { throw new IOException("Broken pipe"); }
        }, "shardId-0", new ObjectMapper(), executor);
        System.out.println("TOLD written: " + deaf.writeProcessRecordsMessage(batches().get(3)).get());
        System.out.println("TOLD open: " + deaf.isOpen());
        try {
            deaf.writeProcessRecordsMessage(batches().get(3));
        } catch (IllegalStateException e) {
            System.out.println("TOLD refused");
        }
    }
    static Thread daemonic(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }
}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Let both write the same batches into files, and ours into a pipe that nobody reads."""
    folder = tmp_path_factory.mktemp("writer")
    (folder / "Caller.java").write_text(_CALLER)
    path = os.pathsep.join([str(find_shims()), str(folder), *map(str, find_jars())])
    subprocess.run(["javac", "-cp", path, "-d", str(folder), str(folder / "Caller.java")], check=True)
    command = [find_java(os.environ).program, "-Dfile.encoding=UTF-8", "-cp", path]
    told = subprocess.run(
        [*command, "software.amazon.kinesis.multilang.Caller", str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    return folder, told.stdout.splitlines()


def test_the_messages_are_those_of_kcl(told: tuple[Path, list[str]]) -> None:
    """Whatever a record holds: one line each, with the same fields and values."""
    ours, kcl = ((told[0] / name).read_bytes().splitlines(keepends=True) for name in ("ours", "kcl"))
    assert len(ours) == 8
    assert all(line.endswith(b"\n") for line in ours)
    assert [json.loads(line) for line in ours] == [json.loads(line) for line in kcl]


def test_a_processor_that_is_gone_is_told(told: tuple[Path, list[str]]) -> None:
    """KCL ends when a batch was not written: nothing may count as delivered."""
    assert [line[5:] for line in told[1] if line.startswith("TOLD ")] == ["written: false", "open: false", "refused"]
