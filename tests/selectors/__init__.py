# ruff: noqa: A005 - named for the room that it tests
