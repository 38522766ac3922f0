"""Every mutation, by the rooms of the product that they break; the snippets are held true by a test beside."""

from typing import Final

from tests.mutations.catalogue.aggregates import AGGREGATES
from tests.mutations.catalogue.archive import ARCHIVE
from tests.mutations.catalogue.claim_batches import CLAIM_BATCHES
from tests.mutations.catalogue.claims import CLAIMS
from tests.mutations.catalogue.compression import COMPRESSION
from tests.mutations.catalogue.coverage import COVERAGE
from tests.mutations.catalogue.days import DAYS
from tests.mutations.catalogue.event_time import EVENT_TIME
from tests.mutations.catalogue.evidence import EVIDENCE
from tests.mutations.catalogue.forks import FORKS
from tests.mutations.catalogue.hours import HOURS
from tests.mutations.catalogue.native import NATIVE
from tests.mutations.catalogue.night_tasks import NIGHT_TASKS
from tests.mutations.catalogue.nightly import NIGHTLY
from tests.mutations.catalogue.once_clean import ONCE_CLEAN
from tests.mutations.catalogue.operators import OPERATORS
from tests.mutations.catalogue.pipe import PIPE
from tests.mutations.catalogue.platforms import PLATFORMS
from tests.mutations.catalogue.processor import PROCESSOR
from tests.mutations.catalogue.publishing import PUBLISHING
from tests.mutations.catalogue.reading import READING
from tests.mutations.catalogue.scopes import SCOPES
from tests.mutations.catalogue.settings import SETTINGS
from tests.mutations.catalogue.shards import SHARDS
from tests.mutations.catalogue.supervision import SUPERVISION
from tests.mutations.catalogue.tables import TABLES
from tests.mutations.catalogue.typed import TYPED
from tests.mutations.catalogue.watching import WATCHING
from tests.mutations.catalogue.watermarks import WATERMARKS

MUTATIONS: Final = (
    *ARCHIVE,
    *COMPRESSION,
    *PIPE,
    *PROCESSOR,
    *SETTINGS,
    *SHARDS,
    *EVIDENCE,
    *AGGREGATES,
    *COVERAGE,
    *CLAIMS,
    *CLAIM_BATCHES,
    *WATERMARKS,
    *OPERATORS,
    *NATIVE,
    *NIGHTLY,
    *NIGHT_TASKS,
    *PUBLISHING,
    *DAYS,
    *HOURS,
    *READING,
    *PLATFORMS,
    *SUPERVISION,
    *WATCHING,
    *FORKS,
    *SCOPES,
    *ONCE_CLEAN,
    *TYPED,
    *TABLES,
    *EVENT_TIME,
)
