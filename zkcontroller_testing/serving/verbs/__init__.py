"""What the routes of :mod:`zkcontroller_testing.serving.routes` do: a function for each.

A module for each kind of thing that they are done to: :mod:`.clusters`, :mod:`.brokers`,
:mod:`.controllers`, :mod:`.topics`, :mod:`.network`, :mod:`.znodes`, :mod:`.ledgers`, and
:mod:`.evidence` of what has happened.

A function takes one :class:`~zkcontroller_testing.serving.served_request.ServedRequest`; the class
of its body and the class that it returns are part of the API.  Its docstring is printed in the
OpenAPI document and in docs/serve.md.
"""
