"""Writes the same four question rows as parquet with other programs' writers, into the
folder of this script. The rows are our own. Needs: pip install pyarrow duckdb fastparquet
"""
import os

import duckdb
import fastparquet
import pandas
import pyarrow as pa
import pyarrow.parquet as pq

here = os.path.dirname(os.path.abspath(__file__))

# The second row has its answers where Search-R1's training files have them.
rows = [
    {"id": "test_0", "question": "Who keeps the tower of Ornath?", "golden_answers": ["Gervan", "Gervan the Old"], "data_source": "nq",
     "prompt": [{"content": "Answer: Who keeps the tower of Ornath?", "role": "user"}],
     "reward_model": {"ground_truth": {"target": ["Gervan", "Gervan the Old"]}, "style": "rule"}, "extra_info": {"index": 0, "split": "test"}},
    {"id": "test_1", "question": "Where does the Mirel end?", "golden_answers": [], "data_source": "popqa", "prompt": [],
     "reward_model": {"ground_truth": {"target": ["Såle Bay"]}, "style": "rule"}, "extra_info": {"index": 1, "split": "test"}},
    {"id": "test_2", "question": "Which harbour is older, Tarn or Vell?", "golden_answers": ["Tarn"], "data_source": "2wikimultihopqa",
     "prompt": None, "reward_model": None, "extra_info": None},
    {"id": None, "question": "How many gates has Ornath?", "golden_answers": ["7"], "data_source": "nq", "prompt": None,
     "reward_model": None, "extra_info": None},
]

table = pa.Table.from_pylist(rows)


def arrow(name, **options):
    pq.write_table(table, os.path.join(here, name + ".parquet"), **options)


arrow("pyarrow")  # the default: snappy, dictionaries
arrow("pyarrow-v2-zstd", data_page_version="2.0", compression="zstd", row_group_size=2)
arrow("pyarrow-plain", use_dictionary=False, compression="none", version="1.0")
arrow("pyarrow-gzip-old-lists", compression="gzip", use_compliant_nested_type=False)
arrow("pyarrow-delta", use_dictionary=False, compression="zstd", data_page_version="2.0",
      column_encoding={"question": "DELTA_BYTE_ARRAY", "id": "DELTA_LENGTH_BYTE_ARRAY"})
arrow("pyarrow-brotli", compression="brotli")
arrow("pyarrow-lz4", compression="lz4")
wide = table.set_column(table.schema.get_field_index("question"), "question", table["question"].cast(pa.large_string()))
pq.write_table(wide, os.path.join(here, "pyarrow-large.parquet"))

pandas.DataFrame(rows).to_parquet(os.path.join(here, "pandas.parquet"))

db = duckdb.connect()
db.register("rows", table)
for name, options in {"duckdb": "", "duckdb-zstd": ", COMPRESSION zstd", "duckdb-v2": ", PARQUET_VERSION v2"}.items():
    db.execute(f"COPY (SELECT * FROM rows) TO '{os.path.join(here, name)}.parquet' (FORMAT parquet{options})")

# fastparquet has no nested columns: answers as one text are no answers for us.
fastparquet.write(os.path.join(here, "fastparquet-flat.parquet"),
                  pandas.DataFrame([{k: r[k] for k in ("id", "question", "data_source")} for r in rows]))
