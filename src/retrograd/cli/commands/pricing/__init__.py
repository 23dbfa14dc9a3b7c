"""Commands that count, price and measure the losses of runs: energy, sweep, entropy.

They import `cli`, `pricing` and `information`. Start with `energy.py`.
"""
