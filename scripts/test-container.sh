#!/usr/bin/env bash
# Runs what needs Docker: the contract's and the session's tests on a ZooKeeper in a container; the images, the compose file
# and docs/containers.md. Expects a Docker daemon.
#
#   scripts/test-container.sh [FILE...]      the files of tests, if not all
#
# $ZKCONTROLLER_ZOOKEEPER_IMAGE, $ZKCONTROLLER_PROMETHEUS_IMAGE and $PYTHON_IMAGE (the base of the project's own images) name
# images. The defaults are built here, out of Debian's packages. Any other name (zookeeper:3.9, the official image, for one)
# is left to Docker, which fetches it from its registry. What has not changed comes from Docker's cache.
set -euo pipefail

[ $# -gt 0 ] ||
    set -- tests/contract tests/integration/test_zookeeper_session.py tests/integration/test_zookeeper_servers.py tests/container

readonly LOCAL_BASE=python-local:3.11 LOCAL_ZOOKEEPER=zookeeper-local:3.9 LOCAL_PROMETHEUS=prometheus-local:2.42
export PYTHON_IMAGE=${PYTHON_IMAGE:-$LOCAL_BASE}
export ZKCONTROLLER_ZOOKEEPER_IMAGE=${ZKCONTROLLER_ZOOKEEPER_IMAGE:-$LOCAL_ZOOKEEPER}
export ZKCONTROLLER_PROMETHEUS_IMAGE=${ZKCONTROLLER_PROMETHEUS_IMAGE:-$LOCAL_PROMETHEUS}
# Ryuk, Testcontainers' janitor, is an image of its own to be fetched; the tests stop what they start.
export TESTCONTAINERS_RYUK_DISABLED=true

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
builds=()
# Beside the others: each of them waits mostly for the network.
build() {
    local name=$1
    shift
    "$@" >"$logs/$name" 2>&1 &
    builds+=("$!:$name")
}

if [ "$PYTHON_IMAGE" = $LOCAL_BASE ] || [ "$ZKCONTROLLER_ZOOKEEPER_IMAGE" = $LOCAL_ZOOKEEPER ]; then
    docker image inspect $LOCAL_BASE >/dev/null 2>&1 || scripts/build-base-image.sh $LOCAL_BASE
fi
[ "$ZKCONTROLLER_ZOOKEEPER_IMAGE" != $LOCAL_ZOOKEEPER ] || build zookeeper scripts/build-zookeeper-image.sh $LOCAL_ZOOKEEPER
# The other files need no image but ZooKeeper's.
if [[ " $* " = *" tests/container"* ]]; then
    [ "$ZKCONTROLLER_PROMETHEUS_IMAGE" != $LOCAL_PROMETHEUS ] || build prometheus scripts/build-prometheus-image.sh $LOCAL_PROMETHEUS
    for image in zkcontroller zkcontroller-spark; do
        file=compose/Dockerfile
        [ $image = zkcontroller ] || file=compose/spark.Dockerfile
        # The network of the host: a daemon without firewall rules leads containers nowhere. No argument without a value: Docker
        # would not find again in its cache what was built without that argument.
        build $image docker build --network host --build-arg PYTHON_IMAGE="$PYTHON_IMAGE" \
            ${PIP_INDEX_URL:+--build-arg PIP_INDEX_URL} ${PIP_EXTRA_INDEX_URL:+--build-arg PIP_EXTRA_INDEX_URL} \
            ${PIP_TRUSTED_HOST:+--build-arg PIP_TRUSTED_HOST} -f $file -t $image .
    done
fi
for each in "${builds[@]}"; do
    wait "${each%%:*}" || { tail -n 30 "$logs/${each#*:}"; echo "the image ${each#*:} was not built (see above)" >&2; exit 1; }
done
docker image ls --format '{{.Repository}}:{{.Tag}} {{.Size}}' | grep -E 'zkcontroller|-local' || true

export ZKCONTROLLER_TEST_ZOOKEEPER=container
.venv/bin/pytest -q -m "container or integration" --durations=5 "$@"
