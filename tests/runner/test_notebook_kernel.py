"""In a real kernel: functions of cells run in workers, also after their cell changed, and progress is one bar."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")

SIMULATE = """
import numpy as np, thrifty as th
OFFSET = {offset}
def helper(theta):
    return theta + OFFSET
def simulate(theta, rng):
    return {{"shifted": helper(theta)[0]}}
"""
RUN = "sims = th.simulate(simulate, [[1.0], [2.0], [3.0]], workers=2); print(sims.x.ravel().tolist(), sims.x_names)"


@pytest.fixture(scope="module")
def execute():
    """Run cells in one kernel; return (printed text, displays, updates of displays) of each."""
    kernel, client = manager.start_new_kernel(kernel_name="python3", env={**os.environ})

    def run(code: str) -> tuple[str, list[dict], list[dict]]:
        messages: list[dict] = []
        reply = client.execute_interactive(code, output_hook=messages.append, timeout=120)
        assert reply["content"]["status"] == "ok", reply["content"].get("traceback")
        found: dict[str, list] = {"stream": [], "display_data": [], "update_display_data": []}
        for message in messages:
            found.setdefault(message["msg_type"], []).append(message["content"])
        return "".join(m["text"] for m in found["stream"]), found["display_data"], found["update_display_data"]

    yield run
    client.stop_channels()
    kernel.shutdown_kernel(now=True)


def test_functions_of_cells_run_in_workers_also_after_a_change(execute):
    execute(SIMULATE.format(offset=10.0))
    assert "[11.0, 12.0, 13.0] ('shifted',)" in execute(RUN)[0]
    execute(SIMULATE.format(offset=20.0))  # the cell is run again with changed code
    assert "[21.0, 22.0, 23.0] ('shifted',)" in execute(RUN)[0]


def test_a_campaign_notices_that_a_cell_changed(execute, tmp_path):
    execute(SIMULATE.format(offset=10.0))
    open_campaign = f"c = th.Campaign({str(tmp_path / 'c')!r}, simulate, th.Uniform(0, 1))"
    execute(f"{open_campaign}; c.pilot(20, workers=2)")
    execute(SIMULATE.format(offset=20.0))
    text, _, _ = execute(
        f"{open_campaign}\ntry:\n    c.pilot(30)\nexcept th.ThriftyError as error:\n    print(error.code)"
    )
    assert "simulator-changed" in text


def test_progress_is_one_bar_that_is_drawn_again(execute):
    execute("import thrifty as th, time\ndef slow(theta, rng):\n    time.sleep(0.05)\n    return theta")
    text, shown, updates = execute("_ = th.simulate(slow, [[float(i)] for i in range(20)], workers=1)")
    assert len(shown) == 1 and len(updates) >= 2 and "ETA" not in text
    html = updates[-1]["data"]["text/html"]
    assert 'value="1.0000"' in html and "20/20 runs" in html and "20/20 runs" in updates[-1]["data"]["text/plain"]
    _, shown, _ = execute("_ = th.simulate(slow, [[1.0]], workers=1, progress='quiet')")
    assert not shown


def test_checks_show_a_bar_too(execute):
    execute(
        "import numpy as np, thrifty as th\nprior = th.Normal(0, 1)\n"
        "theta = prior.sample(1000, np.random.default_rng(0))\n"
        "sims = th.Simulations.from_arrays(theta=theta, x=theta + np.random.default_rng(1).normal(size=theta.shape))\n"
        "post = th.ABC(prior).fit(sims)"
    )
    _, shown, updates = execute("import warnings; warnings.simplefilter('ignore'); d = th.diagnose(post, sims, [0.3])")
    assert len(shown) == 1 and "checking" in updates[-1]["data"]["text/html"] and "250 of 250 runs" in str(updates[-1])
