"""The builtins as they were before any code of a model ran.

A module whose global ``__builtins__`` is this mapping before its functions are defined keeps them,
whatever a program does to the module ``builtins`` later.
"""

from __future__ import annotations

import builtins
from typing import Any

BUILTINS: Any = dict(vars(builtins))
