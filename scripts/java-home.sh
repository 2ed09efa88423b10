#!/usr/bin/env bash
# Prints the home of a JVM that can run ZooKeeper and Spark. Where none is found, root is asked whether to install one;
# without a terminal (CI, a container) it is installed, and the first line of talk says so. ZKCONTROLLER_INSTALL_JAVA=no
# forbids it, =yes allows it without a question.
#
# Wanted: Java 17 or newer with every module (Spark 4 loads jdk.incubator.vector, which jlinked runtimes leave out).
# Looked at, in this order: $JAVA_HOME, java on PATH, /usr/lib/jvm/*. Data goes to stdout, talk to stderr.
set -euo pipefail

readonly WANTED_MODULE=jdk.incubator.vector
readonly PACKAGE=openjdk-17-jre-headless

say() { echo "java-home: $*" >&2; }

# The home a java binary belongs to, printed when that JVM is good enough.
usable_home() {
    local java=$1 modules version major
    [ -x "$java" ] || return 1
    java=$(readlink -f "$java")
    modules=$("$java" --list-modules 2>/dev/null) || { say "$java is older than Java 9, passed over"; return 1; }
    version=$(sed -n 's/^java\.base@//p' <<<"$modules")
    major=${version%%[.+-]*}
    if [ "${major:-0}" -lt 17 ]; then
        say "$java is Java $version, 17 or newer is needed, passed over"
        return 1
    fi
    if ! grep -q "^$WANTED_MODULE" <<<"$modules"; then
        say "$java lacks the module $WANTED_MODULE (a jlinked runtime?), passed over"
        return 1
    fi
    dirname "$(dirname "$java")"
}

find_home() {
    local java
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
        [ -n "$java" ] && usable_home "$java" && return
    done
    return 1
}

# Whether a package may be installed for the whole machine. A question is only put to a person.
may_install() {
    local answer
    case ${ZKCONTROLLER_INSTALL_JAVA:-} in
        yes) return 0 ;;
        no)
            say "no usable JVM found, and ZKCONTROLLER_INSTALL_JAVA=no forbids to install one"
            return 1
            ;;
    esac
    [ -t 0 ] && [ -t 2 ] || return 0
    read -r -p "java-home: no usable JVM found. Install the system package $PACKAGE with apt-get? [y/N] " answer
    [[ $answer == [yY]* ]]
}

install_java() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        return 1
    fi
    may_install || return 1
    say "no usable JVM found: installing the system package $PACKAGE with apt-get, as root"
    export DEBIAN_FRONTEND=noninteractive
    # apt is talkative, and our stdout is kept for the path: what it says matters only if it fails.
    local log
    log=$(mktemp)
    if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$PACKAGE"; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

if ! find_home && ! { install_java && find_home; }; then
    say "found no Java 17 or newer with all its modules, and could not install one. Do one of these, then try again:"
    say "  sudo apt-get install $PACKAGE"
    say "  export JAVA_HOME=/path/to/a/complete/jdk-17-or-newer"
    exit 1
fi
