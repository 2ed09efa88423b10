"""Client connections to brokers and controllers, and the threads of small servers.

* :mod:`.byte_stream`: bytes over TCP or TLS; :mod:`.connection`: one request after the other on
  top of it; :mod:`.client_security`: TLS and SASL from a client's side.
* :mod:`.bounded_threads`: the threads of small servers that do not run on a broker's event loop.
* :mod:`.presence`: whether the client of a request is still connected.
* :mod:`.awaited_responses`: the coroutines that wait for a response, by request id.

What must not be done here: interpret a response.  The listeners of brokers are in
``replica_manager/network``.
"""
