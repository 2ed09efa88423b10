"""``zkctl metadata diff`` and ``check perf``: what brokers know and how fast they answer.

:mod:`.metadata_look` asks every broker, :mod:`.metadata_truth` compares with the znodes;
:mod:`.perf_rounds` measures, :mod:`.perf_results` compares the times with limits.

What must not be done here: report a difference for a request without a response.
"""
