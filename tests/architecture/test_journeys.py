"""How many files a reader opens to follow the two main ways through thrifty, counted by tracing calls."""

from __future__ import annotations

import json
import subprocess
import sys

MAX_ROW_FILES = 25  # from the call of campaign.run() to the first row in SQLite, in the driver
MAX_FIT_FILES = 16  # of NPE.fit; one of them decides whether a bar is drawn

SCRIPT = """
import json, os, sys, tempfile, threading
import numpy as np
import thrifty as th
from thrifty.store.store import Store

SOURCE = os.path.dirname(th.__file__) + os.sep


class Trace:
    def __enter__(self):
        self.files, self.to_first_row = set(), None
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def note(self, frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCE) and frame.f_code.co_name != "<module>":
            self.files.add(name.removeprefix(SOURCE))
        if event == "return" and frame.f_code is Store.record.__code__ and not self.to_first_row:
            self.to_first_row = sorted(self.files)


def simulate(theta, rng):
    return th.Output(theta + rng.normal(), cost=float(np.exp(theta[0])))


with tempfile.TemporaryDirectory() as folder:
    prior = th.Uniform(0, 4)
    campaign = th.Campaign(folder + "/c", simulate, prior, seed=1, cost="reported")
    campaign.pilot(40, engine=th.Inline(), progress="quiet")
    campaign.plan(n=60)
    with Trace() as run:
        campaign.run(workers=2, progress="quiet")
    sims = campaign.simulations()
    method = th.NPE(prior, training=th.Training(max_epochs=2))
    with Trace() as fit:
        method.fit(sims, seed=0)
    print(json.dumps({"rows": len(sims), "row": run.to_first_row, "run": sorted(run.files), "fit": sorted(fit.files)}))
"""


def test_journeys_are_short():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found, indent=1))
    assert found["rows"] == 100
    assert {"campaign/campaign.py", "runner/loop.py", "store/store.py"} <= set(found["row"]), "the trace sees the way"
    assert len(found["row"]) <= MAX_ROW_FILES, found["row"]
    assert len(found["fit"]) <= MAX_FIT_FILES, found["fit"]
