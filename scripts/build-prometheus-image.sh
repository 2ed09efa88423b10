#!/usr/bin/env bash
# Builds the Docker image prometheus-local:2.42 without asking any image registry: Debian's package prometheus on
# python-local:3.11 (scripts/build-base-image.sh, which is run where that image is missing).
#
#   scripts/build-prometheus-image.sh [IMAGE]      IMAGE defaults to prometheus-local:2.42
#
# The image behaves as the official one where compose/compose.yaml looks: configuration in /etc/prometheus, data in
# /prometheus, port 9090, wget for the health check.
set -euo pipefail

readonly IMAGE=${1:-prometheus-local:2.42}
readonly BASE=python-local:3.11
docker image inspect "$BASE" >/dev/null 2>&1 || "$(dirname "$0")/build-base-image.sh" "$BASE"

# The network of the host: a daemon without firewall rules leads containers nowhere.
docker build -q --network host -t "$IMAGE" - >/dev/null <<DOCKERFILE
FROM $BASE
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus wget \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir /prometheus && chown prometheus /prometheus
USER prometheus
EXPOSE 9090
VOLUME ["/prometheus"]
ENTRYPOINT ["prometheus", "--storage.tsdb.path=/prometheus", "--config.file=/etc/prometheus/prometheus.yml"]
DOCKERFILE
docker image inspect --format '{{.RepoTags}} {{.Size}} bytes' "$IMAGE"
