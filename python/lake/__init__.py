"""Lake, a lakehouse for robot data: SQL to Arrow, and large files that arrive whole.

    import lake

    with lake.connect("127.0.0.1:8815") as client:
        client.create_table("robots.runs", ["id:int64!", "grip:float[3]", "video:FILE"])
        client.insert("INSERT INTO robots.runs (id, grip, video) VALUES (?, ?, ?)",
                      [1, [0.1, 0.2, 0.3], lake.Upload("run1.mp4")])
        [video] = client.query("SELECT video FROM robots.runs WHERE id = 1").files()
        frames = av.open(client.open(video)).decode(video=0)
"""

from ._arrow import Result, Schema, file_at, file_field
from ._client import Client, TableInfo, connect, connect_query_only
from ._errors import (
    Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, Error, FailedPrecondition,
    Internal, InvalidArgument, NotFound, OutcomeUnknown, OutOfRange, PermissionDenied,
    ResourceExhausted, Unauthenticated, Unavailable, Unimplemented, Unknown)
from ._io import ObjectReader
from ._library import VERSION as __version__
from ._types import File, Inserted, Presigned, Progress, Upload

__all__ = [
    "Aborted", "AlreadyExists", "Cancelled", "Client", "DataLoss", "DeadlineExceeded", "Error",
    "FailedPrecondition", "File", "Inserted", "Internal", "InvalidArgument", "NotFound",
    "ObjectReader", "OutOfRange", "OutcomeUnknown", "PermissionDenied", "Presigned", "Progress",
    "ResourceExhausted", "Result", "Schema", "TableInfo", "Unauthenticated", "Unavailable",
    "Unimplemented", "Unknown", "Upload", "__version__", "connect", "connect_query_only", "file_at",
    "file_field",
]
