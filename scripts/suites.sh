#!/usr/bin/env bash
# Runs the suites one after the other, and prints one table of their results and times.
#
#   scripts/suites.sh part    make test, and of each slow suite the tests that show most (.ci/run)
#   scripts/suites.sh all     everything there is (make all)
#
# Runs without a terminal. As root on Debian it installs the tools that some suites want. The browser, container and
# peers suites are left out, with a line that says why, where their tools cannot be had; where they run, they must pass.
#
# Real processes and other people's clients share a busy machine here: tests that failed are run once more, by
# themselves. A test that passes then is named as FLAKY at the end; one that fails twice has failed, and so has what is
# no test (style, types, an import).
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
export DEBIAN_FRONTEND=noninteractive

readonly EXTENT=${1:-}
case $EXTENT in
    part | all) ;;
    *) echo "usage: scripts/suites.sh part|all" >&2; exit 2 ;;
esac

# The parts. Chosen by what would break without a sign elsewhere: what crosses processes, disks and other programs.
readonly SIMULATED_SEEDS=12
readonly ATTACK_SHARE=0.01
readonly FAULTS="
    tests/faults/test_sessions.py
    tests/faults/test_full_disk.py
    tests/faults/test_unclean_election.py"
readonly ATTACK="
    tests/attack/test_random_requests.py
    tests/attack/test_huge_messages.py
    tests/attack/test_descriptor_limits.py
    tests/unit/replica_manager/server/test_hostile_batches.py
    tests/unit/replica_manager/server/test_large_requests.py"
readonly KIT="
    tests/kit/test_demos.py
    tests/kit/test_plugin.py
    tests/kit/test_serving.py
    tests/kit/test_known_bugs_of_kafka.py
    tests/kit/test_tour.py
    tests/kit/test_histories.py"
readonly HISTORY="
    tests/history/test_readers.py
    tests/history/test_report.py"
readonly CONTAINER="
    tests/integration/test_zookeeper_session.py
    tests/integration/test_zookeeper_servers.py"
readonly PEERS="
    tests/peers/test_equal_znodes.py
    tests/peers/test_equal_partition_decisions.py
    tests/peers/test_equal_requests_and_logs.py
    tests/peers/test_mixed_replicas.py
    tests/peers/test_zookeeper_tools.py
    tests/peers/test_java_tools.py
    tests/peers/test_log_files.py
    tests/peers/test_raft_files.py
    tests/peers/test_metadata_log_dump.py"

# One class of many: it shows that they run.
readonly KAFKA="tests/kafka/test_own_tests.py::test_what_kafka_asks_of_itself_holds[kafka.server.ListOffsetsRequestTest]"

# A tree in which so much fails is broken as a whole: the other tests would only take time, and so would a second try.
readonly MOST_FAILURES=25

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
rows=()
notes=()

say() { echo; echo "== $*"; }

# Runs a make target, shows it live, and keeps pytest's closing line and the time. Further arguments are variables for make.
run() {
    local target=$1 begun=$SECONDS
    shift
    say "make $target"
    rm -f .pytest_cache/v/cache/lastfailed
    if ! PYTEST_ADDOPTS="--maxfail=$MOST_FAILURES" make "$target" "$@" 2>&1 | tee "$logs/$target"; then
        local failed
        mapfile -t failed < <(failed_tests)
        if passes_now "$target" "$@"; then
            notes+=("${failed[@]/#/FLAKY }")
        else
            notes+=("FAILED make $target" "${failed[@]/#/FAILED }")
        fi
    fi
    rows+=("$(printf '%-10s %5d s  %s' "$target" $((SECONDS - begun)) "$(closing_line "$target")")")
    # What is landed must be green: there is nothing to learn from the other parts.
    [ "$EXTENT" = all ] || ! has_failed || finish
}

# Whether the tests that failed pass when they run by themselves.
passes_now() {
    if grep -qE "stopping after [0-9]+ failures" "$logs/$1"; then
        echo "make $1: $MOST_FAILURES tests failed, and no more were tried"
        return 1
    fi
    say "make $1: what failed, once more"
    PYTEST_ADDOPTS="--last-failed --last-failed-no-failures none" make "$@" 2>&1 | tee "$logs/$1-again"
}

has_failed() { [[ " ${notes[*]}" = *" FAILED "* ]]; }

finish() {
    say "suites: $EXTENT, in $SECONDS s"
    printf '%s\n' "${rows[@]}" "${notes[@]}"
    # The last line is what pytest said at the end of make test.
    closing_line test
    ! has_failed
    exit
}

# In `part` the tests named by $2 alone.
run_part() {
    if [ "$EXTENT" = part ]; then run "$1" ONLY="$(xargs <<<"$2")"; else run "$1"; fi
}

closing_line() {
    local found
    found=$(grep -E '^[0-9]+ (passed|failed|skipped)|^=+ .*(passed|failed|skipped)' "$logs/$1" | tail -n 1 || true)
    echo "${found:-no test ran}"
}

failed_tests() {
    python3 -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' .pytest_cache/v/cache/lastfailed 2>/dev/null ||
        true
}

left_out() {
    say "make $1 left out: $2"
    rows+=("$(printf '%-10s %7s  %s' "$1" - "left out: $2")")
}

# Installs the package of each missing command. What is there stays as it is: an upgrade can undo what the machine's
# owner has set up (certificates, for one).
install_missing() {
    local wanted command package missing=()
    for wanted in "$@"; do
        command -v "${wanted%%=*}" >/dev/null || missing+=("$wanted")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    apt-get update -qq || echo "apt-get update failed: going on with what is there"
    for wanted in "${missing[@]}"; do
        package=${wanted#*=}
        echo "apt-get install $package"
        apt-get install -y -qq --no-install-recommends "$package" >"$logs/apt" 2>&1 ||
            { echo "no $package here; its last words:"; tail -n 2 "$logs/apt"; }
    done
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "what the tests like to have"
    install_missing kcat=kcat promtool=prometheus debootstrap=debootstrap dockerd=docker.io docker-compose=docker-compose \
        mvn=maven npm=npm go=golang chromium=chromium
fi

# Exact versions, checked by their hashes.
export LOCKED=yes
run test
run wheel
if [ "$EXTENT" = all ]; then
    run site
    run clients
    if command -v chromium >/dev/null; then
        run browser
    else
        left_out browser "no chromium (the reason stands above)"
    fi
fi
if [ "$EXTENT" = part ]; then run simulate SEEDS=$SIMULATED_SEEDS; else run simulate; fi
run_part faults "$FAULTS"
if [ "$EXTENT" = part ]; then export SHARE=$ATTACK_SHARE; else export SHARE=0.02; fi
run_part attack "$ATTACK"
run_part kit "$KIT"
run_part history "$HISTORY"

if command -v debootstrap >/dev/null && scripts/with-dockerd.sh true; then
    run_part container "$CONTAINER"
else
    left_out container "no debootstrap, or no Docker daemon can run here (the reason stands above)"
fi

if scripts/fetch-kafka.sh; then
    run_part peers "$PEERS"
    run_part kafka "$KAFKA"
else
    left_out peers "no real Kafka to be had (the reason stands above)"
fi

say "make audit"
make audit || notes+=("make audit: a known vulnerability, see above")

finish
