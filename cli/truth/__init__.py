"""``zkctl metadata diff`` and ``check perf``: what brokers know and how fast they answer.

:mod:`.metadata_look` asks every broker, :mod:`.metadata_truth` compares with the znodes;
:mod:`.perf_rounds` measures, :mod:`.perf_results` holds that to limits.

What must not be done here: take an unanswered question for a difference.
"""
