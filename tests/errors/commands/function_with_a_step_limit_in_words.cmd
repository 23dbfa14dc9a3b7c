retrograd run functions.py:root 0.0 2.0 --max-steps many
