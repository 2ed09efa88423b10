#!/usr/bin/env bash
# Builds the Docker image zookeeper-local:3.9 without asking any image registry.
#
#   scripts/build-zookeeper-image.sh [IMAGE]      IMAGE defaults to zookeeper-local:3.9
#
# How: on python-local:3.11 (scripts/build-base-image.sh, which is run where that image is missing) apt puts a JVM, and the
# ZooKeeper server comes from the jars that the Python package pyspark carries. What has not changed is taken from Docker's
# cache.
#
# Needs: a Docker daemon, and the project installed in .venv with its extra "history" (make install).
#
# The image behaves as the official one where the tests and compose/compose.yaml look: ZooKeeper answers on 2181, its data
# lives in /data, ZOO_MY_ID and ZOO_SERVERS make it a member of an ensemble, the process is PID 1, no root, and stops at
# SIGTERM. The four-letter words are allowed. SERVER_JVMFLAGS adds flags to the JVM.
set -euo pipefail

readonly IMAGE=${1:-zookeeper-local:3.9}
readonly BASE=python-local:3.11
here=$(dirname "$0")
readonly PYTHON=${PYTHON:-$here/../.venv/bin/python}

die() { echo "build-zookeeper-image: $*" >&2; exit 1; }

docker info >/dev/null 2>&1 || die "no Docker daemon answers: start one (scripts/with-dockerd.sh runs a command under one)"
jars=$("$PYTHON" -c 'from zkcontroller.zookeeper.server_jars import find_jars; print(*find_jars(), sep="\n")') ||
    die "no ZooKeeper server to be found (the reason stands above); 'make install' brings one"
docker image inspect "$BASE" >/dev/null 2>&1 || "$here/build-base-image.sh" "$BASE"

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/lib" "$context/conf"
mapfile -t jars <<<"$jars"
cp "${jars[@]}" "$context/lib/"

cat >"$context/conf/log4j2.properties" <<'CONFIG'
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
CONFIG

cat >"$context/start" <<'START'
#!/bin/sh
set -eu
cat >/data/zoo.cfg <<CONFIG
tickTime=2000
initLimit=5
syncLimit=2
dataDir=/data
maxClientCnxns=0
autopurge.snapRetainCount=3
autopurge.purgeInterval=0
admin.enableServer=false
4lw.commands.whitelist=*
CONFIG
if [ -n "${ZOO_SERVERS:-}" ]; then
    # As the official image has it: server.1=host:2888:3888;2181 server.2=…
    for server in $ZOO_SERVERS; do echo "$server"; done >>/data/zoo.cfg
    echo "${ZOO_MY_ID:?must be set where ZOO_SERVERS is}" >/data/myid
else
    echo clientPort=2181 >>/data/zoo.cfg
fi
# exec: the JVM becomes PID 1 and receives the signals Docker sends.
exec java ${SERVER_JVMFLAGS:--Xmx256m} -cp '/opt/zookeeper/conf:/opt/zookeeper/lib/*' \
    org.apache.zookeeper.server.quorum.QuorumPeerMain /data/zoo.cfg
START
chmod +x "$context/start"

cat >"$context/Dockerfile" <<DOCKERFILE
FROM $BASE
# The package of the JVM links its manual pages, whether there is a folder for them or not.
RUN mkdir -p /usr/share/man/man1 && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --no-create-home --home-dir /data zookeeper \
    && mkdir /data /datalog && chown zookeeper /data /datalog
COPY lib /opt/zookeeper/lib
COPY conf /opt/zookeeper/conf
COPY start /opt/zookeeper/start
USER zookeeper
EXPOSE 2181 2888 3888
VOLUME ["/data", "/datalog"]
WORKDIR /opt/zookeeper
CMD ["/opt/zookeeper/start"]
DOCKERFILE

# The network of the host: a daemon without firewall rules leads containers nowhere.
docker build -q --network host -t "$IMAGE" "$context" >/dev/null
docker image inspect --format '{{.RepoTags}} {{.Size}} bytes' "$IMAGE"
