"""What is published is looked at on S3: by one LIST of its files, and replaced by ETag where it is damaged."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import new_id
from minutebook.published.generation import inventory_beside
from minutebook.store.objects import ListedObject, ObjectHead
from minutebook.store.storage import Address
from tests.corpus.desk import Desk, no_engine
from tests.fakes.failing_storage import FailingStorage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class CountingStorage(FailingStorage):
    """A storage that never fails, and keeps what was listed and asked by HEAD."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.storage, 0, applied=False)
        self.listed: list[str] = []
        self.heads: list[str] = []

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """Count, and pass on."""
        self.listed.append(prefix)
        return super().list_objects(prefix)

    def head(self, key: str) -> ObjectHead | None:
        """Count, and pass on."""
        self.heads.append(key)
        return super().head(key)


@pytest.fixture
def bucket(s3_client: "S3Client") -> str:
    """Return a new bucket."""
    name = f"whole-{new_id()[:10]}"
    s3_client.create_bucket(Bucket=name)
    return name


def test_a_published_day_is_looked_at_by_one_list(
    embedded_aws: EmbeddedAws, s3_client: "S3Client", bucket: str
) -> None:
    """A file that is gone, or has another size, is seen in it; what is damaged is put over by its ETag."""
    desk = Desk(Address(bucket, "", REGION, embedded_aws.s3_endpoint))
    assert desk.compact().verdict == "clean"
    storage = CountingStorage(desk)
    publisher = desk.publisher(storage)
    pointer, manifest = publisher.published()
    assert pointer is not None
    assert manifest is not None
    assert publisher.damage(pointer, manifest) == ""
    assert (storage.listed, storage.heads) == ([publisher.folder.generation(manifest.generation)], [])

    file = manifest.files[0].key
    s3_client.put_object(Bucket=bucket, Key=file, Body=b"PAR1")
    assert publisher.damage(pointer, manifest) == f"{file} is gone, or has another size"
    s3_client.delete_object(Bucket=bucket, Key=file)
    assert file in publisher.damage(pointer, manifest)
    assert desk.compact().state == "published"

    for number in range(3):
        pointer = desk.publisher().current().pointer
        assert pointer is not None
        key = (pointer.audit, inventory_beside(pointer.manifest), publisher.folder.pointer)[number]
        s3_client.put_object(Bucket=bucket, Key=key, Body=b"{}")
        assert desk.compact().state == "published"
        assert desk.compact(engine=no_engine).state == "already"
        assert len(desk.published_rows()) == desk.corpus.records
