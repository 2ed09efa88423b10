#!/usr/bin/env bash
# Builds the source archive and the wheel, and tries the wheel as a user has it: in a fresh virtual environment, in an
# empty folder, without the repository. `make wheel` runs it.
#
# A user's test runs on a real cluster as well, with what the extra zookeeper and zkctl cluster fetch bring. PYTHON names
# another interpreter for the fresh environment.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly FRESH=$work/venv USER=$work/user locks=$PWD

say() { echo "check-wheel: $*"; }
fail() { echo "check-wheel: $*" >&2; exit 1; }

# A copy: building in the tree would leave build/ and an egg-info there.
mkdir "$work/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -P -t "$work/tree" 2>/dev/null || true
.venv/bin/python -m build --no-isolation --outdir "$work/dist" "$work/tree" >"$work/build.log" 2>&1 ||
    { tail -n 20 "$work/build.log" >&2; fail "the build failed"; }
wheel=$(echo "$work"/dist/*.whl)
say "built $(basename "$wheel") of $(du -k "$wheel" | cut -f1) kB, and $(basename "$work"/dist/*.tar.gz)"

"${PYTHON:-python3}" -m venv "$FRESH"
pip() { "$FRESH/bin/python" -m pip "$@" -qq --disable-pip-version-check; }
pip install --require-hashes -r requirements.lock
pip install --no-deps "$wheel"
pytest_locked=$(grep -oE '^pytest==[^ ]+' requirements-dev.lock)
pip install "$pytest_locked"
say "installed with $pytest_locked and nothing else that is not in requirements.lock"

mkdir "$USER"
cd "$USER"
export PATH=$FRESH/bin:$PATH
unset PYTHONPATH PYTEST_ADDOPTS
export XDG_CACHE_HOME=$work/cache

python -I - <<'PYTHON'
import importlib.util
import sys
from importlib.metadata import distribution, entry_points
from pathlib import Path

import kafka_common
import kafka_history
import kraft
import replica_manager.__main__
import zkcontroller
import zkcontroller_cli.main
import zkcontroller_lab.page
import zkcontroller_simulation.world
import zkcontroller_testing.cluster

packages = (
    kafka_common,
    kafka_history,
    kraft,
    replica_manager,
    zkcontroller,
    zkcontroller_cli,
    zkcontroller_lab,
    zkcontroller_simulation,
    zkcontroller_testing,
)
assert all(sys.prefix in package.__file__ for package in packages), "not of this environment"
assert all((Path(package.__file__).parent / "py.typed").exists() for package in packages), "py.typed"
assert not {"pyspark", "hypothesis", "textual"} & set(sys.modules), "something heavy is imported"
assert importlib.util.find_spec("pyspark") is None
metadata = distribution("zkcontroller").metadata
extras = set(metadata.get_all("Provides-Extra"))
assert {"test", "history", "zookeeper", "container", "top"} <= extras, extras
assert "](docs/" not in metadata.get_payload(), "a link that leads nowhere on an index page"
assert "Typing :: Typed" in metadata.get_all("Classifier")
assert [each.value for each in entry_points(group="pytest11")] == ["zkcontroller_testing.plugin"]
PYTHON
say "imports, types, extras, description: as they should be"

[ "$(zkctl --version)" = "zkctl, version $(python -Ic 'from importlib.metadata import version as v; print(v("zkcontroller"))')" ] ||
    fail "zkctl --version says $(zkctl --version)"
echo 'def test_it(): pass' >test_nothing.py
pytest -q -W error -p no:cacheprovider test_nothing.py >"$work/pytest.log" || { cat "$work/pytest.log"; fail "the plugin breaks pytest"; }
pytest --fixtures >"$work/fixtures"
grep -q '^kafka_cluster ' "$work/fixtures" || fail "pytest does not list the fixture kafka_cluster"

zkctl lab --lesson zombie --act 'kill 3@300' --export run.html --save-test test_run.py 2>"$work/lab.log" ||
    { cat "$work/lab.log"; fail "zkctl lab writes no page"; }
grep -q 'id="recording"' run.html || fail "the page of zkctl lab has no recording"
pytest -q -W error -p no:cacheprovider test_run.py >"$work/pytest.log" || { cat "$work/pytest.log"; fail "a saved test fails"; }
say "zkctl lab wrote a page, and a test that passes"

# Without a Java and without jars: a sentence that says what is missing, and nothing left behind.
said=$(env -u JAVA_HOME PATH="$FRESH/bin" zkctl cluster start 2>&1) && fail "a cluster started without a Java"
[[ $said == *"needs Java 17 or newer"*"pip install 'zkcontroller[zookeeper]'"* ]] || fail "without a Java it says: $said"
[ ! -e zkctl-cluster/zookeeper ] || fail "a cluster that did not start left files behind"
if java=$(command -v java); then
    said=$(zkctl cluster start 2>&1) && fail "a cluster started without jars"
    [[ $said == *"zkctl cluster fetch"* ]] || fail "without jars it says: $said"
fi
say "what is missing is said: $said"

said=$(zkctl cluster fetch 2>&1) && fail "jars were fetched without jgo"
[[ $said == *"pip install 'zkcontroller[zookeeper]'"* ]] || fail "without jgo it says: $said"
pip install --require-hashes -r "$locks/requirements-zookeeper.lock"
zkctl cluster fetch >/dev/null
cat >test_orders.py <<'PYTHON'
def test_a_record_survives_its_leader(kafka_cluster):
    kafka_cluster.create_topic("orders", partitions=1, replication_factor=3)
    ledger = kafka_cluster.ledger("orders")
    ledger.produce(3)
    kafka_cluster.kill(kafka_cluster.wait_leader("orders"))
    ledger.produce(3)
    kafka_cluster.no_acknowledged_record_lost()
PYTHON
pytest -q -W error -p no:cacheprovider test_orders.py
[ ! -e .hypothesis ] || fail "a broker left .hypothesis behind"
