"""Pre-flight checks of this machine: Java, the daemon's jars, the codec, credentials."""

from collections.abc import Mapping

from botocore.exceptions import BotoCoreError

from consumer.preflight.check import Check
from consumer.preflight.java import find_jars, find_java, find_shims
from consumer.preflight.kcl_jars import check_jar_digests, known_digests
from minutebook.aws.clients import aws_session
from minutebook.codec.library import native_library


def check_machine_java(environ: Mapping[str, str]) -> Check:
    """Check that a Java is new enough; raises SettingsError."""
    java = find_java(environ)
    return Check.ok("java", f"Java {java.version} at {java.program}")


def check_jars() -> Check:
    """Check that the daemon's jars are the tested ones; raises SettingsError."""
    find_shims()
    return check_jar_digests(find_jars(), known_digests())


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
            "credentials", f"the credentials cannot be resolved: {exc}", next_step=next_step, exit_code=2
        )
    if credentials is None:
        return Check.failed("credentials", "no AWS credentials found", next_step=next_step, exit_code=2)
    return Check.ok("credentials", f"found by {credentials.method}")
