"""The events of both kinds of histories, by the names that scenarios give them."""

from collections.abc import Callable
from typing import Any, Final

from tests.simulation.histories.events import clocks, consumers, services, sharded


def _named(*events: Callable[[Any], None]) -> dict[str, Callable[[Any], None]]:
    return {event.__name__.replace("_", " "): event for event in events}


EVENTS: Final = _named(*services.EVENTS, *clocks.EVENTS, *consumers.EVENTS)
SHARDED_EVENTS: Final = EVENTS | _named(*sharded.EVENTS)
