"""`minutebook consume`: one stream, or those of a folder."""

from collections.abc import Mapping
from pathlib import Path

from consumer.daemon.consume import consume_stream, logged
from minutebook.properties_folder import PropertiesFolder, streams_of


def run_consume(path: Path | None, environ: Mapping[str, str], state_folder: Path | None) -> int:
    """Archive the stream of a file, or those of a folder, until stopped; return the exit code. Errors are logged."""

    def consume() -> int:
        source = streams_of(path, environ)
        if not isinstance(source, PropertiesFolder):
            return consume_stream(source, environ, state_folder)
        from consumer.fleet.fleet import consume_folder  # noqa: PLC0415 - one stream without metrics needs no Prometheus

        return consume_folder(source, environ, state_folder)

    return logged(consume)
