"""Which streams a folder of properties files means, and what is refused before any stream is asked."""

from pathlib import Path

import pytest

from compaction.job.settings import load_job_settings
from consumer.settings.settings import load_with_kcl
from minutebook.errors import SettingsError
from minutebook.properties_file import PropertiesFile
from minutebook.properties_folder import PropertiesFolder, Remote, streams_of

ORDERS = "applicationName=archive-orders\nstreamName=orders\nminutebook.prefix=orders/\n"
CLICKS = "applicationName=archive-clicks\nstreamName=clicks-v2\nminutebook.prefix=clicks/\n"
SHARED = "regionName=eu-west-1\nminutebook.bucket=events\nminutebook.lingerSeconds=2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of two streams and what they share."""
    folder = tmp_path / "streams"
    folder.mkdir()
    for name, text in (("orders", ORDERS), ("clicks", CLICKS), ("shared", SHARED)):
        (folder / f"{name}.properties").write_text(text)
    return folder


def streams(folder: Path | str, environ: dict[str, str] | None = None) -> PropertiesFolder:
    """Return the streams."""
    found = streams_of(folder, environ or {})
    assert isinstance(found, PropertiesFolder)
    return found


def picked(folder: Path, name: str) -> PropertiesFile:
    """Return the one stream that is picked."""
    found = streams_of(folder, {}, name)
    assert isinstance(found, PropertiesFile)
    return found


def refusal(folder: Path | str, environ: dict[str, str] | None = None, pick: str | None = None) -> str:
    """Return the error."""
    with pytest.raises(SettingsError) as caught:
        streams_of(folder, environ or {}, pick)
    assert caught.value.next_step
    return str(caught.value)


def test_a_file_and_the_environment_are_as_they_were(folder: Path) -> None:
    """A file of a folder alone is one file: what the others share does not lie under it."""
    assert streams_of(folder / "orders.properties", {}) == folder / "orders.properties"
    assert streams_of(None, {}) is None
    assert streams_of(None, {"MINUTEBOOK_PROPERTIES": str(folder / "orders.properties")}) is None


def test_each_file_is_a_stream_by_its_stem(folder: Path) -> None:
    """In the order of names; what is hidden or no properties file is none; a link counts, as in a ConfigMap."""
    (folder / ".hidden.properties").write_text(ORDERS)
    (folder / "orders.avsc").write_text("{}")
    (folder / "old.properties").mkdir()
    (folder / "linked.properties").symlink_to(folder / ".hidden.properties")
    with pytest.raises(SettingsError, match=r"linked.properties and orders.properties name one applicationName"):
        streams(folder)
    (folder / "linked.properties").unlink()
    assert [each.name for each in streams(folder).streams] == ["clicks", "orders"]
    assert streams(f"{folder}/").streams[1].application == "archive-orders"


@pytest.mark.parametrize("line", ["tableName=leases", "coordinatorStateTableName=leases", "tableName=archive-clicks"])
def test_two_streams_of_one_table_of_kcl_are_refused(folder: Path, line: str) -> None:
    """Shards of two streams have the same ids: each would go on from the other's checkpoints."""
    with (folder / "shared.properties").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(SettingsError, match="name one table of KCL"):
        streams(folder)


def test_a_file_in_a_folder_that_may_not_be_entered_is_one(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Whoever reads it says what is wrong, without a stack."""

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    assert streams_of(folder / "orders.properties", {}) == folder / "orders.properties"


def test_the_environment_may_name_the_folder(folder: Path) -> None:
    """As it may name the file."""
    found = streams_of(None, {"MINUTEBOOK_PROPERTIES": str(folder)})
    assert isinstance(found, PropertiesFolder)
    assert found.name == str(folder)


def test_what_all_share_lies_under_each_file(folder: Path) -> None:
    """A file's own line wins; both sides read the same."""
    (folder / "orders.properties").write_text(f"{ORDERS}minutebook.lingerSeconds=9\n")
    orders, clicks = (picked(folder, name) for name in ("orders", "clicks"))
    assert load_job_settings(orders, {}).bucket == "events"
    assert [load_with_kcl(each, {}).settings.linger_seconds for each in (orders, clicks)] == [9, 2]


def test_a_stream_named_by_name_is_not_the_shared_one_of_an_arn(folder: Path) -> None:
    """Either replaces both, as the environment's variables do."""
    arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/shared"
    (folder / "shared.properties").write_text(f"{SHARED}streamArn={arn}\n")
    orders = picked(folder, "orders")
    assert "streamArn" not in orders.values
    assert load_with_kcl(orders, {}).settings.stream_name == load_job_settings(orders, {}).stream_name == "orders"


def test_what_is_wrong_in_the_shared_file_is_told_once(folder: Path) -> None:
    """All streams have it."""
    (folder / "shared.properties").write_text("regionName=a\nregionName=b\n")
    assert "regionName is given twice" in refusal(folder)


def test_a_file_that_cannot_be_used_is_a_stream_with_an_error(folder: Path) -> None:
    """The others are none the worse."""
    (folder / "broken.properties").write_bytes(b"\xff\xfes\x00")
    broken, clicks, orders = streams(folder).streams
    with pytest.raises(SettingsError, match=r"broken.properties is written in UTF-16"):
        broken.settings()
    assert clicks.settings().stem == "clicks"
    assert orders.settings().folder == str(folder)


def test_wrong_settings_name_the_file_and_what_lies_under_it(folder: Path) -> None:
    """The line may be in either."""
    (folder / "orders.properties").write_text(ORDERS.replace("orders/", "orders"))
    with pytest.raises(SettingsError, match=r"orders.properties \(with shared.properties\): 1 error"):
        load_job_settings(picked(folder, "orders"), {})


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("applicationName=archive-orders", "one applicationName: archive-orders"),
        ("minutebook.prefix=orders/", "one archive: s3://events/orders/"),
        ("minutebook.dedupe=claims\nminutebook.dedupeTable=ids", "one dedupe table: ids"),
    ],
)
def test_two_files_may_not_share_what_belongs_to_one_stream(folder: Path, line: str, what: str) -> None:
    """Both are named: two streams of one lease table, one archive or one table of claims damage each other."""
    (folder / "orders.properties").write_text(f"{ORDERS}minutebook.dedupe=claims\nminutebook.dedupeTable=ids\n")
    names = {part.partition("=")[0] for part in line.splitlines()}
    kept = [text for text in CLICKS.splitlines() if text.partition("=")[0] not in names]
    (folder / "clicks.properties").write_text("\n".join([*kept, line]) + "\n")
    told = refusal(folder)
    assert f"clicks.properties and orders.properties name {what}" in told
    assert refusal(folder, pick="orders") == told


@pytest.mark.parametrize("variable", ["MINUTEBOOK_PREFIX", "MINUTEBOOK_STREAM_NAME", "MINUTEBOOK_EVENT_ID"])
def test_a_variable_that_belongs_to_one_stream_is_refused(folder: Path, variable: str) -> None:
    """It would give all streams one archive; the region may be everybody's."""
    assert refusal(folder, {variable: "x/"}).startswith(f"{variable} would hold for every stream of ")
    assert len(streams(folder, {"MINUTEBOOK_REGION_NAME": "us-east-1"}).streams) == 2


def test_a_text_beside_a_folder_is_refused(folder: Path) -> None:
    """As beside a file."""
    assert "MINUTEBOOK_PROPERTIES_TEXT are both given" in refusal(folder, {"MINUTEBOOK_PROPERTIES_TEXT": ORDERS})


def test_an_empty_folder_is_a_mistake(tmp_path: Path) -> None:
    """So is one with the shared file alone: a night without a stream would look like a good one."""
    (tmp_path / "shared.properties").write_text(SHARED)
    assert refusal(tmp_path) == f"{tmp_path} holds no properties file of a stream"


def test_a_stream_is_picked_by_stem_or_by_name(folder: Path) -> None:
    """The stem wins."""
    assert picked(folder, "clicks").stem == picked(folder, "clicks-v2").stem == "clicks"
    (folder / "clicks-v2.properties").write_text("applicationName=other\nstreamName=x\nminutebook.prefix=x/\n")
    assert picked(folder, "clicks-v2").values["streamName"] == "x"


def test_a_pick_that_nobody_answers_to(folder: Path) -> None:
    """What it may have meant is said; a name that two files read is no answer; a file needs no pick."""
    assert refusal(folder, pick="order").endswith("holds no such stream; did you mean orders?")
    (folder / "copy.properties").write_text("applicationName=copy\nstreamName=orders-eu\nminutebook.prefix=c/\n")
    (folder / "more.properties").write_text("applicationName=more\nstreamName=orders-eu\nminutebook.prefix=d/\n")
    assert refusal(folder, pick="orders-eu") == "--stream orders-eu: copy and more read streams of that name"
    assert refusal(folder / "orders.properties", pick="orders") == "--stream needs a folder"


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a b"])
def test_an_application_is_no_path(folder: Path, name: str) -> None:
    """Its name is that of a folder below --out and --report."""
    (folder / "orders.properties").write_text(ORDERS.replace("archive-orders", name))
    with pytest.raises(SettingsError, match="may hold letters, digits"):
        streams(folder).streams[1].settings()


def test_places_of_a_stream_of_a_folder_are_below_its_application(folder: Path, tmp_path: Path) -> None:
    """And its commands name it; those of a single file are as they were."""
    orders = load_job_settings(picked(folder, "orders"), {})
    assert orders.output("s3://tables/night").prefix == "night/archive-orders/"
    assert (orders.output(str(tmp_path)).address.root, orders.output(str(tmp_path)).prefix) == (
        str(tmp_path),
        "archive-orders/",
    )
    assert orders.output(None).prefix == "orders/_parquet/"
    assert orders.audit_command == f"minutebook audit {folder} --stream orders"
    one = tmp_path / "one.properties"
    one.write_text(ORDERS + SHARED)
    assert load_job_settings(one, {}).output("s3://tables/night").prefix == "night/"
    assert load_job_settings(one, {}).audit_command == f"minutebook audit {one}"


def test_a_folder_on_s3_ends_in_a_slash() -> None:
    """It is listed once, not below its folders; a file that vanished meanwhile is its stream's error."""
    objects = {"orders.properties": ORDERS, "shared.properties": SHARED, "gone.properties": None}
    uri = "s3://code/streams/"

    def fetch(address: str, _: object) -> bytes | None:
        text = objects[address.removeprefix(uri)]
        return None if text is None else text.encode()

    found = streams_of(uri, {}, remote=Remote(fetch, lambda _, __: [f"{uri}{name}" for name in objects]))
    assert isinstance(found, PropertiesFolder)
    gone, orders = found.streams
    assert load_job_settings(orders.settings(), {}).bucket == "events"
    assert "was listed and is gone" in str(gone.error)
    assert streams_of("s3://code/orders.properties", {}) == "s3://code/orders.properties"
