"""Functional programs: gradients by nested lists, an interpreter that is trained, and descent inside descent. See docs/functional.md."""
