"""Glue's catalog in memory: tables with versions, partitions, and answers that get lost."""

import copy
from collections import Counter
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ReadTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

_STATUS = 400


class FakeGlue:
    """Implements `GlueClient`. As Glue does, it refuses what exists, what is not there, and old versions."""

    def __init__(self, *databases: str) -> None:
        self.tables: dict[tuple[str, str], dict[str, Any]] = {}
        self.partitions: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.asked: Counter[str] = Counter()
        self.lost: list[str] = []
        """Requests whose next answer gets lost after they were applied."""
        self.before: Callable[[str], None] = lambda _: None
        """Called before each request: another run."""
        self._databases = databases

    def get_table(self, *, DatabaseName: str, Name: str) -> Any:  # noqa: ANN401, N803 - boto3's
        """Answer GetTable."""
        self._begin("GetTable")
        found = self.tables.get((DatabaseName, Name))
        if found is None:
            raise self._error("EntityNotFoundException", "GetTable")
        return self._end("GetTable", {"Table": copy.deepcopy(found)})

    def create_table(self, *, DatabaseName: str, TableInput: Any) -> Any:  # noqa: ANN401, N803 - boto3's
        """Answer CreateTable."""
        self._begin("CreateTable")
        if DatabaseName not in self._databases:
            raise self._error("EntityNotFoundException", "CreateTable")
        key = (DatabaseName, TableInput["Name"])
        if key in self.tables:
            raise self._error("AlreadyExistsException", "CreateTable")
        made = {"DatabaseName": DatabaseName, "VersionId": "1", "CreatedBy": "somebody", "Owner": ""}
        self.tables[key] = {**copy.deepcopy(TableInput), **made}
        return self._end("CreateTable", {})

    def update_table(self, *, DatabaseName: str, TableInput: Any, VersionId: str) -> Any:  # noqa: ANN401, N803 - boto3's
        """Answer UpdateTable."""
        self._begin("UpdateTable")
        key = (DatabaseName, TableInput["Name"])
        if self.tables[key]["VersionId"] != VersionId:
            raise self._error("ConcurrentModificationException", "UpdateTable")
        if {"DatabaseName", "VersionId", "CreatedBy"} & TableInput.keys() or TableInput.get("Owner") == "":
            raise AssertionError("boto3 refuses these")
        made = {"DatabaseName": DatabaseName, "VersionId": str(int(VersionId) + 1), "CreatedBy": "somebody"}
        self.tables[key] = {**copy.deepcopy(TableInput), **made}
        return self._end("UpdateTable", {})

    def batch_create_partition(self, *, DatabaseName: str, TableName: str, PartitionInputList: Any) -> Any:  # noqa: ANN401, N803 - boto3's
        """Answer BatchCreatePartition."""
        self._begin("BatchCreatePartition")
        errors = []
        for given in PartitionInputList:
            key = (DatabaseName, TableName, given["Values"][0])
            if key in self.partitions:
                detail = {"ErrorCode": "AlreadyExistsException", "ErrorMessage": "Partition already exists"}
                errors.append({"PartitionValues": given["Values"], "ErrorDetail": detail})
            else:
                self.partitions[key] = copy.deepcopy(given)
        return self._end("BatchCreatePartition", {"Errors": errors})

    def get_partitions(self, *, DatabaseName: str, TableName: str, **more: str) -> Any:  # noqa: ANN401, N803 - boto3's
        """Answer GetPartitions, one at a time."""
        self._begin("GetPartitions")
        found = [each for key, each in sorted(self.partitions.items()) if key[:2] == (DatabaseName, TableName)]
        at = int(more.get("NextToken", "0"))
        rest = {"NextToken": str(at + 1)} if at + 1 < len(found) else {}
        return self._end("GetPartitions", {"Partitions": copy.deepcopy(found[at : at + 1]), **rest})

    def get_partition(self, *, DatabaseName: str, TableName: str, PartitionValues: Any) -> Any:  # noqa: ANN401, N803 - boto3's
        """Answer GetPartition."""
        self._begin("GetPartition")
        return self._end("GetPartition", {"Partition": self.partitions[DatabaseName, TableName, PartitionValues[0]]})

    def update_partition(
        self,
        *,
        DatabaseName: str,  # noqa: N803 - boto3's
        TableName: str,  # noqa: N803 - boto3's
        PartitionValueList: Any,  # noqa: ANN401, N803 - boto3's
        PartitionInput: Any,  # noqa: ANN401, N803 - boto3's
    ) -> Any:  # noqa: ANN401 - boto3's
        """Answer UpdatePartition."""
        self._begin("UpdatePartition")
        self.partitions[DatabaseName, TableName, PartitionValueList[0]] = copy.deepcopy(PartitionInput)
        return self._end("UpdatePartition", {})

    def _begin(self, what: str) -> None:
        self.asked[what] += 1
        self.before(what)

    def _end(self, what: str, answer: Any) -> Any:  # noqa: ANN401 - boto3's
        if what in self.lost:
            self.lost.remove(what)
            raise ReadTimeoutError(endpoint_url="glue")
        return answer

    def _error(self, code: str, what: str) -> ClientError:
        return ClientError(
            {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": _STATUS}},  # type: ignore[typeddict-item]
            what,
        )
