#!/usr/bin/env bash
# Looks for known vulnerabilities in the locked versions. `make audit` runs it.
#
# Ends with 1 only if a vulnerability was found. If the database cannot be reached, it says so and ends with 0: a
# network that is down must not fail a build.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=.venv/audit-tools
if ! [ -x "$tools/bin/pip-audit" ] &&
    ! { python3 -m venv "$tools" && "$tools/bin/pip" install -qq --disable-pip-version-check pip-audit; }; then
    echo "audit: pip-audit could not be installed: nothing was looked up" >&2
    exit 0
fi

answer=$(mktemp)
trap 'rm -f "$answer" "$answer.err"' EXIT
status=0
"$tools/bin/pip-audit" --disable-pip --require-hashes --progress-spinner off --format json \
    -r requirements-dev.lock >"$answer" 2>"$answer.err" || status=$?

"$tools/bin/python" - "$answer" "$status" <<'PYTHON' || { tail -n 3 "$answer.err" >&2; exit 1; }
import json
import sys

answer, status = sys.argv[1], int(sys.argv[2])
try:
    with open(answer, encoding="utf-8") as file:
        dependencies = json.load(file)["dependencies"]
except (ValueError, KeyError):
    print(f"audit: the database of vulnerabilities could not be reached (pip-audit ended with {status}):")
    print("audit: nothing was looked up")
    sys.exit(0)
found = [each for each in dependencies if each.get("vulns")]
skipped = [each["name"] for each in dependencies if "skip_reason" in each]
for each in found:
    for vulnerability in each["vulns"]:
        fixed = ", ".join(vulnerability["fix_versions"]) or "no version yet"
        print(f"audit: {each['name']} {each['version']}: {vulnerability['id']}, fixed in {fixed}")
if len(skipped) == len(dependencies):
    print("audit: the database of vulnerabilities could not be reached: nothing was looked up")
elif skipped:
    print(f"audit: not looked up, because the database does not know them: {', '.join(skipped)}")
print(f"audit: {len(dependencies) - len(skipped)} packages looked up, {len(found)} of them vulnerable")
sys.exit(1 if found else 0)
PYTHON
