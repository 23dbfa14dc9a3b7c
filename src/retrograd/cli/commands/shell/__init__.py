"""Commands for the shell around `retrograd`: completion, the manual page.

They import `cli` and its `grammar`. Start with `completion.py`.
"""
