"""Authentication and authorization: TLS, SASL, and Kafka's access control lists.

* :mod:`.principals`: the principals of clients, and how a certificate's name is mapped to one.
* :mod:`.acl_cache`, :mod:`.authorizer`: pure; the ACLs in memory, and decisions by them.
* :mod:`.acl_store`: the ACLs in ZooKeeper; blocks.
* :mod:`.sasl_mechanisms`, :mod:`.sasl_authenticator`: pure; SASL authentication by messages.
* :mod:`.oauth_tokens`, :mod:`.oauth_signed_tokens`, :mod:`.oauth_login`: tokens of OAUTHBEARER.
* :mod:`.key_material`, :mod:`.jaas`, :mod:`.settings`: read the configuration of TLS and SASL.

A decision never waits: ACLs and credentials are in memory, and are updated from ZooKeeper.

What must not be done here: log or keep a password; compare a secret in other than constant time;
allow an operation because an ACL could not be read.
"""
