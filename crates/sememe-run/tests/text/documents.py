"""The files beside this script, as pyarrow and json write them: 100 rows "row i", some with an accent (needs pyarrow 26)."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
TEXTS = [f"row {i}" + (" é" if i % 7 == 0 else "") for i in range(100)]


def lines(texts):
    return "".join(json.dumps({"id": i, "meta": {"text": "no"}, "text": t}, ensure_ascii=i % 2 == 0) + "\n" for i, t in enumerate(texts))


(HERE / "lines.jsonl").write_text(lines(TEXTS), encoding="utf-8")
with gzip.GzipFile(HERE / "lines.jsonl.gz", "wb", mtime=0) as file:
    file.write(lines(TEXTS).encode())

table = pa.table({"id": pa.array(range(100)), "text": pa.array(TEXTS)})
small = dict(row_group_size=30, data_page_size=128, write_statistics=False)
pq.write_table(table, HERE / "plain.parquet", compression="none", use_dictionary=False, **small)
pq.write_table(table, HERE / "snappy.parquet", compression="snappy", data_page_version="2.0", **small)
pq.write_table(table, HERE / "zstd.parquet", compression="zstd", **small)
pq.write_table(table, HERE / "gzip.parquet", compression="gzip", use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}, **small)
required = pa.schema([pa.field("text", pa.large_string(), nullable=False)])
pq.write_table(pa.table({"text": TEXTS}, schema=required), HERE / "required.parquet", **small)

few = TEXTS[:3]
pq.write_table(pa.table({"text": few}), HERE / "brotli.parquet", compression="brotli")
pq.write_table(pa.table({"text": ["a", None, "b"], "id": [1, 2, 3], "tags": [["x"], [], ["y"]]}), HERE / "awkward.parquet")
pq.write_table(pa.table({"text": pa.array([b"a", b"\xff"])}), HERE / "bytes.parquet")
pq.write_table(pa.table({"meta": [{"text": t} for t in few]}), HERE / "nested.parquet")
