#!/usr/bin/env bash
# Renews the lists of exact versions and their hashes: what images and CI install. `make lock` runs it.
#
# setup.cfg has the ranges, with reasons. uv works out one choice for every platform and Python from 3.11 on.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=.venv/lock-tools
[ -x "$tools/bin/uv" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install -qq --disable-pip-version-check uv; }

# The list of one image: its file, then the extras it needs. setuptools builds the project itself.
lock() {
    local file=$1
    shift
    {
        echo "# Made by scripts/lock.sh out of setup.cfg; renew it with: make lock"
        "$tools/bin/uv" pip compile -q --generate-hashes --universal --python-version 3.11 --no-header --no-annotate \
            "$@" setup.cfg - <<<'setuptools>=70.1'
    } >"$file.new"
    mv "$file.new" "$file"
    echo "$file: $(grep -c '==' "$file") packages"
}

lock requirements.lock
lock requirements-zookeeper.lock --extra zookeeper
lock requirements-spark.lock --extra history
lock requirements-dev.lock --extra history --extra dev
lock requirements-docs.lock --extra docs
