"""Copies a GGUF file with all matrices in another type: requantize.py IN OUT F32|BF16|Q8_0 (pip install gguf)."""

import sys

import gguf
from gguf import GGMLQuantizationType as Type

reader = gguf.GGUFReader(sys.argv[1])
kind = Type[sys.argv[3]]
writer = gguf.GGUFWriter(sys.argv[2], reader.fields["general.architecture"].contents())
for name, field in reader.fields.items():
    if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
        continue
    writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
for t in reader.tensors:
    values = gguf.quants.dequantize(t.data, t.tensor_type)
    want = kind if values.ndim > 1 else Type.F32
    writer.add_tensor(t.name, gguf.quants.quantize(values, want), raw_dtype=want)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
