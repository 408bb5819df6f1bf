"""A command and the most memory that was resident in it."""

import os
import subprocess
import sys

# A process' own peak begins with that of the one that forked it, so a small one forks it.
MEASURE = """
import os, sys
child = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
os.write(int(sys.argv[1]), str(usage.ru_maxrss).encode())
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""


def run_measured(*command, timeout=300, env=None):
    """The completed process and its peak in MiB."""
    reading, writing = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, str(writing), *map(str, command)],
                              capture_output=True, timeout=timeout, pass_fds=[writing],
                              env={**os.environ, **(env or {})})
        os.close(writing)
        writing = None
        return done, int(os.read(reading, 32)) / 1024
    finally:
        os.close(reading)
        if writing is not None:
            os.close(writing)
