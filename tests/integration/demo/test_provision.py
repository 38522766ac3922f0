"""Provisioning the containers' stream and bucket."""

from pathlib import Path

from demo.embedded import EmbeddedAws
from demo.provision import main
from minutebook.clock import new_id


def test_provisioning_twice_is_the_same_as_once(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    """A restarted stack finds its stream and bucket and leaves them alone."""
    name = f"provision-{new_id()[:8]}"
    path = tmp_path / "containers.properties"
    path.write_text(
        f"streamName={name}\napplicationName={name}\nregionName=us-east-1\n"
        f"kinesisEndpoint={embedded_aws.kinesis_endpoint}\ndynamoDBEndpoint={embedded_aws.dynamodb_endpoint}\n"
        f"minutebook.s3Endpoint={embedded_aws.s3_endpoint}\nminutebook.bucket={name}\n"
    )
    assert main([str(path)]) == 0
    embedded_aws.s3_client().put_object(Bucket=name, Key="kept", Body=b"")
    assert main([str(path)]) == 0
    assert embedded_aws.s3_client().head_object(Bucket=name, Key="kept")
    assert len(embedded_aws.kinesis_client().list_shards(StreamName=name)["Shards"]) == 4
