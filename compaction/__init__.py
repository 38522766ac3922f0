"""The nightly side: the audit that proves a day of the archive, and its rewrite to Parquet.

Imports `minutebook`, never `consumer`: the two sides share the format alone. `commands` reads settings and wires,
`night` runs a night, `spark_submit` is the script that platforms start.
"""

import os

# Arrow's own memory pools keep freed memory: 40 MiB a worker. Its Parquet writer uses the pool that this variable
# names when Arrow is loaded, whatever `pyarrow.set_memory_pool` says.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
