"""The nightly side: the audit that proves a day of the archive, and its rewrite to Parquet.

Imports `archive`, never `consumer`: the two sides agree on the format alone. Each room says who may import it.
`command` reads the settings and wires, `rewrite` tells the story of a night, `spark_submit` is what platforms start.
"""

import os

# Arrow's own pools keep what they were once given: 40 MiB of each worker. Its Parquet writer asks the pool that the
# environment names when Arrow is loaded, whatever `pyarrow.set_memory_pool` says.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
