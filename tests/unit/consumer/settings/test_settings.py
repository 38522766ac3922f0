"""The settings, from a properties file or from variables alone, and that all that is wrong is said at once."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from compaction.job.settings import load_job_settings
from consumer.settings.settings import Settings, load_settings, load_with_kcl
from consumer.settings.shipped import production_properties
from minutebook.aws.access import Access
from minutebook.errors import SettingsError
from minutebook.properties_file import KCL_VARIABLES
from minutebook.settings.kcl_properties import KCL_PROPERTIES
from minutebook.settings.names import OUR_PROPERTIES, environment_name

NEEDED = "streamName=s\napplicationName=app\nregionName=eu-west-1\nminutebook.bucket=archive\n"
VARIABLES = {
    "MINUTEBOOK_STREAM_NAME": "flights",
    "MINUTEBOOK_APPLICATION_NAME": "archive",
    "MINUTEBOOK_REGION_NAME": "eu-west-1",
    "MINUTEBOOK_WORKER_ID": "w1",
    "MINUTEBOOK_BUCKET": "minutes",
    "MINUTEBOOK_LINGER_SECONDS": "7",
}


class Loader:
    """Writes a properties file and loads it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "test.properties"

    def load(self, text: str, environ: Mapping[str, str] | None = None) -> Settings:
        """Return the settings of the needed lines followed by `text`."""
        return self.load_alone(NEEDED + text, environ)

    def load_alone(self, text: str, environ: Mapping[str, str] | None = None) -> Settings:
        """Return the settings of `text`."""
        self._path.write_text(text, encoding="latin-1")
        return load_settings(self._path, environ or {})

    def errors(self, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
        """Return the sentences of the error that the needed lines followed by `text` raise."""
        with pytest.raises(SettingsError) as caught:
            self.load(text, environ)
        return str(caught.value).split("\n  - ")[1:]


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    """Return a loader of properties text."""
    return Loader(tmp_path)


def test_defaults(loader: Loader) -> None:
    """A file with the required names alone gives the documented defaults."""
    expected = Settings(stream_name="s", application_name="app", region="eu-west-1", bucket="archive")

    assert expected == loader.load("")


def test_every_name_is_taken(loader: Loader) -> None:
    """Each name, given in a file, ends in its field."""
    settings = loader.load(
        "kinesisEndpoint=http://127.0.0.1:1\ndynamoDBEndpoint=http://127.0.0.1:2\nminutebook.prefix=a/b/\n"
        "minutebook.s3Endpoint=http://127.0.0.1:3\nminutebook.checkpointIntervalSeconds=1.5\n"
        "minutebook.lingerSeconds=0\nminutebook.flushSeconds=20\nminutebook.maxSegmentBytes=1000\n"
        "minutebook.maxSegmentAgeSeconds=600\nminutebook.start=now\nminutebook.storeTimeoutSeconds=60\n"
        "minutebook.adoptCheckpoint=true\nminutebook.logLevel=debug\nminutebook.metricsPort=9464\n"
        "minutebook.metricsHost=::1\nminutebook.metrics=emf\nminutebook.metricsIntervalSeconds=10\n"
        "minutebook.maxUncommittedSeconds=30\n"
    )

    assert (
        Settings(
            stream_name="s",
            application_name="app",
            region="eu-west-1",
            bucket="archive",
            prefix="a/b/",
            s3_endpoint="http://127.0.0.1:3",
            kinesis_endpoint="http://127.0.0.1:1",
            dynamodb_endpoint="http://127.0.0.1:2",
            checkpoint_interval_seconds=1.5,
            linger_seconds=0,
            flush_seconds=20,
            max_segment_bytes=1000,
            max_segment_age_seconds=600,
            start="now",
            store_timeout_seconds=60,
            adopt_checkpoint=True,
            log_level="debug",
            metrics_port=9464,
            metrics_host="::1",
            metrics="emf",
            metrics_interval_seconds=10,
            max_uncommitted_seconds=30,
        )
        == settings
    )


def test_every_field_has_a_name() -> None:
    """Each field of Settings can be set: by a name of ours or by one of KCL's."""
    ours = {environment_name(name).removeprefix("MINUTEBOOK_").lower() for name in OUR_PROPERTIES}
    kcl = {"stream_name", "application_name", "region", "kinesis_endpoint", "dynamodb_endpoint"}

    assert (set(Settings.__slots__) - {"access"}) | set(Access._fields) == ours | kcl


def test_the_environment_wins(loader: Loader) -> None:
    """A variable overrides the file's line, also a wrong one."""
    settings = loader.load(
        "minutebook.storeTimeoutSeconds=never\n", {"MINUTEBOOK_STORE_TIMEOUT_SECONDS": "7", "PATH": "/bin"}
    )

    assert settings.store_timeout_seconds == 7


def test_overrides_reach_the_daemons_file(tmp_path: Path) -> None:
    """The texts handed on to the processors hold the override, not the file's value."""
    path = tmp_path / "x.properties"
    path.write_text(NEEDED)

    assert load_with_kcl(path, {"MINUTEBOOK_BUCKET": "other"}).ours == {"bucket": "other"}


def test_unknown_variable(loader: Loader) -> None:
    """A variable that looks like ours and is not is refused, with a suggestion."""
    (error,) = loader.errors("", {"MINUTEBOOK_STORE_TIMEOUT": "7"})
    refused, suggestion = error.split(": ")
    assert refused == "environment variable MINUTEBOOK_STORE_TIMEOUT is not a setting"
    assert suggestion == "did you mean MINUTEBOOK_STORE_TIMEOUT_SECONDS?"


@pytest.mark.parametrize(
    "name",
    ["FOLLOW_SERVICE_HOST", "FOLLOW_SERVICE_PORT", "FOLLOW_SERVICE_PORT_METRICS", "FOLLOW_PORT", "PORT_80_TCP_ADDR"],
)
def test_a_variable_of_kubernetes_is_no_setting(loader: Loader, name: str) -> None:
    """It sets some in each pod for each Service of its namespace, one named minutebook-follow, too."""
    assert loader.load("", {f"MINUTEBOOK_{name}": "tcp://10.0.0.1:80"}).bucket == "archive"
    assert loader.load("", {"MINUTEBOOK_METRICS_PORT": "9464"}).metrics_port == 9464


def test_the_variable_that_names_the_file_is_no_setting(loader: Loader) -> None:
    """MINUTEBOOK_PROPERTIES is left alone."""
    assert loader.load("", {"MINUTEBOOK_PROPERTIES": "x"}).bucket == "archive"


def test_all_errors_at_once(loader: Loader) -> None:
    """One run names every fault of the file."""
    with pytest.raises(SettingsError) as caught:
        loader.load_alone("minutebook.buckett=x\nminutebook.lingerSeconds=-1\nmaxRecords=20000\n")

    message = str(caught.value)
    assert "7 errors" in message
    for part in (
        "buckett",
        "lingerSeconds",
        "maxRecords",
        "streamName",
        "applicationName",
        "regionName",
        "minutebook.bucket",
    ):
        assert part in message


NO_SETTING = "is not a setting of KCL or Minutebook"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("minutebook.buckt=x", f"minutebook.buckt {NO_SETTING}: did you mean minutebook.bucket?"),
        ("streamname=x", f"streamname {NO_SETTING}: did you mean streamName?"),
        ("lingerSeconds=3", f"lingerSeconds {NO_SETTING}: did you mean minutebook.lingerSeconds?"),
        ("xyzzy=1", f"xyzzy {NO_SETTING}: remove it"),
        ("minutebook.lingerSeconds=601", "must be from 0 to 600 seconds, not 601 (default 5)"),
        ("minutebook.lingerSeconds=nan", "must be from 0 to 600 seconds, not nan (default 5)"),
        ("minutebook.lingerSeconds=", "must be a number of seconds from 0 to 600, not '' (default 5)"),
        ("minutebook.maxSegmentBytes=1e6", "must be a whole number of bytes from 1 to 1073741824, not '1e6'"),
        ("minutebook.adoptCheckpoint=yes", "must be true or false, not 'yes' (default false)"),
        ("minutebook.prefix=a/b", "minutebook.prefix must end in '/': write a/b/ (default empty)"),
        ("minutebook.prefix=/a/", "minutebook.prefix must be folders of letters"),
        ("minutebook.start=LATEST", "must be oldest, now or a time such as 2026-11-21T10:16:00Z, not 'LATEST'"),
        ("minutebook.start=2026-11-21T10:16:00", "must name its time zone: write 2026-11-21T10:16:00Z for UTC"),
        ("minutebook.start=2026-11-21", "must name its time zone: write 2026-11-21T00:00:00Z for UTC"),
        ("minutebook.logLevel=info ", "minutebook.logLevel ends in blanks, which KCL takes as part of the value"),
        ("minutebook.logLevel=info\nminutebook.logLevel=info", "minutebook.logLevel is given twice: keep one"),
        ("minutebook.maxSegmentAgeSeconds=100\nminutebook.lingerSeconds=50", "must exceed 60 s + minutebook.linger"),
        ("minutebook.maxSegmentAgeSeconds=100\nminutebook.flushSeconds=200", "must exceed minutebook.flushSeconds"),
        ("minutebook.maxUncommittedSeconds=65", "maxUncommittedSeconds must exceed 65 s: buffers are held so long"),
        (
            "minutebook.flushSeconds=20\nminutebook.maxUncommittedSeconds=20",
            "must exceed 20 s: buffers are held so long",
        ),
        ("minutebook.metricsHost=0.0.0.0", "minutebook.metricsHost has no effect without minutebook.metricsPort"),
        ("minutebook.metricsIntervalSeconds=5", "has no effect without minutebook.metrics"),
        ("minutebook.metrics=statsd", "minutebook.metrics must be one of emf, not 'statsd'"),
        ("idleTimeBetweenReadsInMillis=835000", "idleTimeBetweenReadsInMillis must be less than 835000"),
        (f"idleTimeBetweenReadsInMillis={'9' * 5000}", "idleTimeBetweenReadsInMillis must be"),
        (f"timeoutInSeconds={'9' * 5000}", "timeoutInSeconds must be"),
        ("timeoutInSeconds=300", "timeoutInSeconds must exceed minutebook.storeTimeoutSeconds by 60 s"),
        ("minutebook.dedupe=claims", "minutebook.eventId is missing: minutebook.dedupe=claims needs it"),
        (
            "minutebook.dedupe=watermark",
            "minutebook.producerSequence is missing: minutebook.dedupe=watermark needs it",
        ),
        ("minutebook.eventId=id", "minutebook.eventId has no effect without minutebook.dedupe"),
        ("streamArn=arn:aws:kinesis:eu-west-1:1:stream/other", "streamName and streamArn name two streams"),
        ("streamArn=arn:aws:s3:::x", "streamArn must be arn:aws:kinesis:"),
        ("kinesisClient.endpointOverride=http://127.0.0.1:1", "kinesisClient.endpointOverride is refused: nested"),
        ("workerId=caf\u00e9", "workerId: write characters beyond ASCII as"),
    ],
)
def test_one_wrong_line(loader: Loader, line: str, error: str) -> None:
    """Each wrong line is refused by one sentence that says what would be right."""
    errors = loader.errors(line + "\n")

    assert len(errors) == 1
    assert error in errors[0]


def test_jmespath_is_compiled(loader: Loader) -> None:
    """An expression that does not compile is refused when the file is read, not when the first record comes."""
    assert any("minutebook.eventId is not a JMESPath" in error for error in loader.errors("minutebook.eventId=a[\n"))


def test_stream_arn_stands_for_name_and_region(loader: Loader) -> None:
    """StreamArn alone gives the stream's name and region."""
    settings = loader.load_alone(
        "streamArn=arn:aws:kinesis:eu-north-1:123456789012:stream/flights\napplicationName=app\nminutebook.bucket=abc\n"
    )

    assert (settings.stream_name, settings.region) == ("flights", "eu-north-1")


def test_region_from_the_environment(loader: Loader) -> None:
    """Without regionName the usual AWS variables count."""
    text = "streamName=s\napplicationName=app\nminutebook.bucket=abc\n"

    assert loader.load_alone(text, {"AWS_DEFAULT_REGION": "ap-south-1"}).region == "ap-south-1"


def test_start_as_a_time(loader: Loader) -> None:
    """An ISO time becomes epoch milliseconds, whatever its zone."""
    assert loader.load("minutebook.start=2026-11-21T11:16:00.250+01:00\n").start == 1_795_256_160_250


def test_kcl_initial_timestamp_is_a_start(loader: Loader) -> None:
    """A file made for KCL alone keeps its meaning: epoch seconds."""
    assert loader.load("initialPositionInStreamExtended=1795256160\n").start == 1_795_256_160_000


@pytest.mark.parametrize("seconds", [0, 60, 300, 900, 3600])
def test_boundaries_divide_an_hour(loader: Loader, seconds: int) -> None:
    """So that each hour ends with one; 0 is none."""
    assert loader.load(f"minutebook.completeSlotSeconds={seconds}\n").complete_slot_seconds == seconds


@pytest.mark.parametrize("text", ["7", "90", "420", "7200", "-300", "5m", "300.0", ""])
def test_boundaries_that_do_not_divide_an_hour_are_refused(loader: Loader, text: str) -> None:
    """Neither are a part of a minute, or more than an hour."""
    with pytest.raises(SettingsError, match="completeSlotSeconds"):
        loader.load(f"minutebook.completeSlotSeconds={text}\n")


def test_a_missing_file_is_a_settings_error(tmp_path: Path) -> None:
    """A path that cannot be read ends with code 2 and names the path."""
    with pytest.raises(SettingsError, match=r"none\.properties: No such file"):
        load_settings(tmp_path / "none.properties", {})


@pytest.mark.parametrize("name", ["production.properties", "demo.properties"])
def test_shipped_files_load(name: str) -> None:
    """The files to start from are themselves without error."""
    assert load_settings(Path(__file__).parents[4] / "properties" / name, {}).bucket


def test_the_production_file_names_every_setting() -> None:
    """Each name of ours is in production.properties, set or commented with its default."""
    text = (Path(__file__).parents[4] / "properties" / "production.properties").read_text()

    assert [name for name in OUR_PROPERTIES if f"minutebook.{name} =" not in text] == []


def test_no_heavy_import() -> None:
    """A processor imports the settings: they must not bring the command line or AWS's clients with them."""
    code = "import sys, consumer.settings; print({'boto3', 'botocore', 'typer', 'rich'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "set()"


def test_variables_alone_are_enough() -> None:
    """For the consumer, whose daemon gets KCL's names too, and for the nightly job."""
    loaded = load_with_kcl(None, VARIABLES)
    job = load_job_settings(None, VARIABLES)

    assert (loaded.settings.stream_name, loaded.settings.linger_seconds, loaded.path) == ("flights", 7, None)
    assert dict(loaded.kcl) == {
        "streamName": "flights",
        "applicationName": "archive",
        "regionName": "eu-west-1",
        "workerId": "w1",
    }
    assert (job.stream_name, job.bucket, job.audit_command) == ("flights", "minutes", "minutebook audit")


def test_a_whole_file_as_text_and_a_variable_over_it() -> None:
    """The shipped file as a text, one line of it replaced."""
    environ = {"MINUTEBOOK_PROPERTIES_TEXT": production_properties(), "MINUTEBOOK_STREAM_NAME": "mine"}

    assert load_settings(None, environ).stream_name == "mine"
    assert load_settings(None, environ).bucket == "my-archive"
    assert load_job_settings(None, environ).prefix == "my-stream/"


def test_the_variables_are_named_after_the_settings() -> None:
    """By the rule by which those of minutebook.* are named, and each is a name of KCL's."""
    assert [environment_name(name) for name in KCL_VARIABLES.values()] == list(KCL_VARIABLES)
    assert set(KCL_VARIABLES.values()) <= KCL_PROPERTIES.keys()


def test_the_shipped_file_and_the_manual_name_the_variables() -> None:
    """Who reads either finds them."""
    manual = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
    names = [*KCL_VARIABLES, "MINUTEBOOK_PROPERTIES_TEXT"]

    assert [name for name in names if name not in production_properties() or name not in manual] == []


def test_an_empty_variable_is_refused_by_both_sides() -> None:
    """It would otherwise read the stream that the file happens to name."""
    environ = {**VARIABLES, "MINUTEBOOK_PROPERTIES_TEXT": "streamName = other\n", "MINUTEBOOK_STREAM_NAME": ""}
    for load in (load_settings, load_job_settings):
        with pytest.raises(SettingsError, match="MINUTEBOOK_STREAM_NAME is empty"):
            load(None, environ)


def test_a_misspelled_variable() -> None:
    """It is suggested like any other."""
    with pytest.raises(SettingsError, match="did you mean MINUTEBOOK_STREAM_NAME"):
        load_settings(None, {**VARIABLES, "MINUTEBOOK_STREAMNAME": "x"})


def test_a_stream_in_another_region() -> None:
    """ARN and regionName must agree, for both sides."""
    environ = {
        **VARIABLES,
        "MINUTEBOOK_STREAM_ARN": "arn:aws:kinesis:us-west-2:123456789012:stream/flights",
    }
    for load in (load_settings, load_job_settings):
        with pytest.raises(SettingsError, match="regionName=eu-west-1, and streamArn lies in us-west-2"):
            load(None, environ)


@pytest.mark.parametrize("region", ["Frankfurt", "eu_west_1", "US-EAST-1", "eu west 1"])
def test_what_cannot_be_a_region(region: str) -> None:
    """Found without asking anybody."""
    with pytest.raises(SettingsError, match="regionName must be a region such as us-east-1"):
        load_settings(None, {**VARIABLES, "MINUTEBOOK_REGION_NAME": region})
