"""A notebook as a user writes it, executed: tables and pictures in its outputs, its functions in worker processes."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is part of the dev extra")
nbformat = pytest.importorskip("nbformat", reason="nbformat is part of the dev extra")

CELLS = {
    "setup": """
        import numpy as np
        import thrifty as th

        SCALE = 0.3

        def add_noise(theta, rng):
            return theta + SCALE * rng.normal(size=2)

        def simulate(theta, rng):
            return th.Output(add_noise(theta, rng), cost=float(np.exp(2 * theta[0])))

        prior = th.Uniform([0, 1], [2, 4], names=["beta", "gamma"])
        x_o = [1.0, 2.5]
        """,
    "campaign": """
        campaign = th.Campaign("runs", simulate, prior, seed=0, cost="reported", unit="events")
        campaign.pilot(40, workers=2)
        campaign
        """,
    "quote": "campaign.quote(n=160)",
    "plan": "campaign.plan(n=160)",
    "run": "campaign.run(workers=2)",
    "status": "campaign.status()",
    "simulations": """
        simulations = campaign.simulations()
        simulations
        """,
    "tradeoff": "th.tradeoff(prior, th.fit_cost(simulations.theta, simulations.cost))",
    "cost": "th.fit_cost(simulations.theta, simulations.cost)",
    "posterior": """
        posterior = th.ABC(prior, quantile=0.3).fit(simulations)
        posterior
        """,
    "accepted": "posterior.accepted(x_o)",
    "diagnosis": "th.diagnose(posterior, simulations, x_o)",
    "study": """
        study = th.Study(posterior, simulations, np.array(x_o), method="abc", campaign=campaign)
        _ = study.samples
        study
        """,
    "generations": "th.SMCABC(prior).run(simulate, x_o, n=450, seed=1)",
    "posterior plot": "posterior.plot(x_o, prior=prior, truth=[1.0, 2.6])",
    "runs plot": "simulations.plot(x_o=x_o)",
    "cost plot": "campaign.plot_cost()",
    "study plot": "study.plot()",
    "report": 'print(campaign.report("report.html").stat().st_size > 10_000)',
}
FIGURES = [name for name in CELLS if "plot" in name]
TABLES = [name for name in CELLS if name not in ("setup", "report", *FIGURES)]
MAX_LINES = 40  # of text that one cell writes: a screen


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Name of a cell -> what it left below it, in a fresh kernel."""
    home = tmp_path_factory.mktemp("notebook")
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(textwrap.dedent(code).strip()) for code in CELLS.values()]
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(home)}}).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, book.cells, strict=True)}


def find_result(outputs: list[Any]) -> dict[str, str]:
    """The data of the object that the last line of a cell shows, by kind."""
    (shown,) = [output for output in outputs if output.output_type in ("execute_result", "display_data")]
    return shown.data


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_cell_ends_with_a_table(name: str, outputs: dict[str, list[Any]]):
    data = find_result([o for o in outputs[name] if o.output_type == "execute_result"])
    assert "<table>" in data["text/html"]
    for text in data.values():
        assert not re.search(r"array\(|object at 0x|^\w+\(\w+=", text), text[:300]
        assert "cannot be shown" not in text


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_cell_ends_with_a_picture(name: str, outputs: dict[str, list[Any]]):
    assert "image/png" in find_result(outputs[name])


@pytest.mark.slow
def test_functions_of_cells_run_in_workers(outputs: dict[str, list[Any]]):
    assert "200 of 200" in find_result([o for o in outputs["run"] if o.output_type == "execute_result"])["text/plain"]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CELLS))
def test_no_cell_floods_the_notebook(name: str, outputs: dict[str, list[Any]]):
    written = "".join(o.text for o in outputs[name] if o.output_type == "stream")
    assert len(written.splitlines()) <= MAX_LINES, written[:2000]
    assert "\x1b[" not in written, "no codes of a terminal"
    assert "Traceback" not in written


@pytest.mark.slow
def test_the_report_is_written(outputs: dict[str, list[Any]]):
    assert "True" in outputs["report"][-1].text
