"""S3 as boto3 shows it: the real `minutebook.store.s3.S3Store` runs on this client.

A request may be refused before it is applied, applied with its answer lost, answered 409 or 503, or be on its way for
so long that its client gives up and others write first. S3 refuses what was signed more than 15 minutes ago.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from tests.simulation.world import Host, World

PREFIX: Final = "raw/"
SIDE_OBJECTS: Final = (f"{PREFIX}_duplicates/", f"{PREFIX}_watermarks/", f"{PREFIX}_expired/")
SIGNATURE_SECONDS: Final = 900
_FAULTS: Final = ("refused before", "503 before", "409", "answer lost", "500 after", "delayed", "token expired")
_READ_FAULTS: Final = ("refused before", "503 before", "answer lost", "headers cut off")
_CUT_OFF: Final[Mapping[str, Any]] = {"ETag": '"e"', "Metadata": {}}
"""What botocore makes of an answer whose connection ended within its headers."""


class Stored(NamedTuple):
    """An object."""

    body: bytes
    metadata: dict[str, str]
    written_at: float

    def timestamp(self) -> float:
        """Stand for boto3's LastModified."""
        return self.written_at


class _Flying(NamedTuple):
    key: str
    stored: Stored
    signed_at: float
    conditional: bool


class Bucket:
    """The objects, and the PUTs that are still on their way. `on_created` sees every object that begins to exist."""

    def __init__(
        self,
        world: World,
        on_created: Callable[[str, Stored], None],
        on_deleted: Callable[[str], None] = lambda _key: None,
    ) -> None:
        self.objects: dict[str, Stored] = {}
        self.gone: dict[str, Stored] = {}
        self.flying: list[_Flying] = []
        self._world = world
        self._on_created = on_created
        self._on_deleted = on_deleted

    def apply(self, put: _Flying) -> str | None:
        """Apply a PUT now; return the error code of a refusal."""
        if self._world.now - put.signed_at > SIGNATURE_SECONDS:
            self._world.happened("S3: 403 RequestTimeTooSkewed")
            return "RequestTimeTooSkewed"
        if put.conditional and put.key in self.objects:
            self._world.tally["S3: 412"] += 1
            return "PreconditionFailed"
        self.objects[put.key] = put.stored._replace(written_at=self._world.now)
        self._on_created(put.key, put.stored)
        return None

    def land(self, number: int) -> None:
        """Let a PUT that was on its way arrive."""
        flying = self.flying.pop(number)
        self._world.note("network", f"a delayed PUT arrives: {flying.key[-50:]}")
        if self.apply(flying) is None:
            self._world.happened("S3: a delayed PUT arrives and wins")

    def delete(self, key: str) -> None:
        """Delete an object that may be gone already; `on_deleted` may judge it."""
        if key in self.objects:
            self._on_deleted(key)
            self.expire(key)

    def expire(self, key: str) -> None:
        """Delete an object as `minutebook expire` does."""
        self.gone[key] = self.objects.pop(key)


class S3Client:
    """One machine's client of the bucket, in the shape of boto3's."""

    def __init__(self, bucket: Bucket, host: Host) -> None:
        self._bucket = bucket
        self._host = host

    def put_object(
        self,
        *,
        Bucket: str,  # noqa: ARG002, N803 - boto3's names
        Key: str,  # noqa: N803
        Body: bytes,  # noqa: N803
        Metadata: Mapping[str, str],  # noqa: N803
        ContentType: str,  # noqa: ARG002, N803
        IfNoneMatch: str | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        """PutObject; signed at the call, so a process frozen before it is sent is refused later."""
        put = _Flying(Key, Stored(Body, dict(Metadata), 0), self._host.world.now, IfNoneMatch == "*")
        fault = self._begin("PUT", Key, _FAULTS)
        if fault == "delayed":
            self._bucket.flying.append(put)
            self._host.point("while a PUT is on its way")
            raise ReadTimeoutError(endpoint_url="s3")
        code = self._bucket.apply(put)
        if code is not None:
            self._end("PUT", Key, fault)
            raise _client_error(412 if code == "PreconditionFailed" else 403, code)
        self._host.note(f"PUT is applied: {Key[-50:]}")
        self._end("PUT", Key, fault)
        return {"ETag": '"e"'}

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: ARG002, N803
        """HeadObject."""
        fault, stored = self._read("HEAD", Key)
        if fault == "headers cut off":
            return dict(_CUT_OFF)
        return {
            "ContentLength": len(stored.body),
            "ETag": '"e"',
            "Metadata": dict(stored.metadata),
            "LastModified": stored,
        }

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: ARG002, N803
        """GetObject."""
        fault, stored = self._read("GET", Key)
        if fault == "headers cut off":
            return {"Body": io.BytesIO(), **_CUT_OFF}
        return {
            "Body": io.BytesIO(stored.body),
            "ContentLength": len(stored.body),
            "ETag": '"e"',
            "Metadata": dict(stored.metadata),
        }

    def delete_objects(self, *, Bucket: str, Delete: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002, N803
        """DeleteObjects; now and then some keys fail and the others go, or all go and the answer is cut off."""
        fault = self._begin("DELETE", "", _READ_FAULTS)
        errors, gone = [], []
        for row in Delete["Objects"]:
            if fault == "headers cut off" and self._host.world.chance(0.5):
                errors.append({"Key": row["Key"], "Code": "InternalError"})
            else:
                self._bucket.delete(row["Key"])
                gone.append({"Key": row["Key"]})
        self._end("DELETE", "", fault)
        if fault == "headers cut off" and not errors:
            return {}
        return {"Deleted": gone} | ({"Errors": errors} if errors else {})

    def get_paginator(self, operation: str) -> "S3Client":
        """ListObjectsV2 is the only one."""
        assert operation == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str, Delimiter: str = "") -> Iterator[dict[str, Any]]:  # noqa: ARG002, N803
        """Give one page: no history holds a thousand objects."""
        fault = self._begin("LIST", Prefix, _READ_FAULTS)
        listed = {key: stored for key, stored in sorted(self._bucket.objects.items()) if key.startswith(Prefix)}
        rows = [
            {"Key": key, "Size": len(stored.body), "ETag": '"e"', "LastModified": stored}
            for key, stored in listed.items()
            if not Delimiter or Delimiter not in key[len(Prefix) :]
        ]
        deeper = [key[len(Prefix) :] for key in listed if Delimiter and Delimiter in key[len(Prefix) :]]
        names = {path.partition(Delimiter)[0] for path in deeper}
        self._end("LIST", Prefix, fault)
        if fault == "headers cut off":
            yield {}
            return
        folders = [{"Prefix": f"{Prefix}{name}{Delimiter}"} for name in sorted(names)]
        answer = {"Contents": rows} if rows else {}
        yield {"IsTruncated": False, **answer} | ({"CommonPrefixes": folders} if folders else {})

    def _read(self, verb: str, key: str) -> tuple[str | None, Stored]:
        fault = self._begin(verb, key, _READ_FAULTS)
        stored = self._bucket.objects.get(key)
        self._end(verb, key, fault)
        if stored is None:
            raise _client_error(404, "NoSuchKey")
        return fault, stored

    def _begin(self, verb: str, key: str, faults: tuple[str, ...]) -> str | None:
        host, world = self._host, self._host.world
        host.request(verb)
        host.note(f"{verb} {key[-50:]}")
        host.point(f"before {verb} is applied")
        if world.refuses_skew and abs(host.skew) > SIGNATURE_SECONDS:
            raise _client_error(403, "RequestTimeTooSkewed")
        if not world.chance(host.fault_rate):
            return None
        fault = world.rng.choice(faults)
        world.tally[f"S3: {verb} {fault}"] += 1
        host.note(f"{verb}: {fault}")
        if fault == "refused before":
            raise EndpointConnectionError(endpoint_url="s3")
        if fault == "503 before":
            raise _client_error(503, "SlowDown")
        if fault == "409":
            raise _client_error(409, "ConditionalRequestConflict")
        if fault == "token expired":
            raise _client_error(400, "ExpiredToken")
        return fault

    def _end(self, verb: str, key: str, fault: str | None) -> None:  # noqa: ARG002 - the key helps a debugger
        self._host.point(f"after {verb} was applied")
        if fault == "answer lost":
            raise ReadTimeoutError(endpoint_url="s3")
        if fault == "500 after":
            raise _client_error(500, "InternalError")


def _client_error(status: int, code: str) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item] # what our code reads of it
        "simulated",
    )
