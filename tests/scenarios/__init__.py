"""What the controller does, in short scenarios against the simulated world."""
