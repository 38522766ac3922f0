"""Whole answers of servers that stand for S3, and bodies as botocore reads them."""

from http.server import BaseHTTPRequestHandler


def answer(
    handler: BaseHTTPRequestHandler, status: int, body: str | bytes = b"", headers: dict[str, str] | None = None
) -> None:
    """Write an answer with its length; to HEAD the headers alone. Handlers take it as a method."""
    data = body.encode() if isinstance(body, str) else body
    handler.send_response(status)
    for name, text in (headers or {}).items():
        handler.send_header(name, text)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(data)


class Body:
    """What urllib3 would give botocore to read."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> list[bytes]:
        """Return all of it as one piece."""
        return [self._content]

    def read(self, _amount: int | None = None) -> bytes:
        """Return what is left."""
        content, self._content = self._content, b""
        return content

    def close(self) -> None:
        """Hold nothing."""
