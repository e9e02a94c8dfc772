"""A review in a process of its own, as a user starts it."""

import re
import signal
import subprocess
import sys
from pathlib import Path


class Served:
    """`kspr review RUN`, until it is stopped."""

    def __init__(self, run: Path, *options: str) -> None:
        command = [sys.executable, "-m", "kspr", "review", str(run), "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said = ""
        while "http://" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            self.said += line
        self.address = re.search(r"http://\S+", self.said)[0]

    @property
    def origin(self) -> str:
        return self.address.partition("/?")[0]

    def stop(self, how: int = signal.SIGINT) -> int:
        """End the process by a signal, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        rest, errors = self.process.communicate(timeout=20)
        self.said += rest + errors
        return self.process.returncode
