"""Mutations of where settings come from: a file, the environment, or what somebody mistyped."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_SOURCE: Final = "archive/properties_file.py"
_SOURCES: Final = "tests/unit/archive/test_properties_file.py"
_WORKER_BUCKET: Final = "tests/integration/consumer/test_worker_bucket.py"
_ENVIRONMENT: Final = "tests/unit/consumer/settings/test_environment.py"

SETTINGS: Final = (
    Mutation(
        "let a file hide the text of the environment",
        Change(_SOURCE, "if path is not None and text:", "if False:"),
        tests=(f"{_SOURCES}::test_two_sources_are_refused",),
    ),
    Mutation(
        "take an empty variable for none",
        Change(
            _SOURCE,
            "if not text or text != text.strip():",
            "if not text:\n            continue\n        if text != text.strip():",
        ),
        tests=(f"{_ENVIRONMENT}::test_an_empty_variable_is_refused_by_both_sides",),
    ),
    Mutation(
        "keep the file's stream beside the variable's",
        Change(_SOURCE, "            values.pop(other, None)\n", "            pass\n"),
        tests=(f"{_SOURCES}::test_the_environment_wins",),
    ),
    Mutation(
        "read a file with a byte order mark",
        Change(_SOURCE, "if body.startswith(mark):", "if False:"),
        tests=(f"{_SOURCES}::test_a_file_of_another_kind",),
    ),
    Mutation(
        "believe in every region",
        Change("archive/aws.py", "    if region in known:\n", "    if known:\n"),
        tests=("tests/unit/archive/test_region.py::test_a_typing_error",),
    ),
    Mutation(
        "hand the text on to the daemon's processors",
        Change(
            "consumer/daemon/consume.py",
            "for name, text in environ.items() if name != TEXT_VARIABLE}",
            "for name, text in environ.items()}",
        ),
        tests=("tests/integration/consumer/test_consume.py::test_the_daemon_sees_the_effective_file_alone",),
    ),
    Mutation(
        "publish Parquet among the raw segments",
        Change("compaction/job/settings.py", "if not below or _YEAR.match(below):", "if False:"),
        tests=("tests/unit/compaction/job/test_out.py::test_among_the_segments_is_refused",),
    ),
    Mutation(
        "read a stream of another region than regionName",
        Change("compaction/job/settings.py", "if arn and region != arn.region:", "if False:"),
        tests=(f"{_ENVIRONMENT}::test_a_stream_in_another_region",),
    ),
    Mutation(
        "start on a bucket that ignores If-None-Match",
        Change(
            "consumer/preflight/conditional_put.py",
            "if probe.store.put_if_absent(key, stored.body, stored.metadata) is PutOutcome.CREATED:",
            "if probe.store.put_if_absent(key, stored.body, stored.metadata) is None:",
        ),
        tests=(f"{_WORKER_BUCKET}::test_the_record_is_put_over_itself",),
    ),
    Mutation(
        "let a worker leave probe objects",
        Change("consumer/preflight/preflight.py", "    if not whole:\n", "    if False:\n"),
        tests=(f"{_WORKER_BUCKET}::test_nothing_is_written",),
    ),
)
