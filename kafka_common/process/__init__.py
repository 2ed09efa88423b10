"""Settings of a whole process: interpreter, clock, limits of the operating system.

* :mod:`.interpreter`: garbage collector and switches between threads, set once at the start.
* :mod:`.wall_clock`: milliseconds since 1970 that never go backwards.
* :mod:`.resource_limits`: distinguishes a limit of the process from a failed disk.
* :mod:`.spare_descriptors`: open descriptors, kept for when the process may open no more files.
"""
