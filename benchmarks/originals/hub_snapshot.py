"""Fetches a repository from HF_ENDPOINT and reports how long it took; programs/hub_snapshot.cpp does the same in C++.

usage: hub_snapshot.py REPO_ID CACHE_DIR
"""
import os
import sys
import time

import measure

os.environ.update(HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
from huggingface_hub import snapshot_download  # noqa: E402

start = time.perf_counter()
snapshot_download(sys.argv[1], cache_dir=sys.argv[2])
measure.report(call_seconds=time.perf_counter() - start)
