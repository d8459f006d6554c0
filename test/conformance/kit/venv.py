"""Starts a script over with the interpreter of the environment that set-up prepares."""
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def enter():
    venv = Path(os.environ.get("ORACLE_VENV") or ROOT / ".cache" / "venv")
    python = venv / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != venv.resolve():
        os.execv(str(python), [str(python), *sys.argv])
