"""botocore's descriptions of our services, for the server that forks commands: each would read the same 2 MB.

To import this is to have read them. What depends on an environment (credentials, settings) is left to each command.
"""

import functools
from typing import Any, Final

import botocore.session
from botocore.loaders import JSONFileLoader

_load: Final = JSONFileLoader.load_file


@functools.cache
def _read_once(path: str) -> Any:  # noqa: ANN401 - whatever stands in the file
    return _load(JSONFileLoader(), path)


JSONFileLoader.load_file = lambda _self, path: _read_once(path)  # type: ignore[method-assign]
_anybody: Final = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}
for _service in ("s3", "kinesis", "dynamodb"):
    botocore.session.Session().create_client(_service, endpoint_url="http://127.0.0.1:1", **_anybody)
