"""Every row, three ways: what the simulation wrote, what SQL answers, what pylance reads."""
import csv
import hashlib
import json
import os
import sys

import lance
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq


def main():
    work = sys.argv[1]
    rollouts = os.path.join(work, "rollouts")
    tables = os.path.join(work, "data", "tables", "robots")

    written = pq.read_table(os.path.join(rollouts, "frames.parquet"))
    with pa.ipc.open_stream(os.path.join(work, "frames.arrow")) as reader:
        queried = reader.read_all()
    frames = lance.dataset(os.path.join(tables, "frames.lance"))
    read = frames.to_table()
    assert written.num_rows == 5000, written.num_rows
    for name in written.column_names:
        expected = written[name].to_pylist()
        assert read[name].to_pylist() == expected, f"pylance reads other values of {name}"
        assert queried[name].to_pylist() == expected, f"SQL answers other values of {name}"
    assert read.schema.field("state").type == pa.list_(pa.float32(), 25), read.schema
    assert frames.version == 2, frames.version

    with open(os.path.join(rollouts, "episodes.csv"), newline="") as listing:
        listed = list(csv.reader(listing))
    with open(os.path.join(work, "episodes.json")) as answer:
        answered = json.load(answer)
    episodes = lance.dataset(os.path.join(tables, "episodes.lance"))
    rows = episodes.to_table().sort_by("episode").to_pylist()
    assert len(rows) == len(listed) == len(answered) == 10, (len(rows), len(listed), len(answered))
    assert rows == answered, "SQL and pylance disagree about the episodes"
    for row, line in zip(rows, listed):
        number, task, steps, success, video, cloud = line
        assert (row["episode"], row["task"], row["steps"]) == (int(number), task, int(steps))
        assert row["success"] == (success == "true")
        for location, path in ((row["video"], video), (row["cloud"], cloud)):
            if not path:
                assert location is None
                continue
            with open(os.path.join(rollouts, path), "rb") as source:
                data = source.read()
            assert location["size_bytes"] == len(data)
            assert location["sha256"] == hashlib.sha256(data).hexdigest()
    field = episodes.schema.field("video")
    assert field.metadata[b"ARROW:extension:name"] == b"lake.file", field.metadata
    print(f"compared all {read.num_rows} frames and {len(rows)} episodes with pylance")


main()
