"""Edits of a segment that leave its lines and its metadata in agreement: only a first digest shows them."""

from tests.corpus.model import Stored


def edit_payload(stored: Stored) -> None:
    """Change one payload, and nothing that the metadata counts."""
    first = stored.records[1]
    assert isinstance(first.data, str | bytes)
    stored.records[1] = type(first)(
        first.sequence_number, first.sub_sequence_number, first.partition_key, first.arrival_ms, first.data[::-1]
    )
    stored.pack()


def remove_line(stored: Stored) -> None:
    """Remove a line in the middle, and count one less."""
    del stored.records[2]
    stored.pack()
    sizes = [len(r.data if isinstance(r.data, bytes) else r.data.encode()) for r in stored.records]
    stored.fields |= {"records": str(len(sizes)), "payload-bytes": str(sum(sizes))}


def edit_metadata(stored: Stored) -> None:
    """Change a field that no rule compares."""
    stored.fields["note"] = "edited"


EDITS = [edit_payload, remove_line, edit_metadata]
