"""The broker: configuration, registration, assembly; its parts are in the packages below."""
