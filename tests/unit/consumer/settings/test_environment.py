"""Settings without a file, as in a container's task definition."""

from pathlib import Path

import pytest

from compaction.job.settings import load_job_settings
from consumer.settings.kcl_properties import KCL_PROPERTIES
from consumer.settings.settings import environment_name, load_settings, load_with_kcl
from consumer.settings.shipped import production_properties
from minutebook.errors import SettingsError
from minutebook.properties_file import KCL_VARIABLES

VARIABLES = {
    "MINUTEBOOK_STREAM_NAME": "flights",
    "MINUTEBOOK_APPLICATION_NAME": "archive",
    "MINUTEBOOK_REGION_NAME": "eu-west-1",
    "MINUTEBOOK_WORKER_ID": "w1",
    "MINUTEBOOK_BUCKET": "minutes",
    "MINUTEBOOK_LINGER_SECONDS": "7",
}


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
