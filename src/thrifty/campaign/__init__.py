"""Running simulations: in memory (`simulate`) and durably (`Campaign`), through one loop.

    facade   campaign.py ── plan.py, status.py, savings.py
    loop     loop.py ── schedule.py (order, bundles), budget.py (when to stop), limits.py (time limits)
    engines  inline.py, workers.py (local processes), dask.py          all call run_one.py
    folder   store.py, rows.py (checksums), lock.py, verify.py
    what runs  simulator.py, command.py, fingerprint.py, seeds.py

The loop knows tables, not penalties; only the facade imports proposals and the trade-off.
"""
