"""The build hook: compiles the engine's kernels into one library, which stands in the wheel and in the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "dynq_cli/engine/kernels/kernels.so"
NO_LINKER = 4


class KernelsHook(BuildHookInterface[BuilderConfig]):
    """Builds the library before a wheel is packed, and before an editable install is made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        command = [sys.executable, "-m", "dynq_cli.engine.kernels.build"]
        # Who edits kernels may have changed their arguments: the tests say so, and they need an install.
        command += ["--skip-stale"] if version == "editable" else []
        path = os.pathsep.join([self.root, *filter(None, [os.environ.get("PYTHONPATH")])])
        built = subprocess.run(command, cwd=self.root, env={**os.environ, "PYTHONPATH": path}, check=False)
        if built.returncode == NO_LINKER:
            self.app.display_warning("dynq will need numba to run: pip install 'dynq-cli[jit]'")
            return
        if built.returncode:
            raise SystemExit("the kernels could not be built, for the reason above")
        # The library calls nothing of Python: one for each platform is enough.
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append(f"/{LIBRARY}")
