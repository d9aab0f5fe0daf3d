"""A module run by two processes over gloo, as a launcher starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch

from tests.conftest import ROOT


def launched(words: str, *, folder: Path | None = None, **more: str) -> list[tuple[int, str, str]]:
    """Exit code, standard output and standard error of each process, on CPUs if there is nothing else."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    shared |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **more}
    if torch.cuda.is_available():
        shared["ACCELERATE_USE_CPU"] = "true"
    command = [sys.executable, "-m", *words.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    running = [subprocess.Popen(command, env={**shared, **rank}, **pipes) for rank in ranks]
    said = [process.communicate(timeout=100) for process in running]
    return [(process.returncode, *both) for process, both in zip(running, said, strict=True)]
