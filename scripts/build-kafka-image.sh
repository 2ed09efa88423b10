#!/usr/bin/env bash
# Builds the Docker image kafka-local:3.9.1, real Kafka as the Kafka module of Testcontainers wants it, without asking any
# image registry.
#
#   scripts/build-kafka-image.sh [IMAGE]      IMAGE defaults to kafka-local:3.9.1
#
# The module needs an image that behaves as confluentinc/cp-kafka: it writes a script that sources bash-config and runs
# configure (KAFKA_* variables become kafka.properties) and launch, and zookeeper-server-start before them. Kafka's jars come
# from Maven Central (scripts/fetch-kafka.sh), the JVM from zookeeper-local:3.9 (scripts/build-zookeeper-image.sh). Heap and
# collector are those of Kafka's own kafka-server-start.sh.
#
# Needs: a Docker daemon (scripts/with-dockerd.sh runs a command under one), Maven, the project installed in .venv.
set -euo pipefail

readonly IMAGE=${1:-kafka-local:3.9.1}
readonly BASE=zookeeper-local:3.9
here=$(dirname "$0")

"$here/fetch-kafka.sh" >&2
readonly LIBS=${KAFKA_LIBS:-$HOME/.cache/zkcontroller/kafka-3.9.1/libs}
docker image inspect "$BASE" >/dev/null 2>&1 || "$here/build-zookeeper-image.sh" "$BASE"

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/libs" "$context/docker"
cp "$LIBS"/*.jar "$context/libs/"
touch "$context/docker/bash-config"

cat >"$context/docker/configure" <<'CONFIGURE'
#!/bin/sh
set -eu
env | sed -n 's/^KAFKA_//p' | while IFS='=' read -r key value; do
    echo "$(echo "$key" | tr 'A-Z_' 'a-z.')=$value"
done >/etc/kafka/kafka.properties
grep -q '^log.dirs=' /etc/kafka/kafka.properties || echo log.dirs=/var/lib/kafka/data >>/etc/kafka/kafka.properties
CONFIGURE

cat >"$context/docker/launch" <<'LAUNCH'
#!/bin/sh
exec java -Xmx1G -Xms1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 \
    -Dlog4j.configuration=file:/etc/kafka/log4j.properties -cp '/opt/kafka/libs/*' kafka.Kafka /etc/kafka/kafka.properties
LAUNCH

cat >"$context/zookeeper-server-start" <<'START'
#!/bin/sh
exec java -Xmx512M -Xms512M -Dlog4j.configuration=file:/etc/kafka/log4j.properties -cp '/opt/kafka/libs/*' \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$1"
START

cat >"$context/log4j.properties" <<'LOG4J'
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
LOG4J
chmod +x "$context/docker/configure" "$context/docker/launch" "$context/zookeeper-server-start"

cat >"$context/Dockerfile" <<DOCKERFILE
FROM $BASE
USER root
COPY libs /opt/kafka/libs
COPY docker /etc/confluent/docker
COPY log4j.properties /etc/kafka/log4j.properties
COPY zookeeper-server-start /usr/local/bin/
RUN mkdir -p /var/lib/zookeeper/data /var/lib/zookeeper/log /var/lib/kafka/data
WORKDIR /tmp
EXPOSE 9093
CMD []
DOCKERFILE

docker build -q --network host -t "$IMAGE" "$context" >/dev/null
docker image inspect --format '{{.RepoTags}} {{.Size}} bytes' "$IMAGE"
