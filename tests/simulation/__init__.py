"""The world in memory: a ZooKeeper, brokers, a network and a clock, repeatable from one seed."""
