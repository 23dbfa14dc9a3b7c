"""Modules that test files share: `from support import …`. Test files cannot import each other; `tests` is on pytest's `pythonpath`."""
