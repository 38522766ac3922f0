"""Commands of the nightly job as processes, on the embedded servers."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.model import PREFIX, Corpus
from tests.integration.forked import run_forked
from tests.witness.waiting import wait_until

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ROOT = Path(__file__).parents[2]
_CLOCK = SystemClock()


class Shell:
    """A properties file on the embedded servers, and commands that are given it."""

    def __init__(self, aws: EmbeddedAws, bucket: str, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "my.properties"
        self.environment = {**aws.environment, "HOME": str(folder), "PYTHONPATH": str(ROOT)}
        self.address = Address(bucket, "", REGION, aws.s3_endpoint)
        values = {
            "streamName": "corpus",
            "applicationName": bucket,
            "regionName": REGION,
            "kinesisEndpoint": aws.kinesis_endpoint,
            "dynamoDBEndpoint": aws.dynamodb_endpoint,
            "minutebook.bucket": bucket,
            "minutebook.prefix": PREFIX,
            "minutebook.s3Endpoint": aws.s3_endpoint,
        }
        self.file.write_text("".join(f"{name} = {value}\n" for name, value in values.items()))

    def archive(self, corpus: Corpus) -> None:
        """Put a corpus into the bucket, as the application of the file did, before the second that is judged."""
        corpus.write(open_storage(self.address), application=self.address.bucket or "")
        # LastModified has whole seconds: what was stored in the second of a judgement may have come meanwhile.
        second = _CLOCK.now_ms() // 1000
        wait_until(lambda: _CLOCK.now_ms() // 1000 > second, "the next second")

    def run(self, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `minutebook WORD FILE WORDS...` in a process that is forked with its modules."""
        environment = {**self.environment, "PATH": os.environ["PATH"] if path is None else path}
        return run_forked([words[0], str(self.file), *words[1:]], environment=environment, folder=self.folder)


def store_checkpoints(client: "DynamoDBClient", table: str, corpus: Corpus) -> None:
    """Make the lease table with the corpus' checkpoints."""
    client.create_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for shard, position in corpus.checkpoints.items():
        row = {
            "leaseKey": {"S": shard},
            "checkpoint": {"S": str(position.sequence)},
            "checkpointSubSequenceNumber": {"N": str(position.sub)},
        }
        client.put_item(TableName=table, Item=row)
