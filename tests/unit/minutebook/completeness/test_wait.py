"""`minutebook wait`: what it answers, and how it says it."""

import io
from pathlib import Path

import msgspec
import pytest

from minutebook.completeness.command import Waited, judged_time, run_wait, tell
from minutebook.completeness.options import WaitOptions
from minutebook.completeness.publisher import HoldReport
from minutebook.completeness.query import Answer, Completeness, JudgedTime
from minutebook.errors import SettingsError
from minutebook.format.boundaries import NamedGap
from minutebook.format.minute import MINUTE_MS, iso_time
from tests.fakes.boundary_scene import S1, T0

GAP = NamedGap.of(S1, T0 + 5 * MINUTE_MS, T0 + 6 * MINUTE_MS, ["skipped"])
KNOWN = Completeness(T0, T0 + 10 * MINUTE_MS, (GAP,))


@pytest.mark.parametrize(
    ("begin", "until", "accepts", "answer"),
    [
        (None, 5, False, Answer.COMPLETE),
        (None, 10, False, Answer.GAPS),
        (None, 10, True, Answer.COMPLETE),
        (None, 11, True, Answer.NOT_YET),
        (None, 11, False, Answer.GAPS),
        (6, 10, False, Answer.COMPLETE),
        (6, 11, False, Answer.NOT_YET),
        (-1, 5, False, Answer.GAPS),
        (-1, 5, True, Answer.GAPS),
        (None, 0, False, Answer.GAPS),
        (None, -30, True, Answer.GAPS),
    ],
)
def test_the_answer(begin: int | None, until: int, *, accepts: bool, answer: Answer) -> None:
    """A gap is said at once, because waiting does not heal it; nothing is said of what lies before all boundaries."""
    from_ms = None if begin is None else T0 + begin * MINUTE_MS

    assert judged_time(KNOWN, from_ms, T0 + until * MINUTE_MS, accept_gaps=accepts).answer is answer


def test_without_a_boundary_it_is_not_yet() -> None:
    """No worker has published one."""
    assert judged_time(None, None, T0, accept_gaps=False).answer is Answer.NOT_YET


def said(waited: Waited, *, as_json: bool = False) -> tuple[str, str]:
    """Return what is printed on stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    tell(waited, None, T0 + 10 * MINUTE_MS, "my.properties", as_json=as_json, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_a_gap_is_told_with_the_command_that_may_heal_it() -> None:
    """Shard, times, reason, next step."""
    out, err = said(Waited(4, JudgedTime(Answer.GAPS, (GAP,)), KNOWN))

    assert out.startswith("gaps: what arrived since 2026-11-21T10:15:00.000Z")
    assert f"gap: {S1} from 2026-11-21T10:20:00.000Z to 2026-11-21T10:21:00.000Z: skipped" in err
    assert "minutebook audit my.properties --date DAY --level stream" in err


def test_what_holds_it_is_told() -> None:
    """With how far the shard reached."""
    hold = HoldReport(shard=S1, reached=iso_time(T0), why="no row reaches further yet")
    out, err = said(Waited(7, JudgedTime(Answer.NOT_YET), KNOWN._replace(gaps=()), (hold,)))

    assert out.startswith("not yet")
    assert f"held by {S1}, reached 2026-11-21T10:15:00.000Z: no row reaches further yet" in err


def test_a_name_with_a_terminal_escape_is_shown_harmless() -> None:
    """Who writes below the prefix does not write on the operator's terminal."""
    hold = HoldReport(shard="\x1b[2J", reached=iso_time(T0), why="\x1b]0;x\x07")
    _, err = said(Waited(7, JudgedTime(Answer.NOT_YET), None, (hold,)))

    assert "\x1b" not in err


def test_the_answer_as_json() -> None:
    """One object on stdout, nothing on stderr."""
    out, err = said(Waited(5, JudgedTime(Answer.NOT_YET), None), as_json=True)

    report = msgspec.json.decode(out)
    assert (report["state"], report["complete_until"], err) == ("nobody publishes", None, "")
    assert "minutebook status" in report["next_step"]


def test_a_gap_whose_time_holds_an_escape_is_shown_harmless() -> None:
    """ISO 8601 in Python takes any character between date and time."""
    gap = NamedGap(shard=S1, begin="2026-11-21\x1b10:20:00Z", until="2026-11-21\x9b10:21:00Z", reasons=())
    _, err = said(Waited(4, JudgedTime(Answer.GAPS, (gap,)), KNOWN))

    assert not {"\x1b", "\x9b"} & {*err}


def test_a_time_outside_of_the_calendar_is_refused_before_waiting() -> None:
    """Another zone may bring it there."""
    with pytest.raises(SettingsError, match="outside the years"):
        run_wait(WaitOptions("9999-12-31T23:59:59-14:00"), {})


@pytest.mark.parametrize("text", ["7", "7200", "5m", "-300"])
def test_a_distance_that_no_worker_takes_is_refused(tmp_path: Path, text: str) -> None:
    """The consumer refuses it too: nobody publishes boundaries under such a file."""
    file = tmp_path / "a.properties"
    names = "streamName=orders\napplicationName=app\nregionName=eu-west-1\nminutebook.bucket=archive\n"
    file.write_text(f"{names}minutebook.completeSlotSeconds={text}\n")
    with pytest.raises(SettingsError, match="completeSlotSeconds must be 0, or whole minutes"):
        run_wait(WaitOptions("2026-11-21T10:00:00Z", file=file), {})
