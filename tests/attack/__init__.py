"""A live attacker: hostile requests at real processes, and what they do to everyone else.

:mod:`.shapes` writes requests of any API and version out of kio's schemas, minimal or with one
field blown up.  :mod:`.targets` starts what is attacked, :mod:`.watch` measures it meanwhile, and
:mod:`.campaign` sends the shapes and notes what each cost.  The tests assert on counts and bytes.

``python -m tests.attack`` prints the table; ``ZKCONTROLLER_ATTACK_SEED=7 make attack`` makes other
choices than ``make attack``.
"""
