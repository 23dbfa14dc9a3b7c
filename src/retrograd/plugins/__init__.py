"""Plugins of other tools, which find them by entry points.

A plugin imports nothing of ours before it is used: pytest loads it in every environment in which Retrograd is installed.
"""
