"""Where a request to S3 may be sent again: the same object at another address of its bucket, and nowhere else."""

from typing import Any, cast

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict

from minutebook.aws.access import PLAIN
from minutebook.aws.clients import aws_session, client_config, make_s3_client
from minutebook.aws.redirects import register_redirects, same_object
from minutebook.clock import Clock, SystemClock
from minutebook.errors import OutcomeUnknown, StoreRefused
from minutebook.store.objects import PutOutcome
from minutebook.store.s3 import S3Store
from tests.fakes.answering import Body

AWS = "https://minutes.s3.eu-west-1.amazonaws.com/a/k%3D1"


@pytest.mark.parametrize(
    ("url", "location", "address"),
    [
        (AWS, "https://minutes.s3-gztb4pa9sq.amazonaws.com/a/k%3D1?rk=e2c6", "?rk=e2c6"),
        (AWS, "https://minutes.s3.eu-central-1.amazonaws.com/a/k=1", ""),
        (AWS, "https://s3.eu-central-1.amazonaws.com/minutes/a/k%3D1", ""),
        (AWS, "https://minutes.s3-fips.dualstack.us-east-1.amazonaws.com/a/k%3D1", ""),
        (f"{AWS}?list-type=2&prefix=a%2F", "https://minutes.s3-x.amazonaws.com/a/k%3D1", "?list-type=2&prefix=a%2F"),
        ("http://10.0.0.1:9000/minutes/k", "http://10.0.0.1:9000/minutes/k", ""),
        ("http://[::1]:9000/minutes/k", "http://[::1]:9000/minutes/k?rk=1", "?rk=1"),
        (AWS, "https://minutes.s3-eu-central-1.amazonaws.com/a/k%3D1?rk=1&versionId=3&uploads", "?rk=1"),
    ],
)
def test_another_address_of_the_same_object(url: str, location: str, address: str) -> None:
    """AWS's own, or the one that was asked; with the query of the request and the answer's token."""
    assert same_object(url, location, "minutes") == location.partition("?")[0] + address


@pytest.mark.parametrize(
    "location",
    [
        "https://minutes.s3.eu-west-1.amazonaws.com.evil.test/a/k%3D1",
        "https://evil.test/minutes/a/k%3D1",
        "https://other.s3.eu-west-1.amazonaws.com/a/k%3D1",
        "https://minutes.s3.eu-west-1.amazonaws.com/a/k%3D2",
        "http://minutes.s3.eu-west-1.amazonaws.com/a/k%3D1",
        "https://me@minutes.s3.eu-west-1.amazonaws.com/a/k%3D1",
        "https://s3.eu-west-1.amazonaws.com/other/a/k%3D1",
        "https://minutes.s3.eu-west-1.amazonaws.com/minutes/a/k%3D1",
        "https://minutes.s3-website-eu-west-1.amazonaws.com/a/k%3D1",
        "https://minutes.s3-x-1.eu-west-1.elb.amazonaws.com/a/k%3D1",
        "https://evil.test\\.s3.eu-west-1.amazonaws.com/minutes/a/k%3D1",
        "https://minutes.s3.eu-west-1.amazonaws.com\t/a/k%3D1",
        "https://minutes.s3.eu\xad-west-1.amazonaws.com/a/k%3D1",
        "https://minutes.s3.eu-west-1.amazonaws.com:x/a/k%3D1",
        "https://[minutes.s3.eu-west-1.amazonaws.com/a/k%3D1",
        "/a/k%3D1",
        "",
    ],
)
def test_nothing_else(location: str) -> None:
    """Another host, bucket, key or scheme: signed requests go nowhere that S3 would not send them."""
    assert same_object(AWS, location, "minutes") is None


class Wire:
    """Answers of S3, in order; the requests that came."""

    def __init__(self, *answers: tuple[int, dict[str, str]]) -> None:
        self._answers = list(answers)
        self.requests: list[AWSPreparedRequest] = []

    def __call__(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:  # noqa: ANN401 - botocore's hook
        """Give the next answer."""
        self.requests.append(request)
        status, headers = self._answers.pop(0)
        return AWSResponse(request.url, status, HeadersDict(headers), cast("Any", Body(b"")))

    def signed(self) -> list[tuple[str, str, str]]:
        """Return address, condition and the region of the signature of each request."""
        return [
            (
                request.url,
                _text(request.headers["If-None-Match"]),
                _text(request.headers["Authorization"]).split("/")[2],
            )
            for request in self.requests
        ]


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class LaterClock(SystemClock):
    """This machine's clock, as if it had slept."""

    def __init__(self, seconds: float) -> None:
        self._ms = int(seconds * 1000)

    def now_ms(self) -> int:
        """Return the wall clock's time behind the sleep."""
        return super().now_ms() + self._ms


def _put(wire: Wire, clock: Clock | None = None) -> PutOutcome:
    client = make_s3_client("eu-west-1", None, PLAIN)
    if clock is not None:
        client = aws_session().client("s3", region_name="eu-west-1", config=client_config())
        register_redirects(client, clock)
    client.meta.events.register("before-send.s3", cast("Any", wire))
    return S3Store(client, "minutes").put_if_absent("a/k", b"body", {}, "text/plain")


@pytest.mark.usefixtures("credentials")
def test_the_signature_is_for_the_address_that_is_asked() -> None:
    """The region is that of the answer, or else of the address; the condition stays."""
    there = "https://minutes.s3.eu-central-1.amazonaws.com/a/k"
    wire = Wire((307, {"Location": there}), (200, {"ETag": '"e"'}))
    assert _put(wire) is PutOutcome.CREATED
    assert wire.signed() == [
        ("https://minutes.s3.eu-west-1.amazonaws.com/a/k", "*", "eu-west-1"),
        (there, "*", "eu-central-1"),
    ]


@pytest.mark.usefixtures("credentials")
def test_an_answer_of_the_new_address_counts() -> None:
    """Somebody's object is there: that is no error, and the first address is not asked again."""
    wire = Wire((307, {"Location": "https://minutes.s3-x1.amazonaws.com/a/k?rk=1"}), (412, {}))
    assert _put(wire) is PutOutcome.EXISTS
    assert len(wire.requests) == 2


@pytest.mark.usefixtures("credentials")
def test_a_bucket_of_another_region_is_asked_there() -> None:
    """As botocore does it: the region comes with the first answer."""
    wire = Wire((301, {"x-amz-bucket-region": "us-west-2"}), (200, {"ETag": '"e"'}))
    assert _put(wire) is PutOutcome.CREATED
    assert wire.signed()[1] == ("https://minutes.s3.us-west-2.amazonaws.com/a/k", "*", "us-west-2")


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("headers", "kind"),
    [({}, OutcomeUnknown), ({"Location": "https://evil.test/minutes/a/k"}, StoreRefused)],
)
def test_a_307_that_leads_nowhere(headers: dict[str, str], kind: type[Exception]) -> None:
    """Without an address it is sent again later; to a foreign one never."""
    wire = Wire((307, headers))
    with pytest.raises(kind):
        _put(wire)
    assert len(wire.requests) == 1


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("seconds", [-30, 3600 * 24 * 9])
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((307, {"Location": "https://minutes.s3-x1.amazonaws.com/a/k"}), OutcomeUnknown),
        ((301, {"x-amz-bucket-region": "us-west-2"}), StoreRefused),
    ],
)
def test_a_machine_that_slept_behind_a_redirect_sends_nothing(
    answer: tuple[int, dict[str, str]], kind: type[Exception], seconds: float
) -> None:
    """Signed anew, an old segment could take a slot that was expired meanwhile: the age is checked again first."""
    wire = Wire(answer)
    with pytest.raises(kind):
        _put(wire, LaterClock(seconds))
    assert len(wire.requests) == 1
