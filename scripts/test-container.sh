#!/usr/bin/env bash
# Runs the contract's and the session's tests on a ZooKeeper in Docker; expects a Docker daemon.
#
#   scripts/test-container.sh [FILE...]      the files of tests, if not all
#
# $ZKCONTROLLER_ZOOKEEPER_IMAGE names the image.
# zookeeper-local:3.9, the default, is built when it is missing. Any other name (zookeeper:3.9, the official image, for
# one) is left to Docker, which fetches it from its registry.
set -euo pipefail

readonly LOCAL_IMAGE=zookeeper-local:3.9
export ZKCONTROLLER_ZOOKEEPER_IMAGE=${ZKCONTROLLER_ZOOKEEPER_IMAGE:-$LOCAL_IMAGE}
# Ryuk, Testcontainers' janitor, is an image of its own to be fetched; the tests stop what they start.
export TESTCONTAINERS_RYUK_DISABLED=true

if [ "$ZKCONTROLLER_ZOOKEEPER_IMAGE" = "$LOCAL_IMAGE" ] && ! docker image inspect "$LOCAL_IMAGE" >/dev/null 2>&1; then
    scripts/build-zookeeper-image.sh "$LOCAL_IMAGE"
fi
export ZKCONTROLLER_TEST_ZOOKEEPER=container
[ $# -gt 0 ] || set -- tests/contract tests/integration/test_zookeeper_session.py tests/integration/test_zookeeper_servers.py
.venv/bin/pytest -q -m "container or integration" "$@"
