"""What the demo does to copies of its archive, and what the audit must call it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import EXIT_CODES, encode_audit
from demo.embedded import REGION, EmbeddedAws
from demo.readback import read_archive
from demo.tamper import Tampered, tamper
from minutebook.format.day import Day
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.s3 import S3Store
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, Corpus

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DAY = Day.parse("2026-11-20")


class Auditor:
    """Audits as the command would, in this process."""

    def __init__(self, aws: EmbeddedAws, bucket: str, corpus: Corpus) -> None:
        self.address = Address(bucket, "", REGION, aws.s3_endpoint)
        self._checkpoints = corpus.checkpoints
        corpus.write(open_storage(self.address))

    def __call__(self, overrides: Mapping[str, str]) -> tuple[int, str]:
        """Return exit code and audit.json."""
        address = self.address._replace(bucket=overrides.get("MINUTEBOOK_BUCKET", self.address.bucket))
        place = StorePrefix(address, overrides["MINUTEBOOK_PREFIX"])
        used = job_context(address, self._checkpoints)._replace(place=place)
        audit = audit_day(used, DAY, AuditOptions()).audit
        return EXIT_CODES[audit.verdict], encode_audit(audit).decode()


@pytest.fixture
def auditor(embedded_aws: EmbeddedAws, bucket: str) -> Auditor:
    """Return an auditor of a clean archive."""
    return Auditor(embedded_aws, bucket, Corpus(DAY))


def test_every_way_of_tampering_is_called_by_its_name(auditor: Auditor, s3_client: "S3Client", bucket: str) -> None:
    """And by no other: each copy has the one fault, and the archive itself stays as it was."""
    before = read_archive(S3Store(s3_client, bucket), PREFIX)
    results = tamper(s3_client, bucket, PREFIX, before, auditor)
    assert [(copy.exit_code, set(copy.found)) for copy in results] == [
        (3, {"broken_chain"}),
        (3, {"identical_segment"}),
        (3, {"unreadable_object"}),
        (3, {"out_of_order"}),
        (3, {"count_mismatch"}),
        (4, set()),
    ]
    assert all(copy.is_named for copy in results)
    assert read_archive(S3Store(s3_client, bucket), PREFIX) == before
    assert auditor({"MINUTEBOOK_PREFIX": PREFIX})[0] == 0


@pytest.mark.parametrize(
    "blind",
    [
        Tampered("a segment is deleted", "broken_chain", 0, frozenset()),
        Tampered("a segment is deleted", "broken_chain", 3, frozenset({"count_mismatch"})),
        Tampered("a segment is deleted", "broken_chain", 4, frozenset({"broken_chain"})),
        Tampered("the bucket cannot be read", "", 0, frozenset()),
        Tampered("the bucket cannot be read", "", 5, frozenset()),
    ],
)
def test_an_audit_that_sees_nothing_or_something_else_fails_the_demo(blind: Tampered) -> None:
    """Clean, another name, or another exit code is not good enough."""
    assert not blind.is_named
