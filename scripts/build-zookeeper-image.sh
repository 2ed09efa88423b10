#!/usr/bin/env bash
# Builds the Docker image zookeeper-local:3.9 without asking any image registry.
#
#   scripts/build-zookeeper-image.sh [IMAGE]      IMAGE defaults to zookeeper-local:3.9
#
# How: debootstrap makes a small Debian root tree, apt puts a JVM into it, the ZooKeeper server comes from the jars
# that the Python package pyspark carries, and `docker import` turns the tree into an image.
#
# Needs: root, debootstrap, a Docker daemon, and the project installed in .venv with its extra "spark" (make install).
# DEBIAN_MIRROR overrides debootstrap's default mirror. Takes two to three minutes; nothing is left behind but the image.
#
# The image behaves as the official one where the tests look: ZooKeeper answers on 2181, its data lives in /data, the
# four-letter words are allowed, the process is PID 1 and stops at SIGTERM. SERVER_JVMFLAGS adds flags to the JVM.
set -euo pipefail

readonly IMAGE=${1:-zookeeper-local:3.9}
readonly PYTHON=${PYTHON:-$(dirname "$0")/../.venv/bin/python}
readonly SUITE=bookworm

die() { echo "build-zookeeper-image: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "debootstrap needs root: run it with sudo"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
docker info >/dev/null 2>&1 || die "no Docker daemon answers: start one (scripts/with-dockerd.sh runs a command under one)"
jars=$("$PYTHON" -c 'from zkcontroller.zookeeper.embedded import find_jars; print(*find_jars(), sep="\n")') ||
    die "no ZooKeeper server to be found (the reason stands above); 'make install' brings one"

tree=$(mktemp -d)
cleanup() {
    if mountpoint -q "$tree/proc"; then umount "$tree/proc"; fi
    rm -rf --one-file-system "$tree"
}
trap cleanup EXIT

echo "build-zookeeper-image: making a Debian $SUITE tree" >&2
# mktemp makes 0700 folders; / must be readable for the image's users.
chmod 755 "$tree"
debootstrap --variant=minbase "$SUITE" "$tree" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >&2

echo "build-zookeeper-image: adding a JVM" >&2
# The JVM's package scripts read /proc; daemons must not start inside the tree.
mount -t proc proc "$tree/proc"
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
chmod +x "$tree/usr/sbin/policy-rc.d"
DEBIAN_FRONTEND=noninteractive chroot "$tree" apt-get install -y -qq --no-install-recommends \
    openjdk-17-jre-headless >&2
umount "$tree/proc"
rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/usr/share/doc

echo "build-zookeeper-image: adding the ZooKeeper server" >&2
mkdir -p "$tree/opt/zookeeper/lib" "$tree/opt/zookeeper/conf" "$tree/data"
mapfile -t jars <<<"$jars"
cp "${jars[@]}" "$tree/opt/zookeeper/lib/"

cat >"$tree/opt/zookeeper/conf/zoo.cfg" <<'CONFIG'
tickTime=2000
initLimit=5
syncLimit=2
dataDir=/data
clientPort=2181
maxClientCnxns=0
autopurge.snapRetainCount=3
autopurge.purgeInterval=0
admin.enableServer=false
4lw.commands.whitelist=*
CONFIG

cat >"$tree/opt/zookeeper/conf/log4j2.properties" <<'CONFIG'
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
CONFIG

cat >"$tree/opt/zookeeper/start" <<'START'
#!/bin/sh
# exec: the JVM becomes PID 1 and receives the signals Docker sends.
exec java ${SERVER_JVMFLAGS:--Xmx256m} -cp '/opt/zookeeper/conf:/opt/zookeeper/lib/*' \
    org.apache.zookeeper.server.quorum.QuorumPeerMain /opt/zookeeper/conf/zoo.cfg
START
chmod +x "$tree/opt/zookeeper/start"

tar -C "$tree" --one-file-system -c . | docker import \
    --change 'EXPOSE 2181' \
    --change 'VOLUME /data' \
    --change 'WORKDIR /opt/zookeeper' \
    --change 'CMD ["/opt/zookeeper/start"]' \
    --message 'ZooKeeper 3.9 from the jars of pyspark on Debian' \
    - "$IMAGE" >/dev/null
docker image inspect --format '{{.RepoTags}} {{.Size}} bytes' "$IMAGE"
