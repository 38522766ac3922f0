"""Every mutation, by the promise that it breaks; a test beside holds them true to the code."""

from typing import Final

from tests.mutations.catalogue.altered import ALTERED
from tests.mutations.catalogue.boundaries import BOUNDARIES
from tests.mutations.catalogue.claims import CLAIMS
from tests.mutations.catalogue.commit import COMMIT
from tests.mutations.catalogue.cuts import CUTS
from tests.mutations.catalogue.evidence import EVIDENCE
from tests.mutations.catalogue.following import FOLLOWING
from tests.mutations.catalogue.liveness import LIVENESS
from tests.mutations.catalogue.lives import LIVES
from tests.mutations.catalogue.operators import OPERATORS
from tests.mutations.catalogue.publishing import PUBLISHING
from tests.mutations.catalogue.reading import READING
from tests.mutations.catalogue.shards import SHARDS
from tests.mutations.catalogue.verdicts import VERDICTS
from tests.mutations.catalogue.watermarks import WATERMARKS

MUTATIONS: Final = (
    *COMMIT,
    *SHARDS,
    *CLAIMS,
    *WATERMARKS,
    *EVIDENCE,
    *VERDICTS,
    *OPERATORS,
    *PUBLISHING,
    *LIVENESS,
    *ALTERED,
    *CUTS,
    *LIVES,
    *READING,
    *FOLLOWING,
    *BOUNDARIES,
)
