"""Connections to brokers and controllers, as a client has them, and the threads of small servers.

* :mod:`.byte_stream`: bytes over TCP or TLS; :mod:`.connection`: one request after the other on
  top of it; :mod:`.client_security`: TLS and SASL from a client's side.
* :mod:`.bounded_threads`: the threads of a server that is none of the brokers' event loop.
* :mod:`.presence`: whether the client that a server works for is still there.
* :mod:`.awaited_responses`: which coroutine waits for the response with which id.

May import ``protocol``, ``model`` and ``errors``.

What must not be done here: interpret a response.  What a broker listens with is in
``replica_manager/network``.
"""
