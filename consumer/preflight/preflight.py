"""The pre-flight: what must be true before a daemon starts, checked in a second or two.

`consume` runs the necessary checks, `minutebook doctor` all of them; only doctor writes objects, and removes them.
Checks that depend on a failed one are not run: they are reported as unknown, never as ok.
"""

import os
import random
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final

from botocore.exceptions import BotoCoreError

from consumer.preflight import bucket, conditional_put, java, stream
from consumer.preflight.check import Check, CheckOutcome
from consumer.preflight.probe import PATIENCE_SECONDS, Probe
from consumer.preflight.proxies import check_proxies
from consumer.settings.settings import LoadedSettings
from minutebook.aws.clients import aws_session, is_retryable
from minutebook.aws.credentials import LOOK_AT_SOURCE
from minutebook.clock import Clock, IdSource
from minutebook.codec.library import native_library
from minutebook.errors import MinutebookError

_Step = tuple[str, Callable[[], Check]]
"""The subject of a check, under which its error is reported, and the check."""
_SEVERITY: Final = (6, 2, 5, 1)
"""The order in which the exit code is chosen from several failures: what a person must decide comes first."""


def preflight(
    loaded: LoadedSettings,
    environ: Mapping[str, str],
    *,
    whole: bool,
    clock: Clock,
    rng: random.Random,
    new_id: IdSource,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[Check]:
    """Yield each check when it is done. `whole`: include those that only doctor has the time or permissions for."""
    yield from _group("java", [("java", lambda: check_machine_java(environ)), ("KCL", check_jars)])
    if (command := loaded.kcl.get("executableName")) is not None:
        yield check_executable(command, environ)
    if whole:
        yield check_codec()
        if (proxies := check_proxies(environ)) is not None:
            yield proxies
    credentials = _run("credentials", check_credentials)
    yield credentials
    if credentials.outcome is CheckOutcome.FAIL:
        yield Check.unknown("stream", "not asked: there are no credentials")
        yield Check.unknown("bucket", "not asked: there are no credentials")
        return
    probe = Probe(loaded, clock, rng, new_id, patience_seconds=patience_seconds)
    has_stream = yield from _group("stream", _stream_checks(probe, whole=whole))
    try:
        has_bucket = yield from _group("bucket", _bucket_checks(probe, whole=whole))
    finally:
        leftover = probe.clean_up()
    if leftover:
        yield leftover
    if has_stream and has_bucket:
        yield _run("prefix", lambda: stream.check_owner(probe))
    else:
        yield Check.unknown("prefix", f"not looked at: the {'bucket' if has_stream else 'stream'} failed")
    table = _run("table", lambda: stream.check_table(probe))
    yield table
    if whole and table.outcome is not CheckOutcome.FAIL:
        yield from stream.check_lease_actions(probe)
        yield from stream.check_dedupe_table(probe)


def settled(loaded: LoadedSettings, clock: Clock, rng: random.Random, new_id: IdSource) -> Check:
    """Check that the bucket implements If-None-Match, once `consume` has read or written the application's record."""
    probe = Probe(loaded, clock, rng, new_id)
    return _run("If-None-Match", lambda: conditional_put.check_record_stays(probe))


def failed_checks_code(checks: Sequence[Check]) -> int:
    """Return the exit code of the failed checks; 0 if none failed."""
    codes = {check.exit_code for check in checks if check.outcome is CheckOutcome.FAIL}
    return next((code for code in _SEVERITY if code in codes), 0)


def check_machine_java(environ: Mapping[str, str]) -> Check:
    """Check that a Java is new enough; raises SettingsError."""
    runtime = java.find_java(environ)
    return Check.ok("java", f"Java {runtime.version} at {runtime.program}")


def check_jars() -> Check:
    """Check that the daemon's jars are the tested ones; raises SettingsError."""
    java.find_shims()
    return java.check_jar_digests(java.find_jars(), java.known_digests())


def check_executable(command: str, environ: Mapping[str, str]) -> Check:
    """Check that the program which the file names for processors is there: else the daemon alone would say so."""
    program = command.split(maxsplit=1)[0]
    if shutil.which(program, path=environ.get("PATH", os.defpath)) is None:
        return Check.failed(
            "executableName",
            f"{program} is no program that this process can start",
            next_step="remove the line: `consume` names its own",
            exit_code=2,
        )
    return Check.warn(
        "executableName",
        f"processors are started as {command}, each by itself, and not forked",
        next_step="remove the line unless you wrap the processor",
    )


def check_codec() -> Check:
    """Report whether the codec is compiled: the one in Python writes the same bytes, slower."""
    if native_library() is not None:
        return Check.ok("codec", "compiled for this machine")
    return Check.warn(
        "codec",
        "Python's: segments are the same, and take half as much CPU again and more",
        next_step="install Minutebook where there is a C compiler (docs/decisions/0041-a-native-codec.md)",
    )


def check_credentials() -> Check:
    """Resolve AWS credentials as our clients do."""
    next_step = "give this process a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    try:
        credentials = aws_session().get_credentials()
        if credentials is not None:
            credentials.get_frozen_credentials()
    except BotoCoreError as exc:
        return Check.failed(
            "credentials",
            f"the source of credentials fails: {exc}",
            next_step=LOOK_AT_SOURCE,
            exit_code=5 if is_retryable(exc) else 2,
        )
    if credentials is None:
        return Check.failed("credentials", "no AWS credentials found", next_step=next_step, exit_code=2)
    return Check.ok("credentials", f"found by {credentials.method}")


def _stream_checks(probe: Probe, *, whole: bool) -> list[_Step]:
    described: _Step = ("stream", lambda: stream.describe_stream(probe))
    return [described, ("stream", lambda: stream.check_reading(probe))] if whole else [described]


def _bucket_checks(probe: Probe, *, whole: bool) -> list[_Step]:
    reached: list[_Step] = [
        ("bucket", lambda: bucket.check_reachable(probe)),
        ("clock", lambda: bucket.check_stale_clock(probe)),
    ]
    if not whole:
        return [*reached, ("bucket", lambda: bucket.check_listing(probe))]
    return [
        *reached,
        ("bucket", lambda: bucket.check_requests(probe)),
        ("If-None-Match", lambda: conditional_put.check_one_winner(probe, keys=8, writers=16)),
        ("If-None-Match", lambda: conditional_put.check_delete_then_put(probe)),
        ("lifecycle", lambda: bucket.check_lifecycle(probe)),
        ("replication", lambda: bucket.check_replication(probe)),
        ("versioning", lambda: bucket.check_versioning(probe)),
    ]


def _group(name: str, steps: Sequence[_Step]) -> Generator[Check, None, bool]:
    """Run the checks of one service in order; after a failure, report the rest as not run. Return whether all ran."""
    for number, (subject, step) in enumerate(steps):
        check = _run(subject, step)
        yield check
        if check.outcome is CheckOutcome.FAIL:
            rest = len(steps) - number - 1
            if rest:
                yield Check.unknown(
                    name, f"{rest} more check{'s' if rest > 1 else ''} not run: they build on this one"
                )
            return False
    return True


def _run(name: str, step: Callable[[], Check]) -> Check:
    """Run a check; an error of the service that it asks is a failure under its own subject."""
    try:
        return step()
    except MinutebookError as exc:
        return Check.failed(name, str(exc), next_step=exc.next_step, exit_code=exc.exit_code)
