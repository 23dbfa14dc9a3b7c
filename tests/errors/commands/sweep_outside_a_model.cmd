retrograd sweep functions.py:add --args 1.0 2.0 --tech landauer,aqfp --temperature 4.2K,300K
