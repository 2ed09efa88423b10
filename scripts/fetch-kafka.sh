#!/bin/sh
# Fetches Apache Kafka from Maven Central for tests/peers and benchmarks/: 3.9.1 (broker and tools), or with the argument
# older all of the older and newer versions whose clients and brokers are tried with ours, with a version that one (2.8.2
# has the last tools that speak to ZooKeeper themselves), with applications Kafka Streams, Connect and MirrorMaker of
# 3.9.1, with jmx-exporter the agent that shows Kafka's metrics to Prometheus, with tests the integration tests of Kafka
# and Kafka Streams 3.9.1 and what runs them.
# KAFKA_LIBS names another folder to put the jars of 3.9.1 into, KAFKA_APPLICATIONS_LIBS one for the applications,
# JMX_EXPORTER_LIBS one for the agent, KAFKA_TESTS_LIBS one for the tests.
set -eu

version=${1:-3.9.1}
libs=$HOME/.cache/zkcontroller/kafka-$version/libs
group=org.apache.kafka name="Kafka $version" tests_of= others=
case $version in
    3.9.1) libs=${KAFKA_LIBS:-$libs}; artifacts='kafka_2.13 kafka-tools' ;;
    0.8.2.2 | 0.9.0.1) artifacts=kafka_2.11 ;;
    0.10.2.2 | 1.1.1) artifacts=kafka_2.12 ;;
    2.4.1 | 2.8.2 | 3.5.2) artifacts=kafka_2.13 ;;
    4.1.0) artifacts='kafka_2.13 kafka-tools' ;;
    older)
        for each in 0.8.2.2 0.9.0.1 0.10.2.2 1.1.1 2.4.1 2.8.2 3.5.2 4.1.0; do "$0" "$each"; done
        exit ;;
    applications)
        version=3.9.1 name='Kafka Streams, Connect and MirrorMaker 3.9.1,'
        artifacts='kafka-streams connect-runtime connect-file connect-mirror'
        libs=${KAFKA_APPLICATIONS_LIBS:-$HOME/.cache/zkcontroller/kafka-applications-$version/libs} ;;
    jmx-exporter)
        version=1.0.1 group=io.prometheus.jmx artifacts=jmx_prometheus_javaagent name='the JMX exporter 1.0.1'
        libs=${JMX_EXPORTER_LIBS:-$HOME/.cache/zkcontroller/jmx-exporter-$version} ;;
    tests)
        version=3.9.1 name="Kafka's own tests of 3.9.1,"
        artifacts='kafka_2.13 kafka-tools kafka-streams'
        tests_of='kafka_2.13 kafka-clients kafka-group-coordinator kafka-server-common kafka-streams kafka-tools'
        others='org.junit.platform:junit-platform-console-standalone:1.10.2 org.mockito:mockito-core:5.10.0
            org.mockito:mockito-junit-jupiter:5.10.0 org.hamcrest:hamcrest:2.2 org.scala-lang:scala-compiler:2.13.15
            org.bouncycastle:bcpkix-jdk18on:1.75'
        libs=${KAFKA_TESTS_LIBS:-$HOME/.cache/zkcontroller/kafka-tests-$version/libs} ;;
    *) echo "fetch-kafka: $version is not among those that are used: older, applications, jmx-exporter, tests, or a version as in this script" >&2; exit 2 ;;
esac

complete=yes
for artifact in $artifacts; do
    [ -e "$libs/$artifact-$version.jar" ] || complete=no
done
if [ $complete = yes ]; then
    echo "$name is in $libs"
    exit 0
fi
if ! command -v mvn >/dev/null; then
    echo "fetch-kafka: Maven is missing; install it (Debian: apt install maven) and run this again" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    cat <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>zkcontroller</groupId>
  <artifactId>kafka-peer</artifactId>
  <version>1</version>
  <dependencies>
POM
    for artifact in $artifacts; do
        cat <<POM
    <dependency>
      <groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>
    </dependency>
POM
    done
    for module in $tests_of; do
        cat <<POM
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>$module</artifactId><version>$version</version>
      <classifier>test</classifier>
    </dependency>
POM
    done
    for each in $others; do
        cat <<POM
    <dependency>
      <groupId>${each%%:*}</groupId><artifactId>$(echo "$each" | cut -d: -f2)</artifactId><version>${each##*:}</version>
    </dependency>
POM
    done
    cat <<POM
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
POM
} >"$work/pom.xml"

# Copied aside first: an interrupted download must not look like a complete one.
mvn --quiet --batch-mode -f "$work/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$work/libs"
mkdir -p "$libs"
cp "$work"/libs/*.jar "$libs"/
echo "$name is in $libs"
