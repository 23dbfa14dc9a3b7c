"""Functional programs: gradients by nested lists, an interpreter that is trained, descent inside descent, and the memory of forgetting. See docs/functional.md."""
