"""ZooKeeper: znodes as values, requests as values, and the session that sends them."""
