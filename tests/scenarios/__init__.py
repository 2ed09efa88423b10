"""What the controller does, told as short stories against the simulated world."""
