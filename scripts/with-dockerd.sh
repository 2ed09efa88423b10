#!/usr/bin/env bash
# Runs a command with a Docker daemon at hand: scripts/with-dockerd.sh COMMAND [ARGUMENT...]
#
# A daemon that already answers is used and left alone. Otherwise root gets one for as long as the command runs, with
# --iptables=false: it touches no firewall rule of the machine, and works where iptables does not (inside a container,
# say). Containers are then reached through their published ports, which docker-proxy serves, but reach no outside network.
set -euo pipefail

die() { echo "with-dockerd: $*" >&2; exit 1; }

if docker info >/dev/null 2>&1; then
    exec "$@"
fi
command -v dockerd >/dev/null || die "no Docker daemon answers, and dockerd is not installed: apt-get install docker.io"
[ "$(id -u)" = 0 ] || die "no Docker daemon answers you: start it, join the group docker, or run this as root"

log=$(mktemp)
dockerd --iptables=false --ip-masq=false >"$log" 2>&1 &
daemon=$!
stop() {
    kill "$daemon" 2>/dev/null && wait "$daemon" || true
    rm -f "$log"
}
trap stop EXIT

for _ in $(seq 60); do
    docker info >/dev/null 2>&1 && break
    kill -0 "$daemon" 2>/dev/null || { tail -n 5 "$log" >&2; die "dockerd ended at once; its last lines stand above"; }
    sleep 0.5
done
docker info >/dev/null 2>&1 || { tail -n 5 "$log" >&2; die "dockerd does not answer after 30 s; its last lines stand above"; }

"$@"
