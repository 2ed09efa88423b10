#!/usr/bin/env bash
# What make test runs: pytest with the given arguments, and the linters beside it, for half of the tests' time is waiting.
# What the linters say comes last, so that it is not lost among the tests' lines. Exit code: the tests', or 1 where
# a linter refused something.
set -uo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp)
# Native libraries write to stderr, also between two tests, where pytest captures nothing: librdkafka has a line for each
# broker that is gone. It is shown where a test failed.
errors=$(mktemp)
make --no-print-directory lint >"$said" 2>&1 &
linters=$!
trap 'kill "$linters" 2>/dev/null; rm -f "$said" "$errors"' EXIT

.venv/bin/pytest "$@" 2>"$errors"
code=$?
[ "$code" = 0 ] || cat "$errors" >&2
wait "$linters" || { echo "make lint failed:"; [ "$code" != 0 ] || code=1; }
cat "$said"
exit "$code"
