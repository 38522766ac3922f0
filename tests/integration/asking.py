"""An application whose commands are heard asking, and what their policies say of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from consumer.connections import stream_of
from consumer.settings.settings import load_with_kcl
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.store.s3 import S3Store
from minutebook.store.storage import Address
from tests.corpus.model import PREFIX
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.stream import DAY_MS
from tests.witness.policies import (
    Names,
    Request,
    actions_of,
    bucket_policy,
    command_policy,
    is_allowed,
    matches,
)
from tests.witness.requests import Heard

SHARD: Final = "shardId-000000000000"
TODAY: Final = SystemClock().now_ms() // DAY_MS
_TOLERATED: Final = frozenset({"s3:ListBucket"})
"""A HEAD of the bucket names no prefix, so the condition refuses it: the pre-flight takes that for an answer."""


class Home:
    """An application with a stream, an empty bucket and a properties file."""

    def __init__(self, aws: EmbeddedAws, folder: Path, bucket: str, store: S3Store) -> None:
        self.aws, self.store, self.bucket = aws, store, bucket
        self.names = Names(stream=bucket, application=f"app-{bucket}", bucket=bucket, prefix=PREFIX)
        self.file = folder / "my.properties"
        self.file.write_text(
            f"streamName={bucket}\napplicationName=app-{bucket}\nregionName={REGION}\nfailoverTimeMillis=1000\n"
            f"kinesisEndpoint={aws.kinesis_endpoint}\ndynamoDBEndpoint={aws.dynamodb_endpoint}\n"
            f"minutebook.bucket={bucket}\nminutebook.prefix={PREFIX}\nminutebook.s3Endpoint={aws.s3_endpoint}\n"
        )

    @property
    def address(self) -> Address:
        """Where the archive is."""
        return Address(self.bucket, "", REGION, self.aws.s3_endpoint)

    def begin(self) -> ArchiveScene[S3Store]:
        """Begin the archive long ago, as `expire` needs it."""
        settings = load_with_kcl(self.file, {}).settings
        scene = ArchiveScene(self.store)
        begin_ms = (TODAY - 60) * DAY_MS
        identity = stream_of(settings, SystemClock()).describe()
        scene.settle(identity, start_at_ms=begin_ms, application=settings.application_name)
        scene.begin_ms = begin_ms
        scene.begin(SHARD)
        return scene


def check(command: str, heard: Heard, *, beside: Iterable[Request] = ()) -> None:
    """Fail unless the command's policy allows what was heard, and allows nothing that was not.

    The bucket's policy must let it pass, too, to a role that is called as the command is. `beside` are requests that
    were recorded elsewhere.
    """
    names, policy = heard.names, command_policy(command, heard.names)
    requests = [*heard.requests, *beside]
    caller = {"aws:PrincipalArn": f"arn:aws:iam::{names.account}:role/{command}"}
    refused = [
        request
        for request in requests
        if not is_allowed([*policy, *bucket_policy(names)], request._replace(context={**request.context, **caller}))
    ]
    assert [each for each in refused if each.context or each.action not in _TOLERATED] == []
    unused = [
        (statement["Sid"], action)
        for statement in policy
        for action in actions_of(statement)
        if not any(request.action == action and matches(statement, request) for request in requests)
    ]
    assert unused == []
