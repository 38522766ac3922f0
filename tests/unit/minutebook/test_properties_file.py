"""Where settings come from: a file, a text in the environment, variables; and files that are none."""

from pathlib import Path

import pytest

from minutebook.errors import SettingsError
from minutebook.properties_file import read_settings

LINES = "streamName = s\napplicationName = a\n"


def refusal(path: Path | None, environ: dict[str, str] | None = None) -> str:
    """Return the one line of the error."""
    with pytest.raises(SettingsError) as caught:
        read_settings(path, environ or {})
    assert caught.value.next_step
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (LINES.encode("utf-8-sig"), "is written with a byte order mark"),
        (LINES.encode("utf-16"), "is written in UTF-16"),
        (LINES.encode("utf-16-be"), "is written in UTF-16, or is no text"),
        (LINES.encode("utf-16-le"), "is written in UTF-16, or is no text"),
        (b"", "is empty"),
        (b" \n\n", "is empty"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, body: bytes, sentence: str) -> None:
    """What an editor or a shell made of it is said in one line, not once for each of its lines."""
    path = tmp_path / "my.properties"
    path.write_bytes(body)

    assert refusal(path) == f"{path} {sentence}"


def test_a_folder_and_nothing(tmp_path: Path) -> None:
    """The system's own word, and how to make a file."""
    assert refusal(tmp_path) == f"{tmp_path}: Is a directory"
    with pytest.raises(SettingsError) as caught:
        read_settings(tmp_path, {})
    assert caught.value.next_step.startswith("name one of its files: this command takes one stream")
    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"


def test_no_settings_at_all() -> None:
    """Without a file the ways to give one are named."""
    assert refusal(None).startswith("no settings: name FILE.properties, or set MINUTEBOOK_PROPERTIES_TEXT")


def test_a_text_instead_of_a_file() -> None:
    """The variable holds a whole file, and errors name it."""
    found = read_settings(None, {"MINUTEBOOK_PROPERTIES_TEXT": LINES})

    assert (dict(found.values), found.source, found.path) == (
        {"streamName": "s", "applicationName": "a"},
        "MINUTEBOOK_PROPERTIES_TEXT",
        None,
    )


def test_two_sources_are_refused(tmp_path: Path) -> None:
    """An image that names a file by default must not hide the text that somebody set."""
    path = tmp_path / "my.properties"
    path.write_text(LINES)

    assert refusal(path, {"MINUTEBOOK_PROPERTIES_TEXT": LINES}) == (
        f"{path} and MINUTEBOOK_PROPERTIES_TEXT are both given"
    )


def test_the_variable_that_names_a_file(tmp_path: Path) -> None:
    """It counts where no file is named."""
    path, other = tmp_path / "my.properties", tmp_path / "other.properties"
    path.write_text(LINES)
    other.write_text("streamName = other\n")

    assert read_settings(None, {"MINUTEBOOK_PROPERTIES": str(path)}).path == path
    assert read_settings(other, {"MINUTEBOOK_PROPERTIES": str(path)}).path == other


def test_variables_alone() -> None:
    """What to read, where no file is."""
    found = read_settings(None, {"MINUTEBOOK_STREAM_NAME": "s", "MINUTEBOOK_WORKER_ID": "w"})

    assert (dict(found.values), found.source) == ({"streamName": "s", "workerId": "w"}, "the environment")


ARN = "arn:aws:kinesis:eu-west-1:1:stream/t"


@pytest.mark.parametrize(
    ("line", "variables", "expected"),
    [
        ("streamName=s", {"MINUTEBOOK_STREAM_NAME": "t"}, {"streamName": "t"}),
        ("streamName=s", {"MINUTEBOOK_STREAM_ARN": ARN}, {"streamArn": ARN}),
        (f"streamArn={ARN}", {"MINUTEBOOK_STREAM_NAME": "u"}, {"streamName": "u"}),
        (
            "streamName=s",
            {"MINUTEBOOK_STREAM_ARN": ARN, "MINUTEBOOK_STREAM_NAME": "t"},
            {"streamArn": ARN, "streamName": "t"},
        ),
        ("regionName=eu-west-1", {"MINUTEBOOK_REGION_NAME": "eu-west-2"}, {"regionName": "eu-west-2"}),
        ("applicationName=a", {"MINUTEBOOK_APPLICATION_NAME": "b"}, {"applicationName": "b"}),
    ],
)
def test_the_environment_wins(tmp_path: Path, line: str, variables: dict[str, str], expected: dict[str, str]) -> None:
    """Over the line of the file; and a stream is named once, by its name or its ARN."""
    path = tmp_path / "my.properties"
    path.write_text(line)
    found = read_settings(path, variables)

    assert (dict(found.values), found.override_errors) == (expected, ())


@pytest.mark.parametrize("text", ["", " s", "s\n", "caf\u00e9"])
def test_a_wrong_variable_is_named(tmp_path: Path, text: str) -> None:
    """A template that was filled with nothing must not fall back to the file's stream in silence."""
    path = tmp_path / "my.properties"
    path.write_text(LINES)
    (error,) = read_settings(path, {"MINUTEBOOK_STREAM_NAME": text}).override_errors

    assert error.startswith("environment variable MINUTEBOOK_STREAM_NAME ")
