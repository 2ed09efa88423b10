"""Names the cluster of a write on stderr before anything is written.

An address may come from a flag, the environment, a context or a cluster file
(:mod:`..console.shared_settings`).  If brokers and a ZooKeeper are both named, their cluster ids
are compared before the write.
"""

from __future__ import annotations

from kafka_common.errors import ZkControllerError
from zkcontroller.zookeeper.connect_string import parse_connect
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import BrokerIdsZnode, ClusterIdZnode
from zkcontroller_cli.console.errors import CommandFailed, Refused
from zkcontroller_cli.console.options import Bootstrap, Origin, Settings, say
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, metadata, run
from zkcontroller_cli.znodes.registrations import read_registrations
from zkcontroller_cli.znodes.session import ZooKeeper, decoded, open_zookeeper


def registered_brokers(settings: Settings) -> str:
    """``host:port,…`` of the brokers registered in the ZooKeeper that the settings name.

    Refused if none is registered, or none has a listener of the security protocol in use.
    """
    protocol = settings.security.protocol
    with open_zookeeper(settings) as zookeeper:
        registrations = read_registrations(zookeeper)
        where = zookeeper.full(BrokerIdsZnode.PATH)
    if not registrations:
        raise Refused(
            f"no broker is registered under {where}: none runs, or the cluster has another chroot"
        )
    found = [address for each in registrations if (address := each.address_by(protocol))]
    if not found:
        raise Refused(
            f"none of the brokers under {where} has a {protocol} listener: "
            "say how to connect with --command-config FILE"
        )
    return ",".join(str(BrokerAddress(*address)) for address in found)


def brokers_to_change(settings: Settings) -> Bootstrap:
    """The brokers for a write, after their cluster was named on stderr.

    Refused if a ZooKeeper is named as well that belongs to another cluster or cannot be asked.
    """
    bootstrap = settings.bootstrap()
    known = run(metadata(bootstrap, Deadline(settings.deadline_s), ()))
    say(
        f"target: {settings.context_hint}cluster {known.cluster_id or 'without id'}, "
        f"brokers {bootstrap.servers}"
    )
    zookeeper = settings.find_zookeeper()
    if zookeeper is not None and _are_from_two_places(settings):
        try:
            with open_zookeeper(settings) as connection:
                other = _id_in(connection)
        except (CommandFailed, ZkControllerError) as error:
            raise Refused(
                f"the ZooKeeper at {zookeeper.text} does not say of which cluster it is: {error}; "
                "nothing was done, name the brokers alone to change this cluster"
            ) from error
        _must_be_one(known.cluster_id, other, bootstrap.servers, zookeeper.text)
    return bootstrap


def name_zookeeper_to_change(settings: Settings, zookeeper: ZooKeeper) -> None:
    """Name the cluster of that ZooKeeper on stderr, before a write to it.

    Refused if brokers are named as well that belong to another cluster; only a warning if they
    cannot be asked.
    """
    cluster_id = _id_in(zookeeper)
    text = settings.zookeeper()
    where = parse_connect(text)
    say(
        f"target: {settings.context_hint}cluster {cluster_id or 'without id'}, "
        f"ZooKeeper {where.hosts}{where.chroot}"
    )
    named = settings.find_bootstrap()
    if named is not None and _are_from_two_places(settings):
        brokers = settings.servers(named.text)
        try:
            known = run(metadata(brokers, Deadline(settings.deadline_s), ()))
        except CommandFailed as error:
            say(f"warning: the brokers at {named.text} were not compared: {error}")
            return
        _must_be_one(known.cluster_id, cluster_id, named.text, text)


def _are_from_two_places(settings: Settings) -> bool:
    """Whether brokers and ZooKeeper are both named, and not both by one cluster file."""
    named = settings.find_zookeeper(), settings.find_bootstrap()
    origins = [address.origin for address in named if address is not None]
    return len(origins) == 2 and origins != [Origin.CLUSTER_FILE, Origin.CLUSTER_FILE]


def _id_in(zookeeper: ZooKeeper) -> str | None:
    znode = optional(ClusterIdZnode.PATH, zookeeper.read([ClusterIdZnode.PATH])[0])
    if znode is None:
        return None
    found = decoded(ClusterIdZnode.decode, znode.data)
    return None if found is None else found.cluster_id


def _must_be_one(of_brokers: str | None, of_zookeeper: str | None, servers: str, at: str) -> None:
    if of_brokers != of_zookeeper:
        raise Refused(
            f"two clusters: the brokers at {servers} belong to {of_brokers or 'none'}, "
            f"the ZooKeeper at {at} to {of_zookeeper or 'none'}; nothing was done"
        )
