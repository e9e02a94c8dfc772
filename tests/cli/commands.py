"""Running commands in this process, as `kspr` would."""

import pytest

from kspr.cli import main

SAID = ["--label", "species", "--features", "emb_*", "--id", "id"]
"""What must be said about the shared table."""


def run(*arguments, capsys=None):
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out if capsys else None


def fails(*arguments, capsys, code=2):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == code
    message = capsys.readouterr().err
    assert message.startswith("kspr: ")
    assert message.count("\n") == 1
    assert "Traceback" not in message
    return message
