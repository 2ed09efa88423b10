#!/usr/bin/env bash
# Runs the tests of make test again and again, each time in another order and beside processes that only compute. What
# turns red takes something for granted: the machine's speed, an order of the files, what another test left.
#
#   scripts/hammer.sh [PYTEST ARGUMENT...]         files or options; all tests of make test if there is none
#
# RUNS=10 is how often, BUSY=4 how many processes compute beside, FIRST=1 the seed of the first order. Ends with a table of
# the runs and the tests that failed, each with the runs in which it did; exit code 1 if there is any.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly RUNS=${RUNS:-10} BUSY=${BUSY:-4} FIRST=${FIRST:-1}
JAVA_HOME=$(scripts/java-home.sh)
export JAVA_HOME PATH=$JAVA_HOME/bin:$PATH
# Some images set it; the tests start hundreds of processes, each of which would compile every module again.
unset PYTHONDONTWRITEBYTECODE

logs=$(mktemp -d)
busy=()
finish() {
    [ ${#busy[@]} = 0 ] || kill "${busy[@]}" 2>/dev/null || true
    rm -rf "$logs"
}
trap finish EXIT
for _ in $(seq "$BUSY"); do
    # Ends by itself if this script is killed and cannot end it.
    timeout 86400 sh -c 'while :; do :; done' &
    busy+=($!)
done

rows=()
for seed in $(seq "$FIRST" $((FIRST + RUNS - 1))); do
    begun=$SECONDS
    echo "== run $((seed - FIRST + 1)) of $RUNS: --order $seed, beside $BUSY busy processes"
    .venv/bin/pytest -q -rfE -n $((3 * $(nproc))) --dist loadfile --no-loadscope-reorder --order "$seed" \
        -p no:cacheprovider "$@" >"$logs/$seed" 2>&1 || true
    tail -n 1 "$logs/$seed"
    rows+=("$(printf '%-10s %5d s  %s' "order $seed" $((SECONDS - begun)) "$(tail -n 1 "$logs/$seed")")")
    grep -aE '^(FAILED|ERROR) ' "$logs/$seed" | sed "s/ - .*//; s/\$/ (order $seed)/" >>"$logs/failed" || true
    sed -n '/^=* \(FAILURES\|ERRORS\) =*$/,$p' "$logs/$seed" || true
done

echo "== $RUNS runs beside $BUSY busy processes"
printf '%s\n' "${rows[@]}"
if [ -s "$logs/failed" ]; then
    sort "$logs/failed"
    exit 1
fi
