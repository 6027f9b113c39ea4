from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from prepared_campaign import copied, prepared  # noqa: F401 - fixtures
