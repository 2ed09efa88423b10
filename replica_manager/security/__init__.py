"""Who a peer is, and what it may do: TLS, SASL, and the access control lists of Kafka.

* :mod:`.principals`: the name of a client, and how a certificate becomes one.
* :mod:`.acl_cache`, :mod:`.authorizer`: pure; the rules, and what follows from them.
* :mod:`.acl_store`: the same rules in ZooKeeper; blocks.
* :mod:`.sasl_mechanisms`, :mod:`.sasl_authenticator`: pure; a login, message by message.
* :mod:`.key_material`, :mod:`.jaas`, :mod:`.settings`: from the configuration to what TLS and SASL
  need.

A decision never waits: the rules and the credentials are in memory, and follow ZooKeeper.

May import configuration and ``zkcontroller``; not ``replication``, ``coordinators`` or ``server``.
What must not be done here: log or keep a password; compare a secret other than in constant time;
allow something because a rule could not be read.
"""
