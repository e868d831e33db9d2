"""Writes keyed_checksum.json: the SipHash-2-4 of 128 bits that OpenSSL computes.

usage: .venv/bin/python tests/reference/keyed_checksum.py
"""
import json
import pathlib
import subprocess
import tempfile

KEYS = ["000102030405060708090a0b0c0d0e0f", "00000000000000000000000000000000", "9f3c5b7a11d20e84c6fa0b1d2e3f4051"]
LENGTHS = [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 255, 256, 1000]


def siphash(key, data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        command = ["openssl", "mac", "-macopt", f"hexkey:{key}", "-macopt", "size:16", "-in", file.name, "SIPHASH"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().lower()


rows = [{"key": key, "length": length, "sum": siphash(key, bytes(i % 256 for i in range(length)))}
        for key in KEYS for length in LENGTHS]
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
