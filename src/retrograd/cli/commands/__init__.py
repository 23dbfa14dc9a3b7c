"""The commands of `retrograd`, one file each.

They import all parts, each when it is needed, and the modules of `cli`.
"""
