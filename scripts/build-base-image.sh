#!/usr/bin/env bash
# Builds the Docker image python-local:3.11 without asking any image registry: Debian 12 with Python, the base of the
# project's images where python:3.11-slim-bookworm cannot be pulled.
#
#   scripts/build-base-image.sh [IMAGE]      IMAGE defaults to python-local:3.11
#
# How: debootstrap makes a small Debian root tree, `docker import` turns it into an image. The tree is kept as
# ~/.cache/zkcontroller/python-bookworm.tar, so that the next image takes seconds. Certificate authorities that this machine
# trusts by its own decision (/usr/local/share/ca-certificates) are trusted in the image, too.
#
# Needs: root, debootstrap, a Docker daemon. DEBIAN_MIRROR overrides debootstrap's default mirror.
set -euo pipefail

readonly IMAGE=${1:-python-local:3.11}
readonly SUITE=bookworm
readonly CACHED=${XDG_CACHE_HOME:-$HOME/.cache}/zkcontroller/python-$SUITE.tar
readonly AUTHORITIES=/usr/local/share/ca-certificates

die() { echo "build-base-image: $*" >&2; exit 1; }

docker info >/dev/null 2>&1 || die "no Docker daemon answers: start one (scripts/with-dockerd.sh runs a command under one)"

if [ ! -e "$CACHED" ]; then
    [ "$(id -u)" = 0 ] || die "debootstrap needs root: run it with sudo"
    command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
    mkdir -p "$(dirname "$CACHED")"
    tree=$(mktemp -d)
    trap 'rm -rf --one-file-system "$tree" "$CACHED.$$"' EXIT
    echo "build-base-image: making a Debian $SUITE tree" >&2
    # mktemp makes 0700 folders; / must be readable for the image's users.
    chmod 755 "$tree"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$SUITE" "$tree" \
        ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >&2
    if compgen -G "$AUTHORITIES/*.crt" >/dev/null; then
        cp "$AUTHORITIES"/*.crt "$tree$AUTHORITIES/"
        chroot "$tree" update-ca-certificates >&2
    fi
    rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/usr/share/doc/* "$tree"/usr/share/man/*
    # Under another name until it is whole: what a broken run leaves must not be imported.
    tar -C "$tree" --one-file-system -cf "$CACHED.$$" .
    mv "$CACHED.$$" "$CACHED"
fi

# pip brings authorities of its own; those of the image are the right ones here.
docker import \
    --change 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' \
    --change 'CMD ["python3"]' \
    --message 'Debian with Python, by debootstrap' \
    "$CACHED" "$IMAGE" >/dev/null
docker image inspect --format '{{.RepoTags}} {{.Size}} bytes' "$IMAGE"
