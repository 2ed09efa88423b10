"""What the active controller answers, API by API: messages to the controller's requests and back.

Source: Kafka ``ControllerApis``.
"""
