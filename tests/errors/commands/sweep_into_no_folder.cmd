retrograd sweep functions.py:add --args 1.0 2.0 --store no/where.db
