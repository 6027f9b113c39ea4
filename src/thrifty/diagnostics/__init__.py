"""Check whether a posterior can be trusted; every check uses the weights of the runs. One check per file.

    sbc, coverage, tarp       is the posterior right on average over observations   (held-out runs)
    data_use                  does it use the data                                  (held-out runs)
    local_c2st                is it right at x_o                                    (held-out runs)
    local_ess                 what cost-awareness took away at x_o                  (the pool)
    predictive                would its parameters give x_o                         (the pool, or fresh runs)
    misspecification          does x_o look like data of the model                  (the pool)
    weight_health             do few runs dominate the table                        (weights)
    cost_check                are costs as predicted                                (timings)

`th.diagnose` runs them all and answers one question with each group of them (`diagnosis`). Every result has `name`,
`verdict` and `reason`.
"""

from thrifty.diagnostics.calibration import Calibration
from thrifty.diagnostics.cost_check import CostCheck, cost_check
from thrifty.diagnostics.coverage import coverage
from thrifty.diagnostics.data_use import DataUse, data_use
from thrifty.diagnostics.diagnose import diagnose
from thrifty.diagnostics.diagnosis import Answer, Diagnosis
from thrifty.diagnostics.local_c2st import LocalC2ST, local_c2st
from thrifty.diagnostics.local_ess import LocalEss, local_ess
from thrifty.diagnostics.misspecification import Misspecification, misspecification
from thrifty.diagnostics.predictive import Predictive, predictive
from thrifty.diagnostics.replicates import Replicates, Unanswered, replicate
from thrifty.diagnostics.sbc import sbc
from thrifty.diagnostics.tarp import tarp
from thrifty.diagnostics.verdict import Check, Trust
from thrifty.diagnostics.weight_health import AcceptedRuns, WeightHealth, weight_health

__all__ = [
    "AcceptedRuns",
    "Answer",
    "Calibration",
    "Check",
    "CostCheck",
    "DataUse",
    "Diagnosis",
    "LocalC2ST",
    "LocalEss",
    "Misspecification",
    "Predictive",
    "Replicates",
    "Trust",
    "Unanswered",
    "WeightHealth",
    "cost_check",
    "coverage",
    "data_use",
    "diagnose",
    "local_c2st",
    "local_ess",
    "misspecification",
    "predictive",
    "replicate",
    "sbc",
    "tarp",
    "weight_health",
]
