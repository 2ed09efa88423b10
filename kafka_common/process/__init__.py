"""What concerns a whole process: interpreter, clock, limits of the operating system.

* :mod:`.interpreter`: garbage collector and switches between threads, set once at the start.
* :mod:`.wall_clock`: milliseconds since 1970 that never go backwards.
* :mod:`.resource_limits`: which failures are a limit of the process and no failed disk;
  :mod:`.spare_descriptors`: a few open files kept for the moment when there are no more.

May import ``errors``.
"""
