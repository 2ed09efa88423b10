"""The broker's wire: listeners, connections, dispatch, and the services that handlers call."""
