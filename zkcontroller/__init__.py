"""The controller, and the vocabulary that brokers share with it."""
